//! The audit: judges a run by what was told, with texts and numbers alone.
//!
//! What the store did is taken for granted, for it has tests of its own; the audit asks whether the library made of it what
//! it promises. A clock that leapt excuses a lease that is lost without anybody's knowledge, and so does a call that went
//! wrong, or a crash; nothing else does.

mod handlers;
mod intake;
mod leases;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::event::{Content, Event, Setup, Sums, What};

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What was not kept.
    pub text: String,
    /// How many events had been told when it showed.
    pub events: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Messages that were taken in.
    pub messages: u64,
    /// Messages that were handled.
    pub done: u64,
    /// Messages that were given up.
    pub dead: u64,
    /// Leases that were granted.
    pub deliveries: u64,
    /// Handlers that began.
    pub handlers: u64,
    /// Leases that ended by themselves.
    pub lapses: u64,
}

impl Tally {
    /// Adds what another run came to.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.done += other.done;
        self.dead += other.dead;
        self.deliveries += other.deliveries;
        self.handlers += other.handlers;
        self.lapses += other.lapses;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, done, dead, deliveries, handlers, lapses } = self;
        write!(
            f,
            "{messages} messages, {done} done and {dead} dead, after {deliveries} deliveries and {handlers} handlers, {lapses} leases lapsed"
        )
    }
}

/// Judges a whole run.
pub fn judge(trace: &[Event]) -> Result<Tally, Fault> {
    let mut auditor = Auditor::default();
    for (place, event) in trace.iter().enumerate() {
        auditor.hear(event).map_err(|text| Fault { text, events: place + 1 })?;
    }
    auditor.close().map_err(|text| Fault { text, events: trace.len() })
}

type Checked = Result<(), String>;

/// Everything that was told so far.
#[derive(Default)]
struct Auditor {
    now: Now,
    /// The senders' limit, if they named one.
    attempts_max: Option<u32>,
    late: bool,
    /// By key.
    messages: BTreeMap<String, Message>,
    /// From uid to key.
    uids: BTreeMap<String, String>,
    /// By fence.
    leases: BTreeMap<u64, Lease>,
    /// From uid and delivery to fence.
    deliveries: BTreeMap<(String, u32), u64>,
    workers: BTreeMap<u64, Worker>,
    tally: Tally,
}

/// The moment of an event.
#[derive(Debug, Clone, Copy, Default)]
struct Now {
    at: u64,
    store: u64,
}

impl Now {
    /// How far the store's clock has leapt altogether.
    fn leaps(self) -> u64 {
        self.store - self.at
    }
}

/// One message.
#[derive(Debug, Clone, Default)]
struct Message {
    uid: String,
    /// Its place in the order of acceptance.
    number: u64,
    content: Content,
    /// It came again, and its place among others may have changed.
    repeated: bool,
    may_expire: bool,
    answered: u64,
    deliveries: u32,
    attempts: u32,
    /// The newest lease.
    fence: Option<u64>,
    /// How it ended.
    end: Option<&'static str>,
    stands: bool,
}

/// One lease.
#[derive(Debug, Clone, Default)]
struct Lease {
    worker: u64,
    key: String,
    content: Content,
    /// The partition that it keeps busy: the one that the message had when it was granted, whatever came since.
    partition: Option<String>,
    /// With what else it was given out: it came again with another due time, expiry or partition.
    others: Vec<Content>,
    /// Newer content came since it was granted.
    superseded: bool,
    until: u64,
    /// When it was granted or extended last.
    renewed: Now,
    /// The worker has to let go of it by then, should it hear nothing more.
    deadline: u64,
    /// The worker has no reason to let go of it before.
    kept_until: u64,
    /// When the worker got it.
    told_at: Option<u64>,
    /// It was granted to a call that had failed long before.
    late: bool,
    began: Option<u64>,
    ended: Option<(&'static str, u64)>,
    /// The worker was told that it is lost.
    lost_at: Option<u64>,
    verdict: Option<&'static str>,
    outcome: Option<&'static str>,
    outcome_told: bool,
}

/// One worker.
#[derive(Debug, Clone, Default)]
struct Worker {
    setup: Setup,
    /// When its calls went wrong.
    faults: Vec<u64>,
    /// The leases whose handlers run.
    running: BTreeSet<u64>,
    /// The latest starts of the topic `rated`.
    rated: VecDeque<u64>,
    paused_at: Option<u64>,
    stopping_at: Option<u64>,
    sums: Sums,
    crashed: bool,
    stopped: bool,
}

impl Auditor {
    fn hear(&mut self, event: &Event) -> Checked {
        self.now = Now { at: event.at, store: event.store };
        match &event.what {
            What::Rules { attempts_max } => self.attempts_max = *attempts_max,
            What::Calm | What::Leapt { .. } | What::Unanswered { .. } => {}
            What::LateBegins => self.late = true,
            What::LateEnds => self.late = false,
            What::Answered { key, outcome, uid } => return self.answered(key, outcome, uid),
            What::Stored { key, uid, outcome, content } => return self.stored(key, uid, outcome, content),
            What::Stands { .. } => return self.stands(&event.what),
            What::Granted { .. } => return self.granted(&event.what),
            What::Extended { fence, until } => self.extended(*fence, *until),
            What::Settled { fence, verdict, outcome } => return self.settled(*fence, verdict, outcome),
            What::Told { .. } => return self.told(&event.what),
            What::Began { worker, uid, delivery, content } => {
                return self.began(*worker, uid, *delivery, content);
            }
            What::Ended { worker, uid, delivery, how } => return self.ended(*worker, uid, *delivery, how),
            _ => return self.hear_worker(&event.what),
        }
        Ok(())
    }

    fn close(mut self) -> Result<Tally, String> {
        self.close_messages()?;
        self.close_workers()?;
        Ok(self.tally)
    }

    fn worker(&mut self, number: u64) -> Result<&mut Worker, String> {
        self.workers.get_mut(&number).ok_or_else(|| format!("worker {number} has not started"))
    }

    /// Whether the store would still take a settlement under this lease.
    fn is_current(&self, fence: u64) -> bool {
        let Some(lease) = self.leases.get(&fence) else { return false };
        let newest = self.messages.get(&lease.key).is_some_and(|message| message.fence == Some(fence));
        newest && lease.outcome.is_none() && self.now.store < lease.until
    }
}

/// A promise: fails with the text if it was not kept.
fn expect(kept: bool, text: impl FnOnce() -> String) -> Checked {
    if kept { Ok(()) } else { Err(text()) }
}
