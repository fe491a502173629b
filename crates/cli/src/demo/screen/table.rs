//! The table: one row per message.

use std::cmp::Reverse;
use std::time::Duration;

use super::{paint, width};
use crate::demo::tracker::{Phase, Tone, Totals, TrackedMessage, Tracker};
use crate::terminal::truncate;
use crate::value;

/// The table with at most `rows_max` rows, with title and header.
pub(super) fn lines(tracker: &Tracker, now: Duration, rows_max: usize) -> Vec<String> {
    let sent: Vec<_> = (0..tracker.messages.len())
        .filter(|index| tracker.messages[*index].phase != Phase::NotSent)
        .collect();
    let shown = visible(tracker, &sent, rows_max);
    let mut lines = vec![format!("\x1b[1moncebox demo\x1b[0m  {:>4.1} s", now.as_secs_f64())];
    lines.extend([title(&tracker.totals), String::new()]);
    let head = format!("  {:<7} {:<13} {:<20} {}", "source", "id", "event", "status");
    lines.push(paint(Tone::Dim, &head));
    lines.extend(shown.iter().map(|index| row(tracker, *index, now)));
    if sent.len() > shown.len() {
        let more = format!("  and {} more that finished earlier", sent.len() - shown.len());
        lines.push(paint(Tone::Dim, &more));
    }
    lines
}

/// At most 80 columns wide as long as every number has at most three digits.
fn title(totals: &Totals) -> String {
    let Totals { accepted, duplicates, done, dead, retried, taken_over, .. } = totals;
    format!(
        "accepted {accepted}  duplicates {duplicates}  done {done}  dead {dead}  retried {retried}  \
         taken over {taken_over}"
    )
}

/// Selects unfinished messages first, then the most recently finished ones; returns them in the order of the scenario.
fn visible(tracker: &Tracker, sent: &[usize], rows_max: usize) -> Vec<usize> {
    let mut visible = sent.to_vec();
    visible.sort_by_key(|index| {
        let message = &tracker.messages[*index];
        (matches!(message.phase, Phase::Done { .. } | Phase::Dead { .. }), Reverse(message.changed))
    });
    visible.truncate(rows_max);
    visible.sort_unstable();
    visible
}

fn row(tracker: &Tracker, index: usize, now: Duration) -> String {
    let (message, planned) = (&tracker.messages[index], &tracker.context.scenario.messages[index]);
    let (tone, sign, status) = status(message, now);
    let text = format!("{sign} {:<7} {:<13} {:<20} {status}", planned.source, planned.id, planned.event);
    paint(tone, &truncate(&text, width()))
}

fn status(message: &TrackedMessage, now: Duration) -> (Tone, char, String) {
    let delivery =
        if message.attempt > 1 { format!(" (delivery {})", message.attempt) } else { String::new() };
    match &message.phase {
        Phase::NotSent => (Tone::Dim, ' ', String::new()),
        Phase::Waiting | Phase::Redriven => (Tone::Plain, '·', "waiting for a worker".to_owned()),
        Phase::Running { worker, since } => {
            let seconds = now.saturating_sub(*since).as_secs_f64();
            (Tone::Plain, '▶', format!("{worker} running for {seconds:.1} s{delivery}"))
        }
        Phase::Handled { worker } => (Tone::Plain, '▶', format!("handled by {worker}, not acknowledged yet")),
        Phase::Failed { error } => (Tone::Warning, '↻', format!("will be retried: {error}")),
        Phase::Orphaned { worker } => {
            (Tone::Bad, '!', format!("{worker} crashed, waiting for its lease to expire"))
        }
        Phase::Done { worker } => (Tone::Good, '✓', format!("done by {worker}{delivery}")),
        Phase::Dead { reason, error } => {
            let reason = reason.map_or("unknown reason".to_owned(), value::wire_name);
            (Tone::Bad, '✗', format!("dead letter: {reason}: {error}"))
        }
    }
}
