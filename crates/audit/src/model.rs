//! The model of the store, built from the lines of the process under test: the states that each message may be in.

mod answers;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::protocol::{Call, Line};
use crate::random::uptime;
use crate::record::MessageRecord;
use crate::{Result, Violation};

/// A finished message is retained for ten minutes. The limit is shorter, as the auditor reads of the end a little
/// later.
const PURGED_AFTER: Duration = Duration::from_secs(590);

/// What an answered call survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarantee {
    /// The death of the process loses nothing that was answered.
    SurvivesProcess,
    /// The death of the machine loses nothing that was answered, except leases.
    SurvivesMachine,
}

/// Progress of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Starting,
    Open,
    Listed,
    Drained,
}

/// The model of one message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entry {
    /// The possible states, oldest first. The last one is current if nothing was lost.
    pub(crate) steps: Vec<Step>,
    pub(crate) hash: String,
    /// It has no dedup window, so the store may purge it some time after it is done.
    pub(crate) transient: bool,
    pub(crate) done_at: Option<Duration>,
}

/// The state of a message after a call.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) call: u64,
    /// None if the message does not exist.
    pub(crate) record: Option<MessageRecord>,
    /// Once answered, it survives the death of the machine.
    pub(crate) durable: bool,
}

/// Counters for the summary.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    pub(crate) messages: u64,
    pub(crate) listings: u64,
    pub(crate) listed: u64,
    pub(crate) applied: u64,
    pub(crate) not_applied: u64,
    pub(crate) purged: u64,
}

impl Tally {
    pub(crate) fn summary(&self, fences: usize) -> String {
        format!(
            "{} calls answered, {} messages, {fences} fences, {} listings with {} messages compared, \
             {} purged; of the calls without an answer, {} were carried out and {} were not; nothing lost",
            self.calls,
            self.messages,
            self.listings,
            self.listed,
            self.purged,
            self.applied,
            self.not_applied
        )
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    guarantee: Guarantee,
    pub(crate) entries: HashMap<String, Entry>,
    /// Calls without an answer.
    pub(crate) pending: BTreeMap<u64, Call>,
    /// Calls answered while the disk was being copied: the copy may or may not contain them.
    pub(crate) recent: BTreeMap<u64, Call>,
    pub(crate) fences: HashSet<u64>,
    copying: bool,
    /// Number of the current process; makes its call ids unique.
    run: u64,
    listing: HashMap<String, MessageRecord>,
    pub(crate) stage: Stage,
    pub(crate) pong: String,
    pub(crate) tally: Tally,
}

impl Model {
    pub(crate) fn new(guarantee: Guarantee) -> Self {
        Self {
            guarantee,
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

    /// Starts a new process. Unanswered calls of the previous one stay pending until a listing resolves them.
    pub(crate) fn begin_run(&mut self) {
        self.run += 1;
        self.listing.clear();
        self.stage = Stage::Starting;
    }

    /// Notes that the disk is being copied from now on.
    pub(crate) fn begin_copy(&mut self) {
        self.copying = true;
    }

    /// Notes that the copy is complete: later answers do not concern it.
    pub(crate) fn end_copy(&mut self) {
        self.copying = false;
        self.recent.clear();
        for entry in self.entries.values_mut() {
            let newest_durable = entry.steps.iter().rposition(|step| step.durable).unwrap_or_default();
            entry.steps.drain(..newest_durable);
        }
        self.entries.retain(|_, entry| !entry.is_gone());
    }

    /// The model of the copy, independent of this one from here on.
    pub(crate) fn fork(&self) -> Self {
        Self { guarantee: Guarantee::SurvivesProcess, copying: false, ..self.clone() }
    }

    /// Applies a line. Fails if it contradicts the model.
    pub(crate) fn apply(&mut self, line: &str) -> Result<()> {
        match Line::read(line)? {
            Line::Open => self.stage = Stage::Open,
            Line::Message(key, record) => {
                if self.listing.insert(key, record).is_some() {
                    return Err(Violation::new(format!("listed twice: {line}")));
                }
            }
            Line::Listed => {
                let listing = std::mem::take(&mut self.listing);
                self.check_listing(listing)?;
                self.stage = Stage::Listed;
            }
            Line::Call(id, call) => self.called(self.run << 32 | id, call),
            Line::Answer(id, outcomes) => {
                let id = self.run << 32 | id;
                let call = self.pending.remove(&id);
                let call = call.ok_or_else(|| Violation::new(format!("an answer without a call: {line}")))?;
                self.tally.calls += 1;
                self.answered(id, &call, &outcomes).map_err(|violation| {
                    Violation::new(format!("{violation}\n  call: {call:?}\n  line: {line}"))
                })?;
                if self.copying {
                    self.recent.insert(id, call);
                }
            }
            Line::Drained => {
                self.check_drained()?;
                self.stage = Stage::Drained;
            }
            Line::Pong(word) => self.pong = word,
            Line::Failed(text) => return Err(Violation::new(format!("a call failed: {text}"))),
        }
        Ok(())
    }

    fn called(&mut self, id: u64, call: Call) {
        match &call {
            Call::Accept(messages) => {
                for message in messages {
                    let entry = self.entries.entry(message.key.clone()).or_default();
                    if entry.hash.is_empty() {
                        (entry.hash, entry.transient) = (message.hash.clone(), message.transient);
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

    /// Adds the state after an answered call.
    fn add_answered(&mut self, key: &str, call: u64, record: Option<MessageRecord>, durable: bool) {
        // An answer rules out the earlier states, unless it may be lost or the copy may be older than it.
        let certain = self.guarantee == Guarantee::SurvivesProcess || (durable && !self.copying);
        self.add_step(key, Step { call, record, durable }, certain);
    }

    /// Sets a state from a listing. What a new process lists is on disk, unless the copy may be older than the listing.
    pub(crate) fn set_from_listing(&mut self, key: &str, record: Option<MessageRecord>) {
        self.add_step(key, Step { call: 0, record, durable: true }, !self.copying);
    }

    fn add_step(&mut self, key: &str, step: Step, certain: bool) {
        let entry = self.entries.entry(key.to_owned()).or_default();
        let done = step.record.as_ref().is_some_and(|record| record.state == "done");
        entry.done_at = if done { entry.done_at.or_else(|| Some(uptime())) } else { None };
        if certain {
            entry.steps.clear();
        } else if entry.steps.is_empty() {
            entry.steps.push(Step { call: 0, record: None, durable: true });
        }
        entry.steps.push(step);
        if entry.is_gone() {
            self.entries.remove(key);
        }
    }

    /// Fails if a message is ready after everything was claimed.
    fn check_drained(&self) -> Result<()> {
        let left = self.entries.iter().find(|(key, entry)| {
            has_content(key)
                && entry.current().is_some_and(|record| {
                    record.state == "processing" && record.lease().is_none() && record.retry == "-"
                })
        });
        left.map_or(Ok(()), |(key, entry)| {
            Err(Violation::new(format!("{key} is ready, but was not delivered: {:?}", entry.current())))
        })
    }
}

impl Entry {
    /// The current state if nothing was lost.
    pub(crate) fn current(&self) -> Option<&MessageRecord> {
        self.steps.last().and_then(|step| step.record.as_ref())
    }

    /// Whether the store may have purged it by now.
    pub(crate) fn may_be_purged(&self) -> bool {
        self.transient && self.done_at.is_some_and(|at| uptime().saturating_sub(at) >= PURGED_AFTER)
    }

    /// Whether it does not exist and cannot come back.
    fn is_gone(&self) -> bool {
        matches!(self.steps.as_slice(), [Step { record: None, .. }])
    }
}

/// Inbox messages have content, ledger keys have none.
pub(crate) fn has_content(key: &str) -> bool {
    key.starts_with("inbox/")
}

#[cfg(test)]
mod tests;
