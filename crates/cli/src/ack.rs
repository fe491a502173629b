//! `oncebox ack`: deliveries were handled.

use oncebox_client::Client;
use oncebox_client::wire::mailbox::Op;

use crate::output::Output;
use crate::settle;
use crate::trouble::Trouble;

/// Acknowledges deliveries: their messages were handled, and come no more.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Receipts; or the ids of messages that were delivered once.
    #[arg(value_name = "DELIVERY", required = true)]
    deliveries: Vec<String>,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let items = settle::items(Op::Ack, arguments.deliveries.iter().map(String::as_str));
    settle::tell(&settle::all(&client, items).await?, output)
}
