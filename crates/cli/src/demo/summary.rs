//! The end of the demo: the totals, the history of one dead letter, and the checks against the server.

use std::collections::HashMap;
use std::time::Duration;

use oncebox_client::wire::operator::{CountsResponse, ListRequest, MessageDetails, NamespaceName, StateName};
use oncebox_client::{Client, ClientError};

use super::context::TOPIC;
use super::tracker::{Phase, Tone, TrackedMessage, Tracker};
use super::webhook::money;
use crate::explain;

/// One page holds every message that a demo can have.
const MESSAGES_MAX: u32 = 1_000;

/// The totals of the run.
pub(super) fn totals(tracker: &Tracker, elapsed: Duration) -> Vec<(Tone, String)> {
    let totals = &tracker.totals;
    let calls = format!("{} webhook calls.", totals.calls());
    let mut lines = vec![(Tone::Plain, String::new()), (Tone::Plain, calls)];
    let mut count = |tone, name: &str, number: usize, text: &str| {
        lines.push((tone, format!("  {name:<11} {number:>4}  {text}").trim_end().to_owned()));
    };
    count(Tone::Plain, "accepted", totals.accepted, "each once");
    count(Tone::Dim, "duplicates", totals.duplicates, "answered with the id of the first call");
    count(Tone::Warning, "refused", totals.refused, "the same key with a different payload");
    count(Tone::Plain, "deliveries", totals.deliveries, "to workers: at least one per message");
    count(Tone::Warning, "retried", totals.retried, "after a failure");
    let crashed = tracker.crashed.unwrap_or("no worker");
    let taken_over = format!("lease expired: {crashed} crashed, the server was killed");
    count(Tone::Good, "taken over", totals.taken_over, &taken_over);
    count(Tone::Bad, "dead", totals.dead, "failed the maximum number of times");
    count(Tone::Good, "redriven", totals.redriven, "after the bug was fixed");
    let cents = money(tracker.context.booked());
    let handled = format!("{cents} booked: handlers are idempotent, so a second delivery does no harm");
    count(Tone::Good, "handled", totals.done, &handled);
    lines.push((Tone::Plain, format!("  took {:.1} s", elapsed.as_secs_f64())));
    lines
}

/// The history of a dead letter, as `oncebox explain` prints it.
pub(super) fn dead_letter(message: &MessageDetails) -> Vec<(Tone, String)> {
    let command = format!("oncebox explain --topic {TOPIC} --key {}", message.id);
    let title = format!("History of a dead letter, from `{command}`:");
    let mut lines = vec![(Tone::Plain, String::new()), (Tone::Plain, title)];
    lines.extend(explain::describe(message).into_iter().map(|sentence| (Tone::Dim, format!("  {sentence}"))));
    lines
}

/// Compares what the server has stored with what the demo observed; returns the violations.
pub(super) async fn check(client: &Client, tracker: &Tracker) -> Result<Vec<String>, ClientError> {
    let mut violations = tracker.violations.clone();
    let list = ListRequest { limit: Some(MESSAGES_MAX), ..ListRequest::default() };
    let messages = client.messages(&list).await?.messages;
    let stored: HashMap<_, _> = messages.iter().map(|message| (message.id.as_str(), message)).collect();
    let effects = tracker.context.effects().clone();
    for (index, (tracked, planned)) in
        tracker.messages.iter().zip(&tracker.context.scenario.messages).enumerate()
    {
        let violation = match stored.get(planned.id.as_str()) {
            None => "was accepted, but is lost",
            Some(message) if Some(&message.msg_id) != tracked.msg_id.as_ref() => "is stored under another id",
            Some(message) if message.state != StateName::Done => "was accepted, but is not done",
            Some(message) if message.deliveries < tracked.attempt => {
                "was delivered more often than the server counted"
            }
            Some(_) if !is_done(tracked) => "is done, but its acknowledgement was not confirmed",
            Some(_) if !effects.contains(&index) => "is done, but its handler had no effect",
            Some(_) => continue,
        };
        violations.push(format!("{} {violation}", tracker.name(index)));
    }
    if stored.len() != tracker.messages.len() {
        violations.push(format!(
            "{} messages were sent, {} are stored",
            tracker.messages.len(),
            stored.len()
        ));
    }
    violations.extend(stats(client, tracker).await?);
    Ok(violations)
}

fn is_done(tracked: &TrackedMessage) -> bool {
    matches!(tracked.phase, Phase::Done { .. })
}

/// Compares the server's own counts; returns the violation, if any.
async fn stats(client: &Client, tracker: &Tracker) -> Result<Option<String>, ClientError> {
    let stats = client.stats().await?;
    let mailbox = stats.namespaces.iter().find(|counts| counts.namespace == NamespaceName::Mailbox);
    let counts = mailbox.map(|mailbox| mailbox.counts).unwrap_or_default();
    let expected = CountsResponse {
        done: tracker.totals.done as u64,
        estimated: counts.estimated,
        ..CountsResponse::default()
    };
    Ok((counts != expected).then(|| format!("the server counts {counts:?}, expected {expected:?}")))
}
