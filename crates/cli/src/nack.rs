//! `oncebox nack`: returns deliveries that were not handled.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{SettleItem, SettleOp};

use crate::duration;
use crate::error::CliError;
use crate::output::Output;
use crate::settle;

/// Return deliveries that failed.
///
/// Their messages are redelivered, or become dead letters after too many failures.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Receipts, or ids of messages that were delivered only once.
    #[arg(value_name = "DELIVERY", required = true)]
    deliveries: Vec<String>,
    /// Why the delivery failed; shown as the last error.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Redeliver after this delay instead of the topic's backoff (max 168h).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Do not redeliver: make the messages dead letters now, with the reason `failed`.
    #[arg(long, conflicts_with = "delay")]
    dead: bool,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    let items = settle::items(SettleOp::Nack, arguments.deliveries.iter().map(String::as_str));
    let delay_ms = arguments.delay.map(duration::millis);
    let items = items.into_iter().map(|item| SettleItem {
        reason: arguments.reason.clone(),
        delay_ms,
        dead: arguments.dead,
        ..item
    });
    settle::print(&settle::settle_all(&client, items.collect()).await?, output)
}
