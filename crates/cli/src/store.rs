//! `oncebox store`: the directory of an embedded store that nobody has open.

use std::path::{Path, PathBuf};

use oncebox::embedded::{self, Cut, Repaired, Report, Stats, Verified};
use serde_json::{Value, json};

use crate::output::{Output, while_working};
use crate::trouble::Trouble;

/// Checks, repairs and measures the directory of an embedded store that nobody has open.
///
/// Prose, also on a pipe; with --output json or ndjson, as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Reads everything and lists all damage; changes nothing. Exit code 1: it is damaged.
    Verify {
        /// The directory.
        directory: PathBuf,
    },
    /// Makes a damaged store open again, after copying it.
    Repair {
        /// The directory.
        directory: PathBuf,
        /// Where the copy goes, which must not exist; if not given, beside the directory, with `-before-repair` after its
        /// name.
        #[arg(long, value_name = "DIRECTORY")]
        copy_to: Option<PathBuf>,
    },
    /// Tells what is in a sound store; changes nothing.
    Stats {
        /// The directory.
        directory: PathBuf,
    },
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Trouble> {
    let output = output.of_prose();
    match &arguments.command {
        Command::Verify { directory } => {
            let verified = while_working("reading the store", || embedded::verify(directory))?;
            output.one(&verified_json(&verified), || lines(&verified))?;
            match verified {
                Verified::Damaged(_) => {
                    let text = "the store is damaged: find the cause, then `oncebox store repair` it";
                    Err(Trouble::failed(text))
                }
                _ => Ok(()),
            }
        }
        Command::Repair { directory, copy_to } => {
            let copy_to = copy_to.clone().unwrap_or_else(|| beside(directory));
            let repaired =
                while_working("copying and repairing the store", || embedded::repair(directory, &copy_to))?;
            output.one(&repaired_json(&repaired), || lines(&repaired))
        }
        Command::Stats { directory } => {
            let stats = while_working("reading the store", || embedded::stats(directory))?;
            output.one(&stats_json(&stats), || lines(&stats))
        }
    }
}

fn beside(directory: &Path) -> PathBuf {
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push("-before-repair");
    PathBuf::from(name)
}

fn lines(told: &impl ToString) -> Vec<String> {
    vec![told.to_string()]
}

fn cut_json(cut: &Cut) -> Value {
    let Cut { segment, offset, bytes, frames, lsn, durable_lsn, .. } = cut;
    json!({ "segment": segment, "offset": offset, "bytes": bytes, "frames": frames, "lsn": lsn, "durable_lsn": durable_lsn })
}

fn verified_json(verified: &Verified) -> Value {
    match verified {
        Verified::Sound => json!({ "status": "sound" }),
        Verified::Torn(cut) => {
            let mut torn = cut_json(cut);
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

fn report_json(report: &Report) -> Value {
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
        let oncebox::Counts { seen, ready, waiting, leased, done, dead, .. } = counts;
        let counts =
            json!({ "seen": seen, "ready": ready, "waiting": waiting, "leased": leased, "done": done, "dead": dead });
        (namespace.to_string(), counts)
    });
    json!({
        "store": format!("{:032x}", stats.id),
        "opened": stats.epoch,
        "closed": stats.closed,
        "live_segments": totals(stats.live),
        "unneeded_segments": totals(stats.unneeded),
        "blank_segments": totals(stats.blank),
        "lsns": stats.lsns.map(|(first, last)| json!({ "first": first, "last": last })),
        "groups": stats.groups,
        "frame_bytes": stats.frame_bytes,
        "messages": Value::Object(counts.collect()),
        "time": stats.time.to_string(),
        "torn": stats.torn.as_ref().map(cut_json),
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::beside;

    #[test]
    fn a_copy_lies_beside_and_not_inside() {
        assert_eq!(beside(Path::new("a/data/")), PathBuf::from("a/data-before-repair"));
        assert_eq!(beside(Path::new("data")), PathBuf::from("data-before-repair"));
    }
}
