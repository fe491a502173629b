//! `oncebox ledger`: tracks which keys were processed.

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::ledger::{LedgerStatus, MarkProcessedRequest, ReleaseRequest, TryBeginRequest};
use serde::Serialize;

use crate::error::CliError;
use crate::output::{Output, Tone, pairs};
use crate::{duration, value};

/// Check whether keys were processed, and lease them while they are being processed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Acquire a lease on a key.
    ///
    /// Exits with 3 if the key was already processed, and with 4 if another owner holds a lease.
    Begin {
        /// Key to lease.
        key: String,
        /// Name of the owner, shown to operators.
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
        /// Duration of the lease, 30s to 120s.
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        lease: Option<Duration>,
    },
    /// Mark a key as processed.
    ///
    /// Exits with 3 if the lease was lost.
    Done {
        /// Key that was processed.
        key: String,
        /// Lease under which the key was processed. If not given, the holder of the lease is not checked.
        #[arg(long, value_name = "ID")]
        lease_id: Option<String>,
    },
    /// Release a lease.
    ///
    /// Exits with 3 if the lease was lost.
    Release {
        /// Leased key.
        key: String,
        /// Lease to release.
        #[arg(long, value_name = "ID")]
        lease_id: String,
    },
    /// Show the state of a key.
    Get {
        /// Key to show.
        key: String,
    },
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), CliError> {
    match &arguments.command {
        Command::Begin { key, owner, lease } => {
            let lease_seconds = lease.map(|lease| lease.as_secs());
            let begun = client
                .try_begin(&TryBeginRequest { key: key.clone(), owner: owner.clone(), lease_seconds })
                .await?;
            let fields = [("lease", begun.lease_id.clone()), ("ends", begun.expires_at.clone())];
            print(&begun, begun.status, &fields, output)?;
            match begun.status {
                LedgerStatus::Acquired => Ok(()),
                LedgerStatus::Busy => Err(CliError::Retryable(
                    "another owner holds a lease on the key: try again when it ends".into(),
                )),
                _ => Err(CliError::Refused("the key was already processed: there is nothing to do".into())),
            }
        }
        Command::Done { key, lease_id } => {
            let mark = MarkProcessedRequest { key: key.clone(), lease_id: lease_id.clone() };
            let answer = client.mark_processed(&mark).await?;
            print(&answer, answer.status, &[], output)?;
            check_lease(answer.status)
        }
        Command::Release { key, lease_id } => {
            let answer =
                client.release(&ReleaseRequest { key: key.clone(), lease_id: lease_id.clone() }).await?;
            print(&answer, answer.status, &[], output)?;
            check_lease(answer.status)
        }
        Command::Get { key } => {
            let entry = client.ledger_entry(key).await?;
            let fields = [
                ("times begun", Some(entry.attempts.to_string())),
                ("first seen", entry.first_seen.clone()),
                ("last seen", entry.last_seen.clone()),
                ("leased until", entry.lease_until.clone()),
            ];
            print(&entry, entry.status, &fields, output)
        }
    }
}

fn check_lease(status: LedgerStatus) -> Result<(), CliError> {
    let lost = "the lease has expired or belongs to another key; nothing was changed: begin again";
    if status == LedgerStatus::LeaseLost { Err(CliError::Refused(lost.into())) } else { Ok(()) }
}

fn print(
    answer: &impl Serialize,
    status: LedgerStatus,
    fields: &[(&str, Option<String>)],
    output: Output,
) -> Result<(), CliError> {
    output.write_one(answer, || {
        let tone = match status {
            LedgerStatus::Acquired | LedgerStatus::Processed | LedgerStatus::Released => Tone::Good,
            LedgerStatus::LeaseLost => Tone::Bad,
            _ => Tone::Warning,
        };
        let fields: Vec<_> =
            fields.iter().filter_map(|(name, value)| Some((*name, value.clone()?))).collect();
        let mut lines = vec![output.paint(tone, &value::wire_name(status))];
        lines.extend(pairs(output, &fields));
        lines
    })
}
