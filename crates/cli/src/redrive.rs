//! Redrives dead messages in batches, optionally at a limited rate and after a canary.

mod canary;
mod time;

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::operator::{RedriveRequest, SweepRequest, SweepResponse};
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::CliError;
use crate::output::{self, Cell, Output, Tone, pairs, table};
use crate::{duration, text};

/// Maximum number of messages that one call redrives.
const BATCH_MAX: u32 = 1_000;
/// How often the progress is noted.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// The pause between attempts while a shard is full.
const FULL_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of refused messages in a table.
const SHOWN_MAX: usize = 20;

/// Filters for dead messages, in addition to topic and reason.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DeadFilter {
    /// Only messages whose last error contains this text.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only messages that became dead at this time or later: a timestamp as in 2026-01-01T00:00:00Z, or an age as in
    /// 2h.
    #[arg(long, value_name = "WHEN", value_parser = time::parse)]
    since: Option<String>,
    /// Only messages that became dead before this time: a timestamp or an age.
    #[arg(long, value_name = "WHEN", value_parser = time::parse)]
    until: Option<String>,
}

impl DeadFilter {
    pub(crate) fn apply(&self, sweep: SweepRequest) -> SweepRequest {
        let Self { error, since, until } = self.clone();
        SweepRequest { error, since, until, ..sweep }
    }
}

/// Rate limit, canary and waiting times of a redrive.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pace {
    /// Maximum rate in messages per second, as in 50/s.
    #[arg(long, value_name = "N/s", value_parser = rate, conflicts_with_all = ["ids", "dry_run"])]
    rate: Option<u32>,
    /// Redrive this many messages first and wait until they are handled; stop if one of them fails again.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), conflicts_with_all = ["ids", "dry_run"])]
    canary: Option<u32>,
    /// How long to wait for the canary messages to be handled.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse, requires = "canary")]
    canary_wait: Duration,
    /// How long to wait while a shard of the topic is full and no message is settled; 0s stops immediately.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, conflicts_with_all = ["ids", "dry_run"])]
    full_wait: Duration,
}

/// Parses a rate such as `50/s`.
fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").and_then(|number| number.parse().ok());
    number
        .filter(|rate| (1..=100_000).contains(rate))
        .ok_or_else(|| "expected messages per second, from 1/s to 100000/s, as in 50/s".to_owned())
}

/// The endpoint that redrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Dead letters of the mailbox.
    Mailbox,
    /// Dead messages of the namespace in the sweep.
    Namespace,
}

/// A redrive.
pub(crate) struct Job<'a> {
    pub(crate) client: &'a Client,
    pub(crate) target: Target,
    pub(crate) sweep: SweepRequest,
    pub(crate) limit: Option<u32>,
    pub(crate) pace: &'a Pace,
}

impl Job<'_> {
    /// Redrives the messages, prints the result, and fails if some of them were not redriven.
    pub(crate) async fn run(self, output: Output) -> Result<(), CliError> {
        let limit = self.limit.map_or(u64::MAX, u64::from);
        if self.sweep.dry_run || !self.sweep.ids.is_empty() {
            let mut swept = self.call(&self.sweep).await?;
            swept.matched = swept.matched.min(limit);
            print(&swept, output)?;
            return check_refused(&swept);
        }
        let count = SweepRequest { dry_run: true, list: false, ..self.sweep.clone() };
        let matched = self.call(&count).await?.matched;
        let mut progress = JobProgress {
            total: matched.min(limit),
            done: SweepResponse::default(),
            noted_at: Instant::now(),
            next: None,
        };
        let ended = self.redrive_batches(&mut progress).await;
        progress.done.more = progress.done.changed < progress.total && progress.next.is_some();
        progress.done.next = progress.next.filter(|_| progress.done.more);
        print(&progress.done, output)?;
        ended
    }

    async fn redrive_batches(&self, progress: &mut JobProgress) -> Result<(), CliError> {
        if let Some(canary) = self.pace.canary {
            self.redrive_canary(progress, canary).await?;
            if progress.is_finished() {
                return Ok(());
            }
            output::note(&format!(
                "the {} canary messages were handled: continuing",
                progress.done.ids.len()
            ));
        }
        let size = self.pace.rate.map_or(BATCH_MAX, |rate| (rate / 4).clamp(1, BATCH_MAX));
        let pause = self.pace.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) * size / rate);
        let (mut due, mut last_advance) = (Instant::now(), Instant::now());
        loop {
            let before = progress.done.changed;
            self.redrive_batch(progress, size).await?;
            if progress.done.changed > before || progress.done.stopped.is_none() {
                last_advance = Instant::now();
            }
            if progress.is_finished() {
                return Ok(());
            }
            progress.note_progress();
            if progress.done.stopped.is_some() {
                if last_advance.elapsed() >= self.pace.full_wait {
                    return Err(shard_full(progress));
                }
                sleep(FULL_PAUSE).await;
            }
            due = (due + pause).max(Instant::now());
            sleep_until(due).await;
        }
    }

    /// Redrives the canary messages and waits until they are handled.
    async fn redrive_canary(&self, progress: &mut JobProgress, canary: u32) -> Result<(), CliError> {
        let mut last_advance = Instant::now();
        loop {
            let before = progress.done.changed;
            let missing = u64::from(canary).saturating_sub(before);
            self.redrive_batch(progress, u32::try_from(missing).unwrap_or(canary)).await?;
            if progress.done.changed >= u64::from(canary) || progress.is_finished() {
                return canary::wait(self.client, &progress.done.ids, self.pace.canary_wait).await;
            }
            if progress.done.changed > before || progress.done.stopped.is_none() {
                last_advance = Instant::now();
            } else if last_advance.elapsed() >= self.pace.full_wait {
                return Err(shard_full(progress));
            } else {
                sleep(FULL_PAUSE).await;
            }
        }
    }

    /// Redrives the next batch of at most `size` messages.
    async fn redrive_batch(&self, progress: &mut JobProgress, size: u32) -> Result<(), CliError> {
        let left = u32::try_from(progress.left()).unwrap_or(u32::MAX);
        let (limit, after) = (Some(size.min(left).max(1)), progress.next.clone());
        let swept = self.call(&SweepRequest { limit, after, list: true, ..self.sweep.clone() }).await?;
        progress.done.matched += swept.matched;
        progress.done.changed += swept.changed;
        progress.done.ids.extend(swept.ids);
        progress.done.stopped = swept.stopped;
        progress.next = swept.next;
        Ok(())
    }

    async fn call(&self, sweep: &SweepRequest) -> Result<SweepResponse, CliError> {
        if self.target == Target::Namespace {
            return Ok(self.client.redrive(sweep).await?);
        }
        let SweepRequest { ids, topic, reason, error, since, until, limit, after, list, dry_run, .. } =
            sweep.clone();
        let redrive = RedriveRequest { ids, topic, reason, error, since, until, limit, after, list, dry_run };
        Ok(self.client.redrive_dead_letters(&redrive).await?)
    }
}

/// The progress of a redrive.
struct JobProgress {
    /// Number of messages to redrive.
    total: u64,
    done: SweepResponse,
    /// When the progress was last noted.
    noted_at: Instant,
    /// Cursor of the next batch.
    next: Option<String>,
}

impl JobProgress {
    fn left(&self) -> u64 {
        self.total.saturating_sub(self.done.matched)
    }

    fn is_finished(&self) -> bool {
        self.next.is_none() || self.left() == 0
    }

    fn note_progress(&mut self) {
        if self.noted_at.elapsed() >= PROGRESS_INTERVAL {
            self.noted_at = Instant::now();
            output::note(&format!("{} of {} redriven", self.done.changed, self.total));
        }
    }
}

/// The error for a shard that stays full.
fn shard_full(progress: &JobProgress) -> CliError {
    let Some(bound) = &progress.done.stopped else { return CliError::failed("stopped") };
    CliError::Retryable(format!(
        "stopped after {} of {}: {} is {} of {}, and no message was settled; the others are still dead letters: \
         redrive them later, or {}",
        progress.done.changed,
        progress.total,
        text::escape(&bound.name),
        bound.used,
        bound.limit,
        text::escape(&bound.remedy)
    ))
}

/// Fails if one of the given messages was not redriven.
fn check_refused(swept: &SweepResponse) -> Result<(), CliError> {
    let Some(first) = swept.refused.first() else { return Ok(()) };
    let (refused, total) = (swept.refused.len(), swept.refused.len() as u64 + swept.changed);
    let text =
        format!("{refused} of {total} were not redriven; the first one ({}): {}", first.id, first.message);
    Err(CliError::Refused(text::escape(&text)))
}

/// Prints the result.
fn print(swept: &SweepResponse, output: Output) -> Result<(), CliError> {
    output.write_one(swept, || {
        let changed = if swept.dry_run { "none (dry run)".to_owned() } else { swept.changed.to_string() };
        let mut lines = pairs(output, &[("matched", swept.matched.to_string()), ("redriven", changed)]);
        let row = |refused: &oncebox_client::wire::operator::RefusedMessage| {
            vec![
                Cell::toned(Tone::Bad, "refused"),
                Cell::from(&refused.id).whole(),
                Cell::from(&refused.message),
            ]
        };
        let rows: Vec<_> = swept.refused.iter().take(SHOWN_MAX).map(row).collect();
        lines.extend(table(output, &["result", "message", "reason"], &rows));
        let more = swept.refused.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            lines.push(format!("and {more} more: use --output json to list all"));
        }
        lines
    })
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn a_rate_is_a_number_per_second() {
        assert_eq!((rate("1/s"), rate("50/s")), (Ok(1), Ok(50)));
        for text in ["", "50", "0/s", "/s", "-1/s", "50/m", "1.5/s", "100001/s", "99999999999/s"] {
            assert!(rate(text).unwrap_err().contains("50/s"), "{text}");
        }
    }
}
