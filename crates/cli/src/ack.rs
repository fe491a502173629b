//! `oncebox ack`: acknowledges deliveries.

use oncebox_client::Client;
use oncebox_client::wire::mailbox::SettleOp;

use crate::error::CliError;
use crate::output::Output;
use crate::settle;

/// Acknowledge deliveries so that they are not redelivered.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Receipts, or ids of messages that were delivered only once.
    #[arg(value_name = "DELIVERY", required = true)]
    deliveries: Vec<String>,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    let items = settle::items(SettleOp::Ack, arguments.deliveries.iter().map(String::as_str));
    settle::print(&settle::settle_all(&client, items).await?, output)
}
