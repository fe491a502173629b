//! `oncebox extend`: a delivery needs more time.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::mailbox::Extend;

use crate::duration;
use crate::output::{Output, pairs};
use crate::trouble::Trouble;

/// Gives a delivery more time, from now on.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Its receipt; or the id of its message, if that was delivered once.
    delivery: String,
    /// So much; ten times the visibility that it was received with at most.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    visibility: Duration,
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    let extend = Extend { visibility_ms: duration::millis(arguments.visibility) };
    let settled = client.extend(&arguments.delivery, &extend).await?;
    output
        .one(&settled, || pairs(output, &[("held until", settled.visible_until.clone().unwrap_or_default())]))
}
