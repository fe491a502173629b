//! `oncebox extend`: extends the visibility timeout of a delivery.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::ExtendRequest;

use crate::duration;
use crate::error::CliError;
use crate::output::{Output, pairs};

/// Extend the visibility timeout of a delivery, counted from now.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Receipt, or id of a message that was delivered only once.
    delivery: String,
    /// New visibility timeout (max ten times the one that the message was received with).
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    visibility: Duration,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    let extend = ExtendRequest { visibility_ms: duration::millis(arguments.visibility) };
    let settled = client.extend(&arguments.delivery, &extend).await?;
    output.write_one(&settled, || {
        pairs(output, &[("held until", settled.visible_until.clone().unwrap_or_default())])
    })
}
