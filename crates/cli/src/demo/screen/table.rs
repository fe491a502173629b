//! The table: one row per message.

use std::cmp::Reverse;
use std::time::Duration;

use super::{paint, width};
use crate::demo::story::{Act, Phase, Story, Tally, Tone};
use crate::terminal::cut;
use crate::word;

/// The whole table in at most `room` rows, and a few lines around them.
pub(super) fn lines(story: &Story, now: Duration, room: usize) -> Vec<String> {
    let come: Vec<_> = (0..story.acts.len()).filter(|part| story.acts[*part].phase != Phase::Ahead).collect();
    let shown = chosen(story, &come, room);
    let mut lines = vec![format!("\x1b[1moncebox demo\x1b[0m  {:>4.1} s", now.as_secs_f64())];
    lines.extend([title(&story.tally), String::new()]);
    let head = format!("  {:<7} {:<13} {:<20} {}", "source", "id", "event", "where it stands");
    lines.push(paint(Tone::Quiet, &head));
    lines.extend(shown.iter().map(|part| row(story, *part, now)));
    if come.len() > shown.len() {
        let more = format!("  and {} more, finished before these", come.len() - shown.len());
        lines.push(paint(Tone::Quiet, &more));
    }
    lines
}

/// At most 80 columns wide, while every number has three digits.
fn title(tally: &Tally) -> String {
    let Tally { accepted, duplicates, done, dead, retried, taken_over, .. } = tally;
    format!(
        "accepted {accepted}  duplicates {duplicates}  done {done}  dead {dead}  retried {retried}  \
         taken over {taken_over}"
    )
}

/// What is not finished first, then what finished last; in the order of the script.
fn chosen(story: &Story, come: &[usize], room: usize) -> Vec<usize> {
    let mut chosen = come.to_vec();
    chosen.sort_by_key(|part| {
        let act = &story.acts[*part];
        (matches!(act.phase, Phase::Done { .. } | Phase::Dead { .. }), Reverse(act.changed))
    });
    chosen.truncate(room);
    chosen.sort_unstable();
    chosen
}

fn row(story: &Story, part: usize, now: Duration) -> String {
    let (act, part) = (&story.acts[part], &story.world.script.parts[part]);
    let (tone, sign, stand) = stand(act, now);
    let text = format!("{sign} {:<7} {:<13} {:<20} {stand}", part.source, part.id, part.event);
    paint(tone, &cut(&text, width()))
}

fn stand(act: &Act, now: Duration) -> (Tone, char, String) {
    let again = if act.attempt > 1 { format!(" (delivery {})", act.attempt) } else { String::new() };
    match &act.phase {
        Phase::Ahead => (Tone::Quiet, ' ', String::new()),
        Phase::Waiting | Phase::Redriven => (Tone::Plain, '·', "waits for a worker".to_owned()),
        Phase::Running { worker, since } => {
            let seconds = now.saturating_sub(*since).as_secs_f64();
            (Tone::Plain, '▶', format!("{worker} handles it for {seconds:.1} s{again}"))
        }
        Phase::Handled { worker } => {
            (Tone::Plain, '▶', format!("{worker} has handled it, not acknowledged yet"))
        }
        Phase::Failed { error } => (Tone::Odd, '↻', format!("comes again: {error}")),
        Phase::Orphaned { worker } => {
            (Tone::Bad, '!', format!("{worker} is gone, its visibility has not ended"))
        }
        Phase::Done { worker } => (Tone::Good, '✓', format!("done by {worker}{again}")),
        Phase::Dead { reason, error } => {
            let reason = reason.map_or("given up".to_owned(), word::of);
            (Tone::Bad, '✗', format!("dead letter: {reason}: {error}"))
        }
    }
}
