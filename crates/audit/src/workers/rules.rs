//! The guarantees: nothing that was answered is lost, no message is held twice at once, none is delivered after its
//! end.

use std::collections::{BTreeMap, HashMap};

use super::history::{Accept, Grant, History, Message};
use super::rows::{BY_ACK, BY_FAILURE, DEAD, DONE, Row};
use super::tally::WorkersTally;
use crate::{Result, Violation};

/// Tolerance for adjustments of the wall clock during a campaign.
const CLOCK_MS: u64 = 5;

pub(super) fn check(history: &History, rows: &[Row]) -> Result<WorkersTally> {
    let mut found: HashMap<&str, &Row> = HashMap::new();
    for row in rows {
        if found.insert(&row.key, row).is_some() {
            return Err(Violation::new(format!("{} has two rows", row.key)));
        }
        if !history.messages.contains_key(&row.key) {
            return Err(Violation::new(format!("{} has a row, but no process sent it", row.key)));
        }
    }
    let mut tally = WorkersTally::new(history);
    let mut owners: HashMap<u64, &str> = HashMap::new();
    let mut partitions: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for (key, message) in &history.messages {
        let row = found.get(key.as_str()).copied();
        let in_message = |violation: Violation| {
            Violation::new(format!("{key}: {violation}\n  {message:?}\n  row: {row:?}"))
        };
        check_accepts(message, row).map_err(in_message)?;
        check_order(message).map_err(in_message)?;
        check_overlap(message.grants.values().collect()).map_err(in_message)?;
        message
            .grants
            .keys()
            .try_for_each(|fence| check_settlements(message, *fence, row))
            .map_err(in_message)?;
        check_finished(message, row).map_err(in_message)?;
        for fence in message.grants.keys() {
            if let Some(other) = owners.insert(*fence, key) {
                return Err(Violation::new(format!("fence {fence} was granted for {other} and for {key}")));
            }
        }
        if let Some(partition) = &message.partition {
            partitions.entry(partition).or_default().extend(message.grants.values());
        }
        tally.count(message, row);
    }
    for (partition, grants) in partitions {
        check_overlap(grants)
            .map_err(|violation| Violation::new(format!("partition {partition}: {violation}")))?;
    }
    Ok(tally)
}

/// A key is accepted as new once, and always refers to the same message.
fn check_accepts(message: &Message, row: Option<&Row>) -> Result<()> {
    let answers = || message.accepts.iter().filter_map(|accept| accept.answer.as_ref());
    let answered = answers().map(|answer| &answer.uid);
    let delivered = message.grants.values().map(|grant| &grant.uid);
    let mut uids: Vec<_> = answered.chain(delivered).chain(row.map(|row| &row.uid)).collect();
    uids.sort();
    uids.dedup();
    if uids.len() > 1 {
        return Err(Violation::new(format!("the key refers to several messages: {uids:?}")));
    }
    if answers().filter(|answer| answer.is_new).count() > 1 {
        return Err(Violation::new("it was accepted as new twice"));
    }
    for (index, accept) in message.accepts.iter().enumerate() {
        let Some(answer) = &accept.answer else { continue };
        let mut others = message.accepts.iter().enumerate().filter(|(other, _)| *other != index);
        let before = |other: &Accept| {
            other.answer.as_ref().is_some_and(|answer| answer.answered_at < accept.called_at)
        };
        if answer.is_new && others.clone().any(|(_, other)| before(other)) {
            return Err(Violation::new("it was accepted as new after an earlier send was answered"));
        }
        if !answer.is_new && !others.any(|(_, other)| other.called_at <= answer.answered_at) {
            return Err(Violation::new("it was answered as a duplicate, but there was no other send"));
        }
    }
    let first_sent = message.accepts.iter().map(|accept| accept.called_at).min();
    let first_delivered = message.grants.values().map(|grant| grant.answered_at).min();
    if first_delivered.is_some_and(|delivered_at| first_sent.is_none_or(|sent_at| sent_at > delivered_at)) {
        return Err(Violation::new("it was delivered before any process sent it"));
    }
    Ok(())
}

/// The fences and counters of a message increase, and its content is what was sent.
fn check_order(message: &Message) -> Result<()> {
    for ((fence, earlier), (next, later)) in message.grants.iter().zip(message.grants.iter().skip(1)) {
        if later.answered_at < earlier.called_at {
            return Err(Violation::new(format!(
                "fence {fence} was granted after {next}: fences must increase"
            )));
        }
        if later.deliveries <= earlier.deliveries || later.attempts < earlier.attempts {
            return Err(Violation::new(format!(
                "deliveries or attempts do not increase from fence {fence} to {next}"
            )));
        }
    }
    match message.grants.iter().find(|(_, grant)| grant.hash != message.hash) {
        Some((fence, _)) => {
            Err(Violation::new(format!("delivered under fence {fence} with different content than was sent")))
        }
        None => Ok(()),
    }
}

/// The time for which a delivery was certainly held: from the answer until the known end of the lease or the first
/// settlement.
fn certainly_held(grant: &Grant) -> (u64, u64) {
    let called_at = grant.settles.iter().map(|settle| settle.called_at).min();
    (grant.answered_at, called_at.map_or(grant.until, |called_at| called_at.min(grant.until)))
}

/// Only one of these deliveries is held at a time.
fn check_overlap(mut grants: Vec<&Grant>) -> Result<()> {
    grants.sort_by_key(|grant| grant.answered_at);
    let mut longest: Option<&Grant> = None;
    for grant in grants {
        let (start, end) = certainly_held(grant);
        if let Some(other) = longest
            && start + CLOCK_MS < certainly_held(other).1.min(end)
        {
            return Err(Violation::new(format!("held twice at once:\n  {other:?}\n  {grant:?}")));
        }
        if longest.is_none_or(|other| certainly_held(other).1 < end) {
            longest = Some(grant);
        }
    }
    Ok(())
}

/// Settlements and extensions succeed while the delivery is held, and fail after another delivery.
fn check_settlements(message: &Message, fence: u64, row: Option<&Row>) -> Result<()> {
    let Some(grant) = message.grants.get(&fence) else { return Ok(()) };
    let next = message.grants.range(fence + 1..).map(|(_, later)| later.answered_at).min();
    let redelivered = |called_at: u64| next.is_some_and(|next| next + CLOCK_MS < called_at);
    let has_unseen = row.is_some_and(|row| row.deliveries > message.grants.len() as u64);
    for (index, settle) in grant.settles.iter().enumerate() {
        let earlier = &grant.settles[..index];
        let is_repeat = !earlier.is_empty() && earlier.iter().all(|one| one.verdict == settle.verdict);
        let first = if is_repeat { earlier[0].called_at } else { settle.called_at };
        let Some((answered_at, applied)) = settle.answer else { continue };
        let verdict = settle.verdict;
        if applied && verdict.is_final() && next.is_some() {
            return Err(Violation::new(format!(
                "it was delivered after {verdict:?} under fence {fence} was answered"
            )));
        }
        if applied && redelivered(first) {
            return Err(Violation::new(format!(
                "{verdict:?} under fence {fence} was applied after another delivery"
            )));
        }
        // A repeat has the same outcome until a later lease has ended, and not every lease is in the logs.
        let must_succeed = earlier.is_empty() || is_repeat && next.is_none() && !has_unseen;
        if !applied && must_succeed && answered_at + CLOCK_MS < settle.until {
            return Err(Violation::new(format!(
                "{verdict:?} under fence {fence} was rejected although it was held"
            )));
        }
    }
    for extend in &grant.extends {
        let Some((answered_at, applied)) = extend.answer else { continue };
        if applied && redelivered(extend.called_at) {
            return Err(Violation::new(format!("fence {fence} was extended after another delivery")));
        }
        let is_ended = grant.settles.iter().any(|settle| settle.called_at <= answered_at);
        if !applied && !is_ended && answered_at + CLOCK_MS < extend.until {
            return Err(Violation::new(format!("fence {fence} was not extended although it was held")));
        }
    }
    Ok(())
}

/// A confirmed message has a row, and is finished as a process requested.
fn check_finished(message: &Message, row: Option<&Row>) -> Result<()> {
    let confirmed =
        message.accepts.iter().any(|accept| accept.answer.is_some()) || !message.grants.is_empty();
    let Some(row) = row else {
        return if confirmed { Err(Violation::new("it is lost")) } else { Ok(()) };
    };
    if !matches!((row.state, row.kind.as_str()), (DONE, BY_ACK) | (DEAD, BY_FAILURE)) || row.leases > 0 {
        return Err(Violation::new("it is not finished by a settlement"));
    }
    let applied_end = |(fence, grant): (&u64, &Grant)| {
        let mut ends = grant.settles.iter().filter(|one| one.answer.is_some_and(|(_, applied)| applied));
        ends.find(|one| one.verdict.is_final()).map(|one| (*fence, one.verdict))
    };
    for (fence, verdict) in message.grants.iter().filter_map(applied_end) {
        if fence != row.fence || (row.state == DONE) != (verdict.success_outcome() == "done") {
            return Err(Violation::new(format!(
                "{verdict:?} under fence {fence} was answered, but the row does not show it"
            )));
        }
    }
    let Some(last) = message.grants.get(&row.fence) else {
        return Err(Violation::new("it was finished under a lease that no process had"));
    };
    let outcome = if row.state == DONE { "done" } else { "dead" };
    if !last.settles.iter().any(|settle| settle.verdict.success_outcome() == outcome) {
        return Err(Violation::new("it was finished in another way than the holder of the lease requested"));
    }
    let abandoned = |grant: &&Grant| {
        let mut settles = grant.settles.iter();
        settles.any(|one| {
            one.verdict.success_outcome() == "retrying" && one.answer.is_some_and(|(_, applied)| applied)
        })
    };
    let attempts = message.grants.values().filter(abandoned).count() as u64;
    if row.deliveries != last.deliveries || row.attempts < attempts {
        return Err(Violation::new("its deliveries or attempts differ from the answers"));
    }
    Ok(())
}
