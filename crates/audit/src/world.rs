//! Everything that the process under test has told: what was asked, what was answered, and so how each message may stand.

mod answers;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::line::{Call, Line};
use crate::random::uptime;
use crate::standing::Standing;
use crate::{Fault, Result};

/// A finished message answers repeats for ten minutes. The auditor hears of the end a little later than it was.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(590);

/// What an answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// The process may die: everything that was answered stays.
    Process,
    /// The machine may die: everything that was answered stays, but for leases.
    Machine,
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Starting,
    Open,
    Listed,
    Drained,
}

/// One message, by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// How it may stand, oldest first; the last is how it stands if nothing was lost.
    pub(crate) steps: Vec<Step>,
    pub(crate) hash: String,
    /// Its key is not held, so it may be forgotten some time after it is done.
    pub(crate) loose: bool,
    pub(crate) done_at: Option<Duration>,
}

/// What a call made of a message.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) call: u64,
    /// None while, or once, there is no such message.
    pub(crate) standing: Option<Standing>,
    /// It survives the machine once it is answered.
    pub(crate) solid: bool,
}

/// What the campaign saw, for its closing line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) messages: u64,
    pub(crate) listings: u64,
    pub(crate) listed: u64,
    pub(crate) kept: u64,
    pub(crate) dropped: u64,
    pub(crate) forgotten: u64,
}

impl Tally {
    pub(crate) fn closing(&self, fences: usize) -> String {
        format!(
            "{} calls answered, {} messages, {fences} fences, {} listings of {} messages compared, \
             {} forgotten; of the calls without an answer that show, {} were in and {} were not; nothing lost",
            self.calls, self.messages, self.listings, self.listed, self.forgotten, self.kept, self.dropped
        )
    }
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    promise: Promise,
    pub(crate) entries: HashMap<String, Entry>,
    /// Calls without an answer.
    pub(crate) pending: BTreeMap<u64, Call>,
    /// Calls that were answered while the disk was being copied: the copy may be from before or after them.
    pub(crate) recent: BTreeMap<u64, Call>,
    pub(crate) fences: HashSet<u64>,
    copying: bool,
    /// Which process is told of; makes its call ids unique.
    run: u64,
    listing: HashMap<String, Standing>,
    pub(crate) stage: Stage,
    pub(crate) pong: String,
    pub(crate) tally: Tally,
}

impl World {
    pub(crate) fn new(promise: Promise) -> Self {
        Self {
            promise,
            entries: HashMap::new(),
            pending: BTreeMap::new(),
            recent: BTreeMap::new(),
            fences: HashSet::new(),
            copying: false,
            run: 0,
            listing: HashMap::new(),
            stage: Stage::Starting,
            pong: String::new(),
            tally: Tally::default(),
        }
    }

    /// A process starts. Calls of the one before it that have no answer stay open until a listing tells.
    pub(crate) fn begin_run(&mut self) {
        self.run += 1;
        self.listing.clear();
        self.stage = Stage::Starting;
    }

    /// From now on the disk is being copied.
    pub(crate) fn begin_copy(&mut self) {
        self.copying = true;
    }

    /// The copy is made: what is answered from now on has nothing to do with it.
    pub(crate) fn end_copy(&mut self) {
        self.copying = false;
        self.recent.clear();
        for entry in self.entries.values_mut() {
            let solid = entry.steps.iter().rposition(|step| step.solid).unwrap_or_default();
            entry.steps.drain(..solid);
        }
        self.entries.retain(|_, entry| !entry.is_over());
    }

    /// The world of the copy, which goes its own way from here on.
    pub(crate) fn fork(&self) -> Self {
        Self { promise: Promise::Process, copying: false, ..self.clone() }
    }

    /// Takes in a line. Fails when it contradicts what was told before.
    pub(crate) fn hear(&mut self, line: &str) -> Result<()> {
        match Line::read(line)? {
            Line::Open => self.stage = Stage::Open,
            Line::Is(key, standing) => {
                if self.listing.insert(key, standing).is_some() {
                    return Err(Fault::new(format!("listed twice: {line}")));
                }
            }
            Line::Listed => {
                let listing = std::mem::take(&mut self.listing);
                self.judge(listing)?;
                self.stage = Stage::Listed;
            }
            Line::Call(id, call) => self.called(self.run << 32 | id, call),
            Line::Answer(id, outcomes) => {
                let id = self.run << 32 | id;
                let call = self.pending.remove(&id);
                let call = call.ok_or_else(|| Fault::new(format!("answered without a call: {line}")))?;
                self.tally.calls += 1;
                self.answered(id, &call, &outcomes)
                    .map_err(|fault| Fault::new(format!("{fault}\n  call: {call:?}\n  line: {line}")))?;
                if self.copying {
                    self.recent.insert(id, call);
                }
            }
            Line::Drained => {
                self.check_drained()?;
                self.stage = Stage::Drained;
            }
            Line::Pong(word) => self.pong = word,
            Line::Failed(text) => return Err(Fault::new(format!("a call failed: {text}"))),
        }
        Ok(())
    }

    fn called(&mut self, id: u64, call: Call) {
        match &call {
            Call::Accept(messages) => {
                for message in messages {
                    let entry = self.entries.entry(message.key.clone()).or_default();
                    if entry.hash.is_empty() {
                        (entry.hash, entry.loose) = (message.hash.clone(), message.loose);
                    }
                }
            }
            Call::Begin { keys, .. } => {
                for key in keys {
                    self.entries.entry(key.clone()).or_default();
                }
            }
            _ => {}
        }
        self.pending.insert(id, call);
    }

    /// Notes what an answer made of a message.
    fn push(&mut self, key: &str, call: u64, standing: Option<Standing>, solid: bool) {
        // With the answer, what was before is out of the question, unless the copy may be older than the answer.
        let certain = self.promise == Promise::Process || (solid && !self.copying);
        self.note(key, Step { call, standing, solid }, certain);
    }

    /// From a listing: so it stands. What a fresh process lists is on disk, unless the copy may be older than that.
    pub(crate) fn fix(&mut self, key: &str, standing: Option<Standing>) {
        self.note(key, Step { call: 0, standing, solid: true }, !self.copying);
    }

    fn note(&mut self, key: &str, step: Step, certain: bool) {
        let entry = self.entries.entry(key.to_owned()).or_default();
        let done = step.standing.as_ref().is_some_and(|standing| standing.state == "done");
        entry.done_at = if done { entry.done_at.or_else(|| Some(uptime())) } else { None };
        if certain {
            entry.steps.clear();
        } else if entry.steps.is_empty() {
            entry.steps.push(Step { call: 0, standing: None, solid: true });
        }
        entry.steps.push(step);
        if entry.is_over() {
            self.entries.remove(key);
        }
    }

    /// Fails if a message is ready though a claim of everything has left it.
    fn check_drained(&self) -> Result<()> {
        let left = self.entries.iter().find(|(key, entry)| {
            has_content(key)
                && entry.now().is_some_and(|standing| {
                    standing.state == "processing" && standing.lease().is_none() && standing.retry == "-"
                })
        });
        left.map_or(Ok(()), |(key, entry)| {
            Err(Fault::new(format!("{key} is ready, but cannot be claimed: {:?}", entry.now())))
        })
    }
}

impl Entry {
    /// How it stands if nothing was lost.
    pub(crate) fn now(&self) -> Option<&Standing> {
        self.steps.last().and_then(|step| step.standing.as_ref())
    }

    /// Whether it may be forgotten by now.
    pub(crate) fn forgettable(&self) -> bool {
        self.loose && self.done_at.is_some_and(|at| uptime().saturating_sub(at) >= FORGOTTEN_AFTER)
    }

    /// Nothing remains of it, and nothing may come back.
    fn is_over(&self) -> bool {
        matches!(self.steps.as_slice(), [Step { standing: None, .. }])
    }
}

/// Only the inbox's messages have content; the ledger's keys have none.
pub(crate) fn has_content(key: &str) -> bool {
    key.starts_with("inbox/")
}

#[cfg(test)]
mod tests;
