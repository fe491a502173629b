//! The caveats of a token, as flags.

use std::time::Duration;

use oncebox_capability::Caveat;

use crate::error::CliError;
use crate::{duration, quantity};

/// What limits a token. Without a limit of a kind, it is unlimited in that respect.
#[derive(Debug, clap::Args)]
pub(super) struct Caveats {
    /// Operations, such as `send` or `ack,recv`.
    #[arg(long, value_name = "OPERATIONS", value_delimiter = ',')]
    op: Vec<String>,
    /// Namespaces: `commands`, `inbox`, `ledger`, `mailbox`.
    #[arg(long, value_name = "NAMESPACES", value_delimiter = ',')]
    namespace: Vec<String>,
    /// Exactly this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// All topics that begin with this, which ends with `.`, `/` or `:`.
    #[arg(long, value_name = "PREFIX")]
    topic_prefix: Option<String>,
    /// Maximum payload of a message in bytes.
    #[arg(long, value_name = "BYTES")]
    bytes_max: Option<u64>,
    /// Maximum number of messages per second and server.
    #[arg(long, value_name = "MESSAGES")]
    rate: Option<u32>,
    /// Addresses of clients, such as `10.0.0.0/8`.
    #[arg(long, value_name = "RANGE")]
    client: Option<String>,
    /// One delivery: the uid of its message, `/`, and its fence.
    #[arg(long, value_name = "DELIVERY")]
    delivery: Option<String>,
    /// Name for the audit log.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Time from now on when the token becomes valid.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    valid_in: Option<Duration>,
    /// How long the token is valid, from now on: such as `1h` or `30d`.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::parse)]
    pub(super) valid_for: Option<Duration>,
}

impl Caveats {
    /// The caveats in the order of the flags.
    pub(super) fn all(&self) -> Result<Vec<Caveat>, CliError> {
        let set = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names.dedup();
            (!names.is_empty()).then(|| names.join(","))
        };
        let time = |from_now: Option<Duration>| {
            from_now.map(|from_now| (quantity::unix_seconds() + from_now.as_secs()).to_string())
        };
        let texts = [
            ("op", set(&self.op)),
            ("namespace", set(&self.namespace)),
            ("topic", self.topic.clone()),
            ("topic_prefix", self.topic_prefix.clone()),
            ("bytes_max", self.bytes_max.map(|bytes| bytes.to_string())),
            ("rate", self.rate.map(|rate| format!("{rate}/s"))),
            ("client", self.client.clone()),
            ("delivery", self.delivery.clone()),
            ("name", self.name.clone()),
            ("not_before", time(self.valid_in)),
            ("expires", time(self.valid_for)),
        ];
        let caveats = texts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let parsed = caveats.map(|(name, value)| {
            Caveat::parse(&format!("{name} = {value}"))
                .map_err(|error| CliError::Usage(format!("{}: {error}", flag(name))))
        });
        parsed.collect()
    }
}

fn flag(caveat: &str) -> String {
    match caveat {
        "not_before" => "--valid-in".to_owned(),
        "expires" => "--for".to_owned(),
        other => format!("--{}", other.replace('_', "-")),
    }
}
