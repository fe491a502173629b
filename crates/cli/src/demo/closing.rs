//! The end of the demo: what happened in numbers, the story of one message, and whether it is all true.

use std::collections::HashMap;
use std::time::Duration;

use oncebox_client::wire::operator::{Counts, List, Message, Namespace, State};
use oncebox_client::{Client, Error};

use super::letters::money;
use super::story::{Act, Phase, Story, Tone};
use super::world::TOPIC;
use crate::explain;

/// One page shows every message that a demo can have.
const MESSAGES_MAX: u32 = 1_000;

/// The closing summary.
pub(super) fn summary(story: &Story, took: Duration) -> Vec<(Tone, String)> {
    let tally = &story.tally;
    let calls = format!("{} calls came in.", tally.calls());
    let mut lines = vec![(Tone::Plain, String::new()), (Tone::Plain, calls)];
    let mut count = |tone, name: &str, number: usize, text: &str| {
        lines.push((tone, format!("  {name:<11} {number:>4}  {text}").trim_end().to_owned()));
    };
    count(Tone::Plain, "accepted", tally.accepted, "each once");
    count(Tone::Quiet, "duplicates", tally.duplicates, "answered with the first id, and not taken in again");
    count(Tone::Odd, "refused", tally.refused, "the same key with other content");
    count(Tone::Plain, "deliveries", tally.deliveries, "to workers: at least one for each message");
    count(Tone::Odd, "retried", tally.retried, "after a failure");
    let crashed = story.crashed.unwrap_or("nobody");
    let taken_over = format!("not settled in time: {crashed} crashed, the server was killed");
    count(Tone::Good, "taken over", tally.taken_over, &taken_over);
    count(Tone::Bad, "dead", tally.dead, "given up after as many deliveries as there may be");
    count(Tone::Good, "redriven", tally.redriven, "when the bug was fixed");
    let cents = money(story.world.booked());
    let handled = format!("{cents} booked: handlers are idempotent, so a second run does no harm");
    count(Tone::Good, "handled", tally.done, &handled);
    lines.push((Tone::Plain, format!("  took {:.1} s", took.as_secs_f64())));
    lines
}

/// The story of a dead letter.
pub(super) fn explained(message: &Message) -> Vec<(Tone, String)> {
    let command = format!("oncebox explain --topic {TOPIC} --key {}", message.id);
    let opening = format!("The story of a dead letter, told by `{command}`:");
    let mut lines = vec![(Tone::Plain, String::new()), (Tone::Plain, opening)];
    lines.extend(explain::tell(message).into_iter().map(|sentence| (Tone::Quiet, format!("  {sentence}"))));
    lines
}

/// Asks the server about everything, and gives back what does not fit the story.
pub(super) async fn check(client: &Client, story: &Story) -> Result<Vec<String>, Error> {
    let mut faults = story.faults.clone();
    let list = List { limit: Some(MESSAGES_MAX), ..List::default() };
    let messages = client.messages(&list).await?.messages;
    let stored: HashMap<_, _> = messages.iter().map(|message| (message.id.as_str(), message)).collect();
    let effects = story.world.effects().clone();
    for (place, (act, part)) in story.acts.iter().zip(&story.world.script.parts).enumerate() {
        let fault = match stored.get(part.id.as_str()) {
            None => "was accepted, and is lost",
            Some(message) if Some(&message.msg_id) != act.msg_id.as_ref() => "is stored under another id",
            Some(message) if message.state != State::Done => "was accepted, and is not done",
            Some(message) if message.deliveries < act.attempt => "was delivered more often than is stored",
            Some(_) if !is_done(act) => "is done, but its acknowledgement was not answered",
            Some(_) if !effects.contains(&place) => "is done, but nothing was done",
            Some(_) => continue,
        };
        faults.push(format!("{} {fault}", story.name(place)));
    }
    if stored.len() != story.acts.len() {
        faults.push(format!("{} messages were sent, {} are stored", story.acts.len(), stored.len()));
    }
    faults.extend(stats(client, story).await?);
    Ok(faults)
}

fn is_done(act: &Act) -> bool {
    matches!(act.phase, Phase::Done { .. })
}

/// Whether the server's own numbers agree.
async fn stats(client: &Client, story: &Story) -> Result<Option<String>, Error> {
    let stats = client.stats().await?;
    let mailbox = stats.namespaces.iter().find(|of| of.namespace == Namespace::Mailbox);
    let counts = mailbox.map(|of| of.counts).unwrap_or_default();
    let expected = Counts { done: story.tally.done as u64, estimated: counts.estimated, ..Counts::default() };
    Ok((counts != expected).then(|| format!("the server counts {counts:?}, and not {expected:?}")))
}
