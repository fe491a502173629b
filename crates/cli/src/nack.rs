//! `oncebox nack`: deliveries were not handled.

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{Op, SettleItem};

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
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let items = settle::items(Op::Nack, arguments.deliveries.iter().map(String::as_str));
    let items = items.into_iter().map(|item| SettleItem { reason: arguments.reason.clone(), ..item });
    settle::tell(&settle::all(&client, items.collect()).await?, output)
}
