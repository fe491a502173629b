//! `oncebox store`: verifies, repairs and measures the directory of an embedded store that is not open.

use std::path::{Path, PathBuf};

use oncebox::embedded::{self, RepairReport, Repaired, Stats, TornTail, Verified};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::output::{Output, with_progress};

/// Verify, repair or measure an embedded store that no process has open.
///
/// Writes prose, also to a pipe; with --output json or ndjson, JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Read the whole store and list all damage.
    ///
    /// Changes nothing. Exits with 1 if the store is damaged.
    Verify {
        /// Directory of the store.
        directory: PathBuf,
    },
    /// Copy a damaged store, then repair it so that it can be opened again.
    Repair {
        /// Directory of the store.
        directory: PathBuf,
        /// Directory for the copy, which must not exist (default: the directory of the store with `-before-repair`
        /// appended).
        #[arg(long, value_name = "DIRECTORY")]
        copy_to: Option<PathBuf>,
    },
    /// Show what an undamaged store contains.
    ///
    /// Changes nothing.
    Stats {
        /// Directory of the store.
        directory: PathBuf,
    },
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), CliError> {
    let output = output.prose_by_default();
    match &arguments.command {
        Command::Verify { directory } => {
            let verified = with_progress("reading the store", || embedded::verify(directory))?;
            output.write_one(&verified_json(&verified), || lines(&verified))?;
            match verified {
                Verified::Damaged(_) => {
                    let text = "the store is damaged: find the cause, then run `oncebox store repair`";
                    Err(CliError::failed(text))
                }
                _ => Ok(()),
            }
        }
        Command::Repair { directory, copy_to } => {
            let copy_to = copy_to.clone().unwrap_or_else(|| default_copy_path(directory));
            let repaired =
                with_progress("copying and repairing the store", || embedded::repair(directory, &copy_to))?;
            output.write_one(&repaired_json(&repaired), || lines(&repaired))
        }
        Command::Stats { directory } => {
            let stats = with_progress("reading the store", || embedded::stats(directory))?;
            output.write_one(&stats_json(&stats), || lines(&stats))
        }
    }
}

fn default_copy_path(directory: &Path) -> PathBuf {
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push("-before-repair");
    PathBuf::from(name)
}

fn lines(report: &impl ToString) -> Vec<String> {
    vec![report.to_string()]
}

fn torn_tail_json(tail: &TornTail) -> Value {
    let TornTail { segment, offset, bytes, frames, lsn, durable_lsn, .. } = tail;
    json!({ "segment": segment, "offset": offset, "bytes": bytes, "frames": frames, "lsn": lsn, "durable_lsn": durable_lsn })
}

fn verified_json(verified: &Verified) -> Value {
    match verified {
        Verified::Sound => json!({ "status": "sound" }),
        Verified::Torn(tail) => {
            let mut torn = torn_tail_json(tail);
            torn["status"] = json!("torn");
            torn
        }
        Verified::Damaged(damage) => {
            let findings: Vec<_> = damage.findings.iter().map(ToString::to_string).collect();
            json!({ "status": "damaged", "findings": findings, "unlisted": damage.unlisted })
        }
        _ => json!({ "status": verified.to_string() }),
    }
}

fn repaired_json(repaired: &Repaired) -> Value {
    match repaired {
        Repaired::Nothing(verified) => json!({ "repaired": false, "found": verified_json(verified) }),
        Repaired::Done(report) => report_json(report),
        _ => json!({ "repaired": true, "report": repaired.to_string() }),
    }
}

fn report_json(report: &RepairReport) -> Value {
    let findings: Vec<_> = report.found.findings.iter().map(ToString::to_string).collect();
    let losses: Vec<_> = report.losses.iter().map(ToString::to_string).collect();
    json!({
        "repaired": true,
        "findings": findings,
        "copy": report.copy.display().to_string(),
        "lossy": report.is_lossy(),
        "messages_kept": report.messages_kept,
        "frames_lost": report.frames_lost,
        "groups_lost": report.groups_lost,
        "bytes_lost": report.bytes_lost,
        "effects_lost": report.effects_lost,
        "losses": losses,
        "losses_unlisted": report.losses_unlisted,
    })
}

fn stats_json(stats: &Stats) -> Value {
    let totals = |totals: embedded::SegmentTotals| json!({ "count": totals.count, "bytes": totals.bytes });
    let counts = stats.messages.iter().map(|(namespace, counts)| {
        let oncebox::operator::Counts { seen, ready, waiting, leased, done, dead, .. } = counts;
        let counts =
            json!({ "seen": seen, "ready": ready, "waiting": waiting, "leased": leased, "done": done, "dead": dead });
        (namespace.to_string(), counts)
    });
    json!({
        "store": format!("{:032x}", stats.id),
        "opened": stats.epoch,
        "closed": stats.closed,
        "live_segments": totals(stats.live),
        "obsolete_segments": totals(stats.obsolete),
        "free_segments": totals(stats.free),
        "lsns": stats.lsns.map(|(first, last)| json!({ "first": first, "last": last })),
        "groups": stats.groups,
        "frame_bytes": stats.frame_bytes,
        "messages": Value::Object(counts.collect()),
        "time": stats.time.to_string(),
        "torn": stats.torn_tail.as_ref().map(torn_tail_json),
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::default_copy_path;

    #[test]
    fn the_default_copy_is_next_to_the_store() {
        assert_eq!(default_copy_path(Path::new("a/data/")), PathBuf::from("a/data-before-repair"));
        assert_eq!(default_copy_path(Path::new("data")), PathBuf::from("data-before-repair"));
    }
}
