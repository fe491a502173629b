//! The audit: checks the journal of a run, which consists of texts and numbers.
//!
//! The audit trusts the store, which has its own tests, and checks that the library keeps its guarantees on top of it.
//! A lease may lapse unnoticed only after a clock jump, a failed call or a crash.

mod handlers;
mod leases;
mod messages;
mod pauses;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::event::{Event, EventKind, SimContent, WorkerSetup, WorkerTotals};
use pauses::TopicPause;

/// A broken guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimViolation {
    /// What was violated.
    pub text: String,
    /// Number of events up to the violation.
    pub events: usize,
}

impl fmt::Display for SimViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SimViolation {}

/// Counters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimTally {
    /// Messages that were accepted.
    pub messages: u64,
    /// Messages that are done.
    pub done: u64,
    /// Messages that are dead.
    pub dead: u64,
    /// Leases that were granted.
    pub deliveries: u64,
    /// Handlers that started.
    pub handlers: u64,
    /// Leases that expired.
    pub lapses: u64,
}

impl SimTally {
    /// Adds the counters of another run.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.done += other.done;
        self.dead += other.dead;
        self.deliveries += other.deliveries;
        self.handlers += other.handlers;
        self.lapses += other.lapses;
    }
}

impl fmt::Display for SimTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, done, dead, deliveries, handlers, lapses } = self;
        write!(
            f,
            "{messages} messages, {done} done and {dead} dead, after {deliveries} deliveries and {handlers} handlers, {lapses} leases lapsed"
        )
    }
}

/// Checks a complete run.
pub fn check(trace: &[Event]) -> Result<SimTally, SimViolation> {
    let mut auditor = Auditor::default();
    for (index, event) in trace.iter().enumerate() {
        auditor.apply(event).map_err(|text| SimViolation { text, events: index + 1 })?;
    }
    auditor.close().map_err(|text| SimViolation { text, events: trace.len() })
}

type CheckResult = Result<(), String>;

/// The state of the run up to the current event.
#[derive(Default)]
struct Auditor {
    now: Now,
    /// The senders' limit of attempts, if they set one.
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
    /// By topic.
    pauses: BTreeMap<String, TopicPause>,
    /// The nodes and the times of failed reads of pauses.
    failed_reads: Vec<(u64, u64)>,
    tally: SimTally,
}

/// The time of an event.
#[derive(Debug, Clone, Copy, Default)]
struct Now {
    at: u64,
    store: u64,
}

impl Now {
    /// The sum of all jumps of the store's clock.
    fn jumps(self) -> u64 {
        self.store - self.at
    }
}

/// One message.
#[derive(Debug, Clone, Default)]
struct Message {
    uid: String,
    /// Its position in the order of acceptance.
    number: u64,
    content: SimContent,
    /// It was sent again, so its position in the partition may have changed.
    repeated: bool,
    may_expire: bool,
    answered: u64,
    deliveries: u32,
    attempts: u32,
    /// The latest lease.
    fence: Option<u64>,
    /// The final outcome.
    end: Option<&'static str>,
    reported: bool,
}

/// One lease.
#[derive(Debug, Clone, Default)]
struct Lease {
    worker: u64,
    key: String,
    content: SimContent,
    /// The partition that it blocks: that of the message when the lease was granted, whatever was sent since.
    partition: Option<String>,
    /// The contents of earlier answers to the same claim, with another due time, expiry or partition.
    earlier_contents: Vec<SimContent>,
    /// Newer content was accepted since it was granted.
    superseded: bool,
    until: u64,
    /// When it was last granted or extended.
    renewed: Now,
    /// The worker must give the lease up by then unless it receives another answer.
    deadline: u64,
    /// The worker must not give the lease up before then.
    kept_until: u64,
    /// When the worker received it.
    received_at: Option<u64>,
    /// It was granted to a call that the caller saw fail earlier.
    late: bool,
    started_at: Option<u64>,
    ended: Option<(&'static str, u64)>,
    /// When the worker learned that the lease is lost.
    lost_at: Option<u64>,
    verdict: Option<&'static str>,
    outcome: Option<&'static str>,
    outcome_received: bool,
}

/// One worker.
#[derive(Debug, Clone, Default)]
struct Worker {
    node: u64,
    setup: WorkerSetup,
    /// The times of its failed calls.
    faults: Vec<u64>,
    /// The leases whose handlers are running.
    running: BTreeSet<u64>,
    /// The times of the latest starts in the topic `rated`.
    rated: VecDeque<u64>,
    paused_at: Option<u64>,
    stopping_at: Option<u64>,
    totals: WorkerTotals,
    crashed: bool,
    stopped: bool,
}

impl Auditor {
    fn apply(&mut self, event: &Event) -> CheckResult {
        self.now = Now { at: event.at, store: event.store };
        match &event.kind {
            EventKind::SenderPolicy { attempts_max } => self.attempts_max = *attempts_max,
            EventKind::FaultsEnded | EventKind::ClockJumped { .. } | EventKind::Unanswered { .. } => {}
            EventKind::LateBegins => self.late = true,
            EventKind::LateEnds => self.late = false,
            EventKind::Answered { key, outcome, uid } => return self.answered(key, outcome, uid),
            EventKind::Stored { key, uid, outcome, asked_at, content } => {
                self.check_accepting(key, content, *asked_at)?;
                return self.stored(key, uid, outcome, content);
            }
            EventKind::TopicPaused { topic, sending, receiving } => {
                self.topic_paused(topic, *sending, *receiving);
            }
            EventKind::FinalState { .. } => return self.final_state(&event.kind),
            EventKind::Granted { .. } => return self.granted(&event.kind),
            EventKind::Extended { fence, until } => self.extended(*fence, *until),
            EventKind::Settled { fence, verdict, outcome } => return self.settled(*fence, verdict, outcome),
            EventKind::AnswerReceived { .. } => return self.answer_received(&event.kind),
            EventKind::HandlerStarted { worker, uid, delivery, content } => {
                return self.handler_started(*worker, uid, *delivery, content);
            }
            EventKind::HandlerEnded { worker, uid, delivery, how } => {
                return self.handler_ended(*worker, uid, *delivery, how);
            }
            _ => return self.apply_worker(&event.kind),
        }
        Ok(())
    }

    fn close(mut self) -> Result<SimTally, String> {
        self.close_messages()?;
        self.close_workers()?;
        Ok(self.tally)
    }

    fn worker(&mut self, number: u64) -> Result<&mut Worker, String> {
        self.workers.get_mut(&number).ok_or_else(|| format!("worker {number} has not started"))
    }

    /// Whether the store would still accept a settlement under this lease.
    fn is_current(&self, fence: u64) -> bool {
        let Some(lease) = self.leases.get(&fence) else { return false };
        let is_latest = self.messages.get(&lease.key).is_some_and(|message| message.fence == Some(fence));
        is_latest && lease.outcome.is_none() && self.now.store < lease.until
    }
}

/// Fails with the text unless the condition holds.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> CheckResult {
    if holds { Ok(()) } else { Err(text()) }
}
