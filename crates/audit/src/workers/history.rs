//! All calls and answers in the logs, by message.

use std::collections::{BTreeMap, HashMap};

use super::protocol::{Call, Delivery, Entry, Line, NewMessage, Verdict};
use crate::{Result, Violation};

/// The contents of all logs.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) messages: BTreeMap<String, Message>,
    /// The time of each answered call, and the time of its answer.
    pub(super) answered: Vec<(u64, u64)>,
    /// Number of calls that failed or were not answered.
    pub(super) unanswered: u64,
}

#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) partition: Option<String>,
    pub(super) hash: String,
    pub(super) accepts: Vec<Accept>,
    /// Leases by fence.
    pub(super) grants: BTreeMap<u64, Grant>,
}

/// A send of the message.
#[derive(Debug)]
pub(super) struct Accept {
    pub(super) called_at: u64,
    pub(super) answer: Option<AcceptAnswer>,
}

#[derive(Debug)]
pub(super) struct AcceptAnswer {
    pub(super) answered_at: u64,
    pub(super) is_new: bool,
    pub(super) uid: String,
}

/// A delivery of the message.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) owner: String,
    pub(super) uid: String,
    pub(super) called_at: u64,
    pub(super) answered_at: u64,
    /// The latest answered end of the lease.
    pub(super) until: u64,
    pub(super) deliveries: u64,
    pub(super) attempts: u64,
    pub(super) hash: String,
    pub(super) settles: Vec<Settle>,
    pub(super) extends: Vec<Extend>,
}

#[derive(Debug)]
pub(super) struct Settle {
    pub(super) verdict: Verdict,
    pub(super) called_at: u64,
    /// When it was answered, and whether it was applied.
    pub(super) answer: Option<(u64, bool)>,
    /// The known end of the lease at the time of the call.
    pub(super) until: u64,
}

#[derive(Debug)]
pub(super) struct Extend {
    pub(super) called_at: u64,
    pub(super) answer: Option<(u64, bool)>,
    pub(super) until: u64,
}

/// A call that is not answered yet.
struct Open<'a> {
    called_at: u64,
    call: Call<'a>,
}

impl History {
    /// Reads the log of one process.
    pub(super) fn read_log(&mut self, text: &str) -> Result<()> {
        let mut open: HashMap<u64, Open<'_>> = HashMap::new();
        for line in text.lines() {
            let Line { at, id, entry } = Line::read(line)?;
            let answer = match entry {
                Entry::Call(call) => {
                    open.insert(id, Open { called_at: at, call });
                    continue;
                }
                Entry::Answer(words) => Some((at, words)),
                Entry::Error => None,
            };
            let call = open
                .remove(&id)
                .ok_or_else(|| Violation::new(format!("an answer without a call: {line}")))?;
            self.end(&call, answer)
                .map_err(|violation| Violation::new(format!("{violation}\n  line: {line}")))?;
        }
        // Calls that a kill interrupted may have been carried out.
        open.values().try_for_each(|call| self.end(call, None))
    }

    fn end(&mut self, open: &Open<'_>, answer: Option<(u64, Vec<&str>)>) -> Result<()> {
        let called_at = open.called_at;
        let (answered_at, words) = match answer {
            Some((answered_at, words)) => {
                self.answered.push((called_at, answered_at));
                (Some(answered_at), words)
            }
            None => {
                self.unanswered += 1;
                (None, Vec::new())
            }
        };
        let items = match &open.call {
            Call::Accept(items) => items.len(),
            Call::Work { settlements, .. } => settlements.len(),
            Call::Extend { extensions, .. } => extensions.len(),
        };
        if answered_at.is_some() && words.len() < items {
            return Err(Violation::new(format!("{items} items have {} outcomes", words.len())));
        }
        let (outcomes, rest) = words.split_at(items.min(words.len()));
        let outcome = |index: usize| answered_at.zip(outcomes.get(index).copied());
        match &open.call {
            Call::Accept(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(index, item)| self.sent(called_at, item, outcome(index)))
            }
            Call::Work { owner, count, settlements } => {
                for (index, item) in settlements.iter().enumerate() {
                    let grant = self.grant(owner, item.key, item.fence)?;
                    let words = (item.verdict.success_outcome(), "lost");
                    let answer = outcome(index)
                        .map(|(answered_at, word)| is_applied(answered_at, word, words))
                        .transpose()?;
                    grant.settles.push(Settle {
                        verdict: item.verdict,
                        called_at,
                        answer,
                        until: grant.until,
                    });
                }
                if rest.len() > *count {
                    return Err(Violation::new(format!(
                        "{count} were claimed, {} were delivered",
                        rest.len()
                    )));
                }
                let answered_at = answered_at.unwrap_or(u64::MAX);
                rest.iter()
                    .try_for_each(|word| self.granted(owner, called_at, answered_at, &Delivery::read(word)?))
            }
            Call::Extend { owner, extensions } => {
                for (index, (key, fence)) in extensions.iter().enumerate() {
                    let grant = self.grant(owner, key, *fence)?;
                    let until = grant.until;
                    let answer = match outcome(index) {
                        Some((answered_at, word)) => Some((answered_at, extended(grant, word)?)),
                        None => None,
                    };
                    grant.extends.push(Extend { called_at, answer, until });
                }
                Ok(())
            }
        }
    }

    fn sent(&mut self, called_at: u64, item: &NewMessage<'_>, outcome: Option<(u64, &str)>) -> Result<()> {
        let message = self.messages.entry(item.key.to_owned()).or_default();
        message.partition = item.partition.map(str::to_owned);
        message.hash = item.hash.to_owned();
        let answer = outcome.map(|(answered_at, word)| parse_accept(answered_at, word)).transpose()?;
        message.accepts.push(Accept { called_at, answer });
        Ok(())
    }

    /// The delivery that a process refers to.
    fn grant(&mut self, owner: &str, key: &str, fence: u64) -> Result<&mut Grant> {
        let grant = self.messages.get_mut(key).and_then(|message| message.grants.get_mut(&fence));
        grant.filter(|grant| grant.owner == owner).ok_or_else(|| {
            Violation::new(format!("{key} was never delivered to {owner} under fence {fence}"))
        })
    }

    fn granted(
        &mut self,
        owner: &str,
        called_at: u64,
        answered_at: u64,
        delivery: &Delivery<'_>,
    ) -> Result<()> {
        let message = self.messages.entry(delivery.key.to_owned()).or_default();
        let Some(known) = message.grants.get_mut(&delivery.fence) else {
            let grant = Grant {
                owner: owner.to_owned(),
                uid: delivery.uid.to_owned(),
                called_at,
                answered_at,
                until: delivery.until,
                deliveries: delivery.deliveries,
                attempts: delivery.attempts,
                hash: delivery.hash.to_owned(),
                settles: Vec::new(),
                extends: Vec::new(),
            };
            message.grants.insert(delivery.fence, grant);
            return Ok(());
        };
        // A repeated claim returns the same deliveries again.
        if known.owner != owner || known.deliveries != delivery.deliveries {
            let (key, fence) = (delivery.key, delivery.fence);
            return Err(Violation::new(format!("{key} was delivered twice under fence {fence}: {known:?}")));
        }
        known.until = known.until.max(delivery.until);
        Ok(())
    }
}

fn parse_accept(answered_at: u64, word: &str) -> Result<AcceptAnswer> {
    match word.split_once(',') {
        Some((kind @ ("new" | "dup"), uid)) => {
            Ok(AcceptAnswer { answered_at, is_new: kind == "new", uid: uid.to_owned() })
        }
        _ => Err(Violation::new(format!("`{word}` is not an outcome of accept"))),
    }
}

/// Whether the outcome is the first of two words; fails if it is neither.
fn is_applied(answered_at: u64, word: &str, (yes, no): (&str, &str)) -> Result<(u64, bool)> {
    if word != yes && word != no {
        return Err(Violation::new(format!("the outcome is `{word}`, expected `{yes}` or `{no}`")));
    }
    Ok((answered_at, word == yes))
}

fn extended(grant: &mut Grant, word: &str) -> Result<bool> {
    match word {
        "lost" => return Ok(false),
        // The lease is as it was.
        "locked" => return Ok(true),
        _ => {}
    }
    let until = word.strip_prefix("until,").and_then(|until| until.parse::<u64>().ok());
    let until = until.ok_or_else(|| Violation::new(format!("`{word}` is not an outcome of extend")))?;
    if until < grant.until {
        return Err(Violation::new(format!(
            "an extension shortened a lease from {} to {until}",
            grant.until
        )));
    }
    grant.until = until;
    Ok(true)
}
