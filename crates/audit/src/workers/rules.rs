//! What must hold: nothing answered is lost, nothing is held twice at once, nothing comes after its end.

use std::collections::{BTreeMap, HashMap};

use super::book::{Accept, Book, Grant, Message};
use super::rows::{BY_ACK, BY_FAILURE, DEAD, DONE, Row};
use super::tally::Tally;
use crate::{Fault, Result};

/// How far the wall clock may be set back or forth during a campaign.
const CLOCK_MS: u64 = 5;

pub(super) fn check(book: &Book, rows: &[Row]) -> Result<Tally> {
    let mut found: HashMap<&str, &Row> = HashMap::new();
    for row in rows {
        if found.insert(&row.key, row).is_some() {
            return Err(Fault::new(format!("{} is there twice", row.key)));
        }
        if !book.messages.contains_key(&row.key) {
            return Err(Fault::new(format!("{} is there, and nobody sent it", row.key)));
        }
    }
    let mut tally = Tally::new(book);
    let mut owners: HashMap<u64, &str> = HashMap::new();
    let mut partitions: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for (key, message) in &book.messages {
        let row = found.get(key.as_str()).copied();
        let about = |fault: Fault| Fault::new(format!("{key}: {fault}\n  {message:?}\n  row: {row:?}"));
        taken_in(message, row).map_err(about)?;
        in_order(message).map_err(about)?;
        alone(message.grants.values().collect()).map_err(about)?;
        message.grants.keys().try_for_each(|fence| settled(message, *fence, row)).map_err(about)?;
        finished(message, row).map_err(about)?;
        for fence in message.grants.keys() {
            if let Some(other) = owners.insert(*fence, key) {
                return Err(Fault::new(format!("fence {fence} was granted for {other} and for {key}")));
            }
        }
        if let Some(partition) = &message.partition {
            partitions.entry(partition).or_default().extend(message.grants.values());
        }
        tally.count(message, row);
    }
    for (partition, grants) in partitions {
        alone(grants).map_err(|fault| Fault::new(format!("partition {partition}: {fault}")))?;
    }
    Ok(tally)
}

/// A key is taken in once, and is one message for everybody.
fn taken_in(message: &Message, row: Option<&Row>) -> Result<()> {
    let answers = || message.accepts.iter().filter_map(|accept| accept.answer.as_ref());
    let told = answers().map(|taken| &taken.uid);
    let given = message.grants.values().map(|grant| &grant.uid);
    let mut uids: Vec<_> = told.chain(given).chain(row.map(|row| &row.uid)).collect();
    uids.sort();
    uids.dedup();
    if uids.len() > 1 {
        return Err(Fault::new(format!("it is several messages: {uids:?}")));
    }
    if answers().filter(|taken| taken.is_new).count() > 1 {
        return Err(Fault::new("it was taken in twice"));
    }
    for (place, accept) in message.accepts.iter().enumerate() {
        let Some(taken) = &accept.answer else { continue };
        let mut others = message.accepts.iter().enumerate().filter(|(other, _)| *other != place);
        let before = |other: &Accept| other.answer.as_ref().is_some_and(|answer| answer.got < accept.asked);
        if taken.is_new && others.clone().any(|(_, other)| before(other)) {
            return Err(Fault::new("it was taken in anew after it was known"));
        }
        if !taken.is_new && !others.any(|(_, other)| other.asked <= taken.got) {
            return Err(Fault::new("it was called a duplicate of nothing"));
        }
    }
    let first_asked = message.accepts.iter().map(|accept| accept.asked).min();
    let first_given = message.grants.values().map(|grant| grant.got).min();
    if first_given.is_some_and(|given| first_asked.is_none_or(|asked| asked > given)) {
        return Err(Fault::new("it was given out, and nobody had sent it"));
    }
    Ok(())
}

/// The fences of a message grow, its deliveries are counted, and its content is what was sent.
fn in_order(message: &Message) -> Result<()> {
    for ((fence, earlier), (next, later)) in message.grants.iter().zip(message.grants.iter().skip(1)) {
        if later.got < earlier.asked {
            return Err(Fault::new(format!("fence {fence} came after {next}: fences must grow")));
        }
        if later.deliveries <= earlier.deliveries || later.attempts < earlier.attempts {
            return Err(Fault::new(format!("deliveries and attempts do not grow from {fence} to {next}")));
        }
    }
    match message.grants.iter().find(|(_, grant)| grant.hash != message.hash) {
        Some((fence, _)) => Err(Fault::new(format!("under {fence} came other content than was sent"))),
        None => Ok(()),
    }
}

/// From when until when somebody certainly held it: from the answer until its known end, or until somebody asked to end it.
fn certain(grant: &Grant) -> (u64, u64) {
    let asked = grant.settles.iter().map(|settle| settle.asked).min();
    (grant.got, asked.map_or(grant.until, |asked| asked.min(grant.until)))
}

/// Of these, one is held at a time.
fn alone(mut grants: Vec<&Grant>) -> Result<()> {
    grants.sort_by_key(|grant| grant.got);
    let mut longest: Option<&Grant> = None;
    for grant in grants {
        let (start, end) = certain(grant);
        if let Some(other) = longest
            && start + CLOCK_MS < certain(other).1.min(end)
        {
            return Err(Fault::new(format!("held twice at once:\n  {other:?}\n  {grant:?}")));
        }
        if longest.is_none_or(|other| certain(other).1 < end) {
            longest = Some(grant);
        }
    }
    Ok(())
}

/// Who holds it settles and extends it, and nobody else.
fn settled(message: &Message, fence: u64, row: Option<&Row>) -> Result<()> {
    let Some(grant) = message.grants.get(&fence) else { return Ok(()) };
    let next = message.grants.range(fence + 1..).map(|(_, later)| later.got).min();
    let taken_over = |asked: u64| next.is_some_and(|next| next + CLOCK_MS < asked);
    let hidden = row.is_some_and(|row| row.deliveries > message.grants.len() as u64);
    for (place, settle) in grant.settles.iter().enumerate() {
        let earlier = &grant.settles[..place];
        let is_repeat = !earlier.is_empty() && earlier.iter().all(|one| one.verdict == settle.verdict);
        let first = if is_repeat { earlier[0].asked } else { settle.asked };
        let Some((got, counts)) = settle.answer else { continue };
        let verdict = settle.verdict;
        if counts && verdict.ends() && next.is_some() {
            return Err(Fault::new(format!("it was given out after {verdict:?} under {fence} was answered")));
        }
        if counts && taken_over(first) {
            return Err(Fault::new(format!("{verdict:?} under {fence} counts, though another had it since")));
        }
        // A repeat is told the same as long as no later lease has ended, and not every lease was seen by somebody.
        let must = earlier.is_empty() || is_repeat && next.is_none() && !hidden;
        if !counts && must && got + CLOCK_MS < settle.until {
            return Err(Fault::new(format!("{verdict:?} under {fence} was refused, though it was held")));
        }
    }
    for extend in &grant.extends {
        let Some((got, counts)) = extend.answer else { continue };
        if counts && taken_over(extend.asked) {
            return Err(Fault::new(format!("fence {fence} was extended, though another had it since")));
        }
        let is_ended = grant.settles.iter().any(|settle| settle.asked <= got);
        if !counts && !is_ended && got + CLOCK_MS < extend.until {
            return Err(Fault::new(format!("fence {fence} was not extended, though it was held")));
        }
    }
    Ok(())
}

/// What was promised is there and finished, as somebody asked for.
fn finished(message: &Message, row: Option<&Row>) -> Result<()> {
    let promised = message.accepts.iter().any(|accept| accept.answer.is_some()) || !message.grants.is_empty();
    let Some(row) = row else {
        return if promised { Err(Fault::new("it is lost")) } else { Ok(()) };
    };
    if !matches!((row.state, row.kind.as_str()), (DONE, BY_ACK) | (DEAD, BY_FAILURE)) || row.leases > 0 {
        return Err(Fault::new("it is not finished, or nobody finished it"));
    }
    let counted = |(fence, grant): (&u64, &Grant)| {
        let mut ends = grant.settles.iter().filter(|one| one.answer.is_some_and(|(_, counts)| counts));
        ends.find(|one| one.verdict.ends()).map(|one| (*fence, one.verdict))
    };
    for (fence, verdict) in message.grants.iter().filter_map(counted) {
        if fence != row.fence || (row.state == DONE) != (verdict.counts() == "done") {
            return Err(Fault::new(format!("{verdict:?} under {fence} was answered, and is not there")));
        }
    }
    let Some(last) = message.grants.get(&row.fence) else {
        return Err(Fault::new("it was finished under a lease that nobody had"));
    };
    let word = if row.state == DONE { "done" } else { "dead" };
    if !last.settles.iter().any(|settle| settle.verdict.counts() == word) {
        return Err(Fault::new("it was finished, and who had it asked for something else"));
    }
    let abandoned = |grant: &&Grant| {
        let mut settles = grant.settles.iter();
        settles.any(|one| one.verdict.counts() == "retrying" && one.answer.is_some_and(|(_, counts)| counts))
    };
    let attempts = message.grants.values().filter(abandoned).count() as u64;
    if row.deliveries != last.deliveries || row.attempts < attempts {
        return Err(Fault::new("its deliveries or attempts are not those that were answered"));
    }
    Ok(())
}
