//! The end of the demo: what happened in numbers, and whether it is true.

use std::collections::HashMap;
use std::time::Duration;

use oncebox::{DeadReason, Error, MessageState, Namespace, Oncebox, Query};

use super::handlers::ATTEMPTS_MAX;
use super::letters::money;
use super::story::{Phase, Story, Tone, word};

/// The closing summary.
pub(super) fn summary(story: &Story, took: Duration) -> Vec<(Tone, String)> {
    let tally = &story.tally;
    let calls = tally.accepted + tally.duplicates + tally.replaced + tally.conflicts;
    let mut lines = vec![(Tone::Plain, String::new()), (Tone::Plain, format!("{calls} calls came in."))];
    let mut count = |tone, name: &str, number: usize, text: &str| {
        lines.push((tone, format!("  {name:<11} {number:>4}  {text}").trim_end().to_owned()));
    };
    count(Tone::Plain, "accepted", tally.accepted, "each once");
    count(Tone::Quiet, "duplicates", tally.duplicates, "told apart by source and id, and not taken in again");
    count(Tone::Odd, "replaced", tally.replaced, "came again with other content before it was handled");
    count(Tone::Plain, "deliveries", tally.deliveries, "to handlers: at least one for each message");
    count(Tone::Odd, "retried", tally.retried, "after a failure, a panic, or a wish to come later");
    let crashed = story.crashed.map_or("nobody crashed".to_owned(), |worker| {
        format!("from {worker}, which crashed, when its leases had ended")
    });
    count(Tone::Good, "taken over", tally.taken_over, &crashed);
    let cents = money(story.world.effects().cents);
    let handled = format!("{cents} booked: handlers are idempotent, so a second run does no harm");
    count(Tone::Good, "handled", tally.done, &handled);
    count(Tone::Bad, "dead", tally.dead, "kept, with their payloads, for an operator:");
    for (act, part) in story.acts.iter().zip(&story.world.script.parts) {
        let Phase::Dead { reason, error } = &act.phase else { continue };
        let head = format!("    {} {}: {} ({error})", part.source, part.id, word(*reason));
        lines.push((Tone::Bad, head));
        lines.push((Tone::Quiet, format!("      {}", advice(*reason))));
    }
    lines.push((Tone::Plain, format!("  took {:.1} s", took.as_secs_f64())));
    lines
}

/// What an operator can do about it.
fn advice(reason: DeadReason) -> String {
    match reason {
        DeadReason::Failed => {
            "Mend what the handler says, then Operator::redrive; or Operator::erase it.".to_owned()
        }
        DeadReason::Exhausted => {
            format!("It failed {ATTEMPTS_MAX} times. When the cause is gone: Operator::redrive.")
        }
        DeadReason::Undecodable => {
            "Sent again, whole, the newer content is kept: then Operator::redrive. Or Operator::erase it."
                .to_owned()
        }
        _ => "Look at it with Operator::show, then redrive or erase it.".to_owned(),
    }
}

/// Reads everything back from the store, and gives back what does not fit the story.
pub(super) async fn check(oncebox: &Oncebox, story: &Story) -> Result<Vec<String>, Error> {
    let page = oncebox.operator("demo").page(&Query::all(Namespace::Inbox)).await?;
    let stored: HashMap<_, _> =
        page.messages.iter().map(|message| (message.key.id.as_str(), message.state)).collect();
    let effects = story.world.effects();
    let mut faults = Vec::new();
    for (act, part) in story.acts.iter().zip(&story.world.script.parts) {
        let name = format!("{} {}", part.source, part.id);
        let fault = match (&act.phase, stored.get(part.id.as_str())) {
            (Phase::Ahead, None) | (Phase::Dead { .. }, Some(MessageState::Dead)) => continue,
            (Phase::Ahead, Some(_)) => "was never accepted, but is stored",
            (_, None) => "was accepted, and is lost",
            (Phase::Done { .. }, Some(MessageState::Done)) if effects.done.contains(&part.id) => continue,
            (Phase::Done { .. }, Some(MessageState::Done)) => "is Done, but nothing was done",
            (_, Some(MessageState::Done | MessageState::Dead)) => "ended otherwise than was seen",
            (_, Some(_)) => "was accepted, and is neither Done nor Dead",
        };
        faults.push(format!("{name} {fault}"));
    }
    Ok(faults)
}
