//! Redriving: in pieces, at a rate, after a canary; and what became of it.

mod canary;
mod moment;

use std::time::Duration;

use oncebox_client::Client;
use oncebox_client::wire::operator::{Redrive, Sweep, Swept};
use tokio::time::{Instant, sleep, sleep_until};

use crate::output::{self, Cell, Output, Tone, pairs, table};
use crate::trouble::Trouble;
use crate::{duration, text};

/// Messages that one call redrives, at most.
const PIECE_MAX: u32 = 1_000;
/// How often the progress is written.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// The pause between attempts while a shard is full.
const FULL_PAUSE: Duration = Duration::from_millis(500);
/// Messages that were refused and are shown to people, at most.
const SHOWN_MAX: usize = 20;

/// Which of the Dead messages, beside topic and reason.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Which {
    /// Only those with this text in the last error.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only those that died then or later: a moment as in 2026-01-01T00:00:00Z, or how long ago as in 2h.
    #[arg(long, value_name = "WHEN", value_parser = moment::parse)]
    since: Option<String>,
    /// Only those that died before: a moment, or how long ago.
    #[arg(long, value_name = "WHEN", value_parser = moment::parse)]
    until: Option<String>,
}

impl Which {
    pub(crate) fn choose(&self, sweep: Sweep) -> Sweep {
        let Self { error, since, until } = self.clone();
        Sweep { error, since, until, ..sweep }
    }
}

/// How fast, and how careful.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pace {
    /// No more than this many per second, as in 50/s.
    #[arg(long, value_name = "N/s", value_parser = rate, conflicts_with_all = ["ids", "dry_run"])]
    rate: Option<u32>,
    /// Redrives this many first, and waits until they are handled; stops if one of them fails again.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), conflicts_with_all = ["ids", "dry_run"])]
    canary: Option<u32>,
    /// How long to wait until the first ones are handled.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse, requires = "canary")]
    canary_wait: Duration,
    /// How long to wait while a shard of the topic is full and no receiver makes space; 0s stops at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse, conflicts_with_all = ["ids", "dry_run"])]
    full_wait: Duration,
}

/// Reads `50/s`.
fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").and_then(|number| number.parse().ok());
    number
        .filter(|rate| (1..=100_000).contains(rate))
        .ok_or_else(|| "give how many per second, from 1/s to 100000/s, as in 50/s".to_owned())
}

/// Whose dead messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// Those of the mailbox.
    Mailbox,
    /// Those of the namespace that the sweep names.
    Namespace,
}

/// A redrive that is under way.
pub(crate) struct Job<'a> {
    pub(crate) client: &'a Client,
    pub(crate) of: Of,
    pub(crate) sweep: Sweep,
    pub(crate) limit: Option<u32>,
    pub(crate) pace: &'a Pace,
}

impl Job<'_> {
    /// Redrives what is named or what matches, tells what became of it, and fails if not all of it was redriven.
    pub(crate) async fn run(self, output: Output) -> Result<(), Trouble> {
        let most = self.limit.map_or(u64::MAX, u64::from);
        if self.sweep.dry_run || !self.sweep.ids.is_empty() {
            let mut swept = self.ask(&self.sweep).await?;
            swept.matched = swept.matched.min(most);
            tell(&swept, output)?;
            return refused(&swept);
        }
        let count = Sweep { dry_run: true, list: false, ..self.sweep.clone() };
        let found = self.ask(&count).await?.matched;
        let mut course =
            Course { total: found.min(most), done: Swept::default(), noted: Instant::now(), next: None };
        let ended = self.pieces(&mut course).await;
        course.done.more = course.done.changed < course.total && course.next.is_some();
        course.done.next = course.next.filter(|_| course.done.more);
        tell(&course.done, output)?;
        ended
    }

    async fn pieces(&self, course: &mut Course) -> Result<(), Trouble> {
        if let Some(canary) = self.pace.canary {
            self.canary(course, canary).await?;
            if course.is_over() {
                return Ok(());
            }
            output::note(&format!("the canary of {} was handled: going on", course.done.ids.len()));
        }
        let size = self.pace.rate.map_or(PIECE_MAX, |rate| (rate / 4).clamp(1, PIECE_MAX));
        let pause = self.pace.rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) * size / rate);
        let (mut due, mut moved) = (Instant::now(), Instant::now());
        loop {
            let before = course.done.changed;
            self.piece(course, size).await?;
            if course.done.changed > before || course.done.stopped.is_none() {
                moved = Instant::now();
            }
            if course.is_over() {
                return Ok(());
            }
            course.note_progress();
            if course.done.stopped.is_some() {
                if moved.elapsed() >= self.pace.full_wait {
                    return Err(full(course));
                }
                sleep(FULL_PAUSE).await;
            }
            due = (due + pause).max(Instant::now());
            sleep_until(due).await;
        }
    }

    /// Redrives the first ones, as many as there are for a canary, and waits until they are handled.
    async fn canary(&self, course: &mut Course, canary: u32) -> Result<(), Trouble> {
        let mut moved = Instant::now();
        loop {
            let before = course.done.changed;
            let missing = u64::from(canary).saturating_sub(before);
            self.piece(course, u32::try_from(missing).unwrap_or(canary)).await?;
            if course.done.changed >= u64::from(canary) || course.is_over() {
                return canary::wait(self.client, &course.done.ids, self.pace.canary_wait).await;
            }
            if course.done.changed > before || course.done.stopped.is_none() {
                moved = Instant::now();
            } else if moved.elapsed() >= self.pace.full_wait {
                return Err(full(course));
            } else {
                sleep(FULL_PAUSE).await;
            }
        }
    }

    /// Redrives the next ones, `size` at most.
    async fn piece(&self, course: &mut Course, size: u32) -> Result<(), Trouble> {
        let left = u32::try_from(course.left()).unwrap_or(u32::MAX);
        let (limit, after) = (Some(size.min(left).max(1)), course.next.clone());
        let swept = self.ask(&Sweep { limit, after, list: true, ..self.sweep.clone() }).await?;
        course.done.matched += swept.matched;
        course.done.changed += swept.changed;
        course.done.ids.extend(swept.ids);
        course.done.stopped = swept.stopped;
        course.next = swept.next;
        Ok(())
    }

    async fn ask(&self, sweep: &Sweep) -> Result<Swept, Trouble> {
        if self.of == Of::Namespace {
            return Ok(self.client.redrive(sweep).await?);
        }
        let Sweep { ids, topic, reason, error, since, until, limit, after, list, dry_run, .. } =
            sweep.clone();
        let redrive = Redrive { ids, topic, reason, error, since, until, limit, after, list, dry_run };
        Ok(self.client.redrive_dead_letters(&redrive).await?)
    }
}

/// How far a redrive has come.
struct Course {
    /// Messages that it is about.
    total: u64,
    done: Swept,
    /// When the progress was written last.
    noted: Instant,
    /// Where it goes on.
    next: Option<String>,
}

impl Course {
    fn left(&self) -> u64 {
        self.total.saturating_sub(self.done.matched)
    }

    fn is_over(&self) -> bool {
        self.next.is_none() || self.left() == 0
    }

    fn note_progress(&mut self) {
        if self.noted.elapsed() >= PROGRESS_INTERVAL {
            self.noted = Instant::now();
            output::note(&format!("{} of {} redriven", self.done.changed, self.total));
        }
    }
}

/// A shard is full, and stays so.
fn full(course: &Course) -> Trouble {
    let Some(bound) = &course.done.stopped else { return Trouble::failed("stopped") };
    Trouble::Later(format!(
        "stopped after {} of {}: {} is {} of {}, and no receiver makes space; the others are dead letters as before: \
         redrive them later, or {}",
        course.done.changed,
        course.total,
        text::plain(&bound.name),
        bound.used,
        bound.limit,
        text::plain(&bound.remedy)
    ))
}

/// Fails if one that was named was not redriven.
fn refused(swept: &Swept) -> Result<(), Trouble> {
    let Some(first) = swept.refused.first() else { return Ok(()) };
    let (many, all) = (swept.refused.len(), swept.refused.len() as u64 + swept.changed);
    let text = format!("{many} of {all} were not redriven, the first ({}): {}", first.id, first.message);
    Err(Trouble::Refused(text::plain(&text)))
}

/// What became of it.
fn tell(swept: &Swept, output: Output) -> Result<(), Trouble> {
    output.one(swept, || {
        let changed = if swept.dry_run { "none: a dry run".to_owned() } else { swept.changed.to_string() };
        let mut lines = pairs(output, &[("matched", swept.matched.to_string()), ("redriven", changed)]);
        let row = |refused: &oncebox_client::wire::operator::RefusedMessage| {
            vec![
                Cell::toned(Tone::Bad, "refused"),
                Cell::from(&refused.id).whole(),
                Cell::from(&refused.message),
            ]
        };
        let rows: Vec<_> = swept.refused.iter().take(SHOWN_MAX).map(row).collect();
        lines.extend(table(output, &["result", "message", "why"], &rows));
        let more = swept.refused.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            lines.push(format!("and {more} more: --output json lists all"));
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
