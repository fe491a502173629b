//! The table: one row per message.

use std::cmp::Reverse;
use std::time::Duration;

use super::{WIDTH, paint, short};
use crate::demo::story::{Act, Phase, Story, Tally, Tone, word};

/// The whole table in at most `room` rows, and a few lines around them.
pub(super) fn lines(story: &Story, now: Duration, room: usize) -> Vec<String> {
    let come: Vec<_> = (0..story.acts.len()).filter(|part| story.acts[*part].phase != Phase::Ahead).collect();
    let shown = chosen(story, &come, room);
    let mut lines = vec![title(&story.tally, now), String::new()];
    let head = format!("  {:<7} {:<13} {:<20} {}", "source", "id", "topic", "where it stands");
    lines.push(paint(Tone::Quiet, &head));
    lines.extend(shown.iter().map(|part| row(story, *part, now)));
    if come.len() > shown.len() {
        let more = format!("  and {} more, finished before these", come.len() - shown.len());
        lines.push(paint(Tone::Quiet, &more));
    }
    lines
}

fn title(tally: &Tally, now: Duration) -> String {
    let Tally { accepted, duplicates, done, dead, retried, taken_over, .. } = tally;
    format!(
        "\x1b[1moncebox demo\x1b[0m  {:>4.1} s   accepted {accepted}   duplicates {duplicates}   done {done}   \
         dead {dead}   retried {retried}   taken over {taken_over}",
        now.as_secs_f64()
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
    let text = format!("{sign} {:<7} {:<13} {:<20} {stand}", part.source, part.id, part.topic);
    paint(tone, &short(&text, WIDTH))
}

fn stand(act: &Act, now: Duration) -> (Tone, char, String) {
    let left = act.wakes.map(|wakes| wakes.saturating_sub(now).as_secs_f64()).filter(|left| *left > 0.0);
    let again =
        |deliveries: u32| if deliveries > 1 { format!(" (delivery {deliveries})") } else { String::new() };
    match &act.phase {
        Phase::Ahead => (Tone::Quiet, ' ', String::new()),
        Phase::Waiting => {
            let text = left.map_or("waits for a worker".to_owned(), |left| format!("due in {left:.1} s"));
            (Tone::Plain, '·', text)
        }
        Phase::Running { worker, since } => {
            let seconds = now.saturating_sub(*since).as_secs_f64();
            (Tone::Plain, '▶', format!("{worker} handles it for {seconds:.1} s{}", again(act.deliveries)))
        }
        Phase::Finished { worker } => (Tone::Plain, '▶', format!("{worker} has handled it")),
        Phase::Failed { error } => {
            let text = left.map_or("comes again".to_owned(), |left| format!("comes again in {left:.1} s"));
            (Tone::Odd, '↻', format!("{text}: {error}"))
        }
        Phase::Orphaned { worker } => {
            let text = left.map_or("has ended".to_owned(), |left| format!("ends in {left:.1} s"));
            (Tone::Bad, '!', format!("{worker} is gone, its lease {text}"))
        }
        Phase::Done { worker } => (Tone::Good, '✓', format!("done by {worker}{}", again(act.deliveries))),
        Phase::Dead { reason, .. } => (Tone::Bad, '✗', format!("dead: {}", word(*reason))),
    }
}
