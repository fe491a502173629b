//! `oncebox nack`: deliveries were not handled.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{Op, SettleItem};

use crate::duration;
use crate::output::Output;
use crate::settle;
use crate::trouble::Trouble;

/// Gives deliveries back: their messages come again, or are dead letters after too many times.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Receipts; or the ids of messages that were delivered once.
    #[arg(value_name = "DELIVERY", required = true)]
    deliveries: Vec<String>,
    /// Why; shown with the dead letter, should it become one.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// They come again after this delay, in place of the topic's back-off; 168h at most.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// They do not come again: dead letters at once, reason `failed`.
    #[arg(long, conflicts_with = "delay")]
    dead: bool,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let items = settle::items(Op::Nack, arguments.deliveries.iter().map(String::as_str));
    let delay_ms = arguments.delay.map(duration::millis);
    let items = items.into_iter().map(|item| SettleItem {
        reason: arguments.reason.clone(),
        delay_ms,
        dead: arguments.dead,
        ..item
    });
    settle::tell(&settle::all(&client, items.collect()).await?, output)
}
