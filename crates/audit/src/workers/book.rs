//! What was asked and answered, by message.

use std::collections::{BTreeMap, HashMap};

use super::line::{Call, Delivery, Fresh, Line, Verdict, What};
use crate::{Fault, Result};

/// Everything that all processes wrote.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) messages: BTreeMap<String, Message>,
    /// Every call that was answered: when it was asked, and when the answer was there.
    pub(super) answered: Vec<(u64, u64)>,
    /// Calls that an error came of, or nothing at all.
    pub(super) unanswered: u64,
}

#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) partition: Option<String>,
    pub(super) hash: String,
    pub(super) accepts: Vec<Accept>,
    /// By fence.
    pub(super) grants: BTreeMap<u64, Grant>,
}

/// Somebody sent it.
#[derive(Debug)]
pub(super) struct Accept {
    pub(super) asked: u64,
    pub(super) answer: Option<Taken>,
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) got: u64,
    pub(super) is_new: bool,
    pub(super) uid: String,
}

/// Somebody got it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) owner: String,
    pub(super) uid: String,
    pub(super) asked: u64,
    pub(super) got: u64,
    /// The latest end that was answered.
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
    pub(super) asked: u64,
    /// When it was answered, and whether it counts.
    pub(super) answer: Option<(u64, bool)>,
    /// Until when the lease was known to last when this was asked.
    pub(super) until: u64,
}

#[derive(Debug)]
pub(super) struct Extend {
    pub(super) asked: u64,
    pub(super) answer: Option<(u64, bool)>,
    pub(super) until: u64,
}

/// A call of one process that waits for its answer.
struct Open<'a> {
    asked: u64,
    call: Call<'a>,
}

impl Book {
    /// Takes in all that one process wrote.
    pub(super) fn hear(&mut self, text: &str) -> Result<()> {
        let mut open: HashMap<u64, Open<'_>> = HashMap::new();
        for line in text.lines() {
            let Line { at, id, what } = Line::read(line)?;
            let told = match what {
                What::Ask(call) => {
                    open.insert(id, Open { asked: at, call });
                    continue;
                }
                What::Got(words) => Some((at, words)),
                What::None => None,
            };
            let call = open.remove(&id).ok_or_else(|| Fault::new(format!("nobody asked: {line}")))?;
            self.end(&call, told).map_err(|fault| Fault::new(format!("{fault}\n  line: {line}")))?;
        }
        // What a kill cut off was asked all the same.
        open.values().try_for_each(|call| self.end(call, None))
    }

    fn end(&mut self, open: &Open<'_>, told: Option<(u64, Vec<&str>)>) -> Result<()> {
        let asked = open.asked;
        let (got, words) = match told {
            Some((got, words)) => {
                self.answered.push((asked, got));
                (Some(got), words)
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
        if got.is_some() && words.len() < items {
            return Err(Fault::new(format!("{items} items have {} outcomes", words.len())));
        }
        let (outcomes, rest) = words.split_at(items.min(words.len()));
        let outcome = |place: usize| got.zip(outcomes.get(place).copied());
        match &open.call {
            Call::Accept(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(place, item)| self.sent(asked, item, outcome(place)))
            }
            Call::Work { owner, count, settlements } => {
                for (place, item) in settlements.iter().enumerate() {
                    let grant = self.grant(owner, item.key, item.fence)?;
                    let words = (item.verdict.counts(), "lost");
                    let answer = outcome(place).map(|(got, word)| counts(got, word, words)).transpose()?;
                    grant.settles.push(Settle { verdict: item.verdict, asked, answer, until: grant.until });
                }
                if rest.len() > *count {
                    return Err(Fault::new(format!("{count} were asked for, {} came", rest.len())));
                }
                let got = got.unwrap_or(u64::MAX);
                rest.iter().try_for_each(|word| self.granted(owner, asked, got, &Delivery::read(word)?))
            }
            Call::Extend { owner, extensions } => {
                for (place, (key, fence)) in extensions.iter().enumerate() {
                    let grant = self.grant(owner, key, *fence)?;
                    let until = grant.until;
                    let answer = match outcome(place) {
                        Some((got, word)) => Some((got, extended(grant, word)?)),
                        None => None,
                    };
                    grant.extends.push(Extend { asked, answer, until });
                }
                Ok(())
            }
        }
    }

    fn sent(&mut self, asked: u64, item: &Fresh<'_>, told: Option<(u64, &str)>) -> Result<()> {
        let message = self.messages.entry(item.key.to_owned()).or_default();
        message.partition = item.partition.map(str::to_owned);
        message.hash = item.hash.to_owned();
        let answer = told.map(|(got, word)| taken(got, word)).transpose()?;
        message.accepts.push(Accept { asked, answer });
        Ok(())
    }

    /// What a process holds, by its own words.
    fn grant(&mut self, owner: &str, key: &str, fence: u64) -> Result<&mut Grant> {
        let grant = self.messages.get_mut(key).and_then(|message| message.grants.get_mut(&fence));
        grant
            .filter(|grant| grant.owner == owner)
            .ok_or_else(|| Fault::new(format!("{owner} was never given {key} under {fence}")))
    }

    fn granted(&mut self, owner: &str, asked: u64, got: u64, told: &Delivery<'_>) -> Result<()> {
        let message = self.messages.entry(told.key.to_owned()).or_default();
        let Some(known) = message.grants.get_mut(&told.fence) else {
            let grant = Grant {
                owner: owner.to_owned(),
                uid: told.uid.to_owned(),
                asked,
                got,
                until: told.until,
                deliveries: told.deliveries,
                attempts: told.attempts,
                hash: told.hash.to_owned(),
                settles: Vec::new(),
                extends: Vec::new(),
            };
            message.grants.insert(told.fence, grant);
            return Ok(());
        };
        // A claim that is repeated brings again what it had brought.
        if known.owner != owner || known.deliveries != told.deliveries {
            let (key, fence) = (told.key, told.fence);
            return Err(Fault::new(format!("{key} was given out twice under {fence}: {known:?}")));
        }
        known.until = known.until.max(told.until);
        Ok(())
    }
}

fn taken(got: u64, word: &str) -> Result<Taken> {
    match word.split_once(',') {
        Some((kind @ ("new" | "dup"), uid)) => Ok(Taken { got, is_new: kind == "new", uid: uid.to_owned() }),
        _ => Err(Fault::new(format!("`{word}` is no answer to a message that is sent"))),
    }
}

/// Whether the first of two words was answered; nothing else may be.
fn counts(got: u64, word: &str, (yes, no): (&str, &str)) -> Result<(u64, bool)> {
    if word != yes && word != no {
        return Err(Fault::new(format!("answered `{word}`, where only `{yes}` and `{no}` are right")));
    }
    Ok((got, word == yes))
}

fn extended(grant: &mut Grant, word: &str) -> Result<bool> {
    if word == "lost" {
        return Ok(false);
    }
    let until = word.strip_prefix("until,").and_then(|until| until.parse::<u64>().ok());
    let until = until.ok_or_else(|| Fault::new(format!("`{word}` is no answer to an extension")))?;
    if until < grant.until {
        return Err(Fault::new(format!(
            "an extension made a lease shorter, from {} to {until}",
            grant.until
        )));
    }
    grant.until = until;
    Ok(true)
}
