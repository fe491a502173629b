//! `oncebox ledger`: was this key processed?

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::ledger::{MarkProcessed, Release, Status, TryBegin};
use serde::Serialize;

use crate::output::{Output, Tone, pairs};
use crate::trouble::Trouble;
use crate::{duration, word};

/// Asks whether keys were processed, and leases them while they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Takes a lease on a key. Exit code 3: it is processed already; 4: somebody else has it.
    Begin {
        /// The key.
        key: String,
        /// Who asks, for those who look at the store.
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
        /// For how long: 30s to 120s.
        #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
        lease: Option<Duration>,
    },
    /// The key is processed. Exit code 3: the lease was lost.
    Done {
        /// The key.
        key: String,
        /// The lease under which it was processed; without it, whoever holds it.
        #[arg(long, value_name = "ID")]
        lease_id: Option<String>,
    },
    /// Gives a lease back. Exit code 3: it was lost.
    Release {
        /// The key.
        key: String,
        /// The lease.
        #[arg(long, value_name = "ID")]
        lease_id: String,
    },
    /// What is known about a key.
    Get {
        /// The key.
        key: String,
    },
}

pub(crate) async fn run(arguments: &Arguments, client: Client, output: Output) -> Result<(), Trouble> {
    match &arguments.command {
        Command::Begin { key, owner, lease } => {
            let lease_seconds = lease.map(|lease| lease.as_secs());
            let begun =
                client.try_begin(&TryBegin { key: key.clone(), owner: owner.clone(), lease_seconds }).await?;
            let fields = [("lease", begun.lease_id.clone()), ("ends", begun.expires_at.clone())];
            tell(&begun, begun.status, &fields, output)?;
            match begun.status {
                Status::Acquired => Ok(()),
                Status::Busy => {
                    Err(Trouble::Later("somebody has a lease on the key: try again when it ends".into()))
                }
                _ => Err(Trouble::Refused("the key is processed: there is nothing to do".into())),
            }
        }
        Command::Done { key, lease_id } => {
            let mark = MarkProcessed { key: key.clone(), lease_id: lease_id.clone() };
            let answer = client.mark_processed(&mark).await?;
            tell(&answer, answer.status, &[], output)?;
            held(answer.status)
        }
        Command::Release { key, lease_id } => {
            let answer = client.release(&Release { key: key.clone(), lease_id: lease_id.clone() }).await?;
            tell(&answer, answer.status, &[], output)?;
            held(answer.status)
        }
        Command::Get { key } => {
            let entry = client.ledger_entry(key).await?;
            let fields = [
                ("times begun", Some(entry.attempts.to_string())),
                ("first seen", entry.first_seen.clone()),
                ("last seen", entry.last_seen.clone()),
                ("leased until", entry.lease_until.clone()),
            ];
            tell(&entry, entry.status, &fields, output)
        }
    }
}

fn held(status: Status) -> Result<(), Trouble> {
    let lost = "the lease has ended or is another key's, and nothing changed: begin again";
    if status == Status::LeaseLost { Err(Trouble::Refused(lost.into())) } else { Ok(()) }
}

fn tell(
    answer: &impl Serialize,
    status: Status,
    fields: &[(&str, Option<String>)],
    output: Output,
) -> Result<(), Trouble> {
    output.one(answer, || {
        let tone = match status {
            Status::Acquired | Status::Processed | Status::Released => Tone::Good,
            Status::LeaseLost => Tone::Bad,
            _ => Tone::Odd,
        };
        let fields: Vec<_> =
            fields.iter().filter_map(|(name, value)| Some((*name, value.clone()?))).collect();
        let mut lines = vec![output.paint(tone, &word::of(status))];
        lines.extend(pairs(output, &fields));
        lines
    })
}
