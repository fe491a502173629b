//! The events of a simulation, as plain texts and numbers.

use std::fmt;

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Time in milliseconds since the start of the run.
    pub at: u64,
    /// Store time in milliseconds.
    pub store: u64,
    /// What happened.
    pub kind: EventKind,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} ms (store +{}): {:?}", self.at, self.store.saturating_sub(self.at), self.kind)
    }
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimContent {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub payload: String,
    /// The partition, of which one message is handled at a time.
    pub partition: Option<String>,
    /// Not delivered before this store time.
    pub due: Option<u64>,
    /// Dead from this store time on.
    pub expires: Option<u64>,
}

/// The settings of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerSetup {
    /// Maximum number of concurrent handlers.
    pub concurrency: usize,
    /// Maximum number of concurrent handlers in the topic `narrow`.
    pub narrow: usize,
    /// Maximum number of starts per second in the topic `rated`.
    pub rated: usize,
    /// Duration of a lease.
    pub lease_ms: u64,
    /// Timeout of handlers.
    pub timeout_ms: Option<u64>,
    /// How long handlers may continue when the worker stops.
    pub stop_budget_ms: u64,
    /// Maximum number of attempts.
    pub attempts_max: Option<u32>,
}

/// The totals that a worker reports when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerTotals {
    /// Deliveries that are done.
    pub handled: u64,
    /// Deliveries to be retried.
    pub retrying: u64,
    /// Deliveries that are dead.
    pub dead: u64,
    /// Deliveries that were released.
    pub released: u64,
    /// Deliveries whose message was replaced meanwhile.
    pub superseded: u64,
    /// Deliveries that were not settled within the stop budget.
    pub unsettled: u64,
}

/// The kind of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The policy of all senders.
    SenderPolicy {
        /// Maximum number of attempts; without it, the worker's limit applies.
        attempts_max: Option<u32>,
    },
    /// From here on, no faults are injected.
    FaultsEnded,
    /// The store's clock jumped ahead.
    ClockJumped {
        /// By this many milliseconds.
        ms: u64,
    },
    /// A fault was injected into a call.
    Fault {
        /// The node that called.
        node: u64,
        /// The worker that called, if it was a worker.
        worker: Option<u64>,
        /// The call.
        call: &'static str,
        /// The kind of fault.
        kind: &'static str,
    },
    /// The following events belong to a delayed call, whose caller has already received an error.
    LateBegins,
    /// End of the events of the delayed call.
    LateEnds,
    /// A node makes calls at a high rate.
    CallRate {
        /// The node.
        node: u64,
        /// The call.
        call: &'static str,
        /// Number of calls so far in the current second.
        calls: u64,
    },
    /// A sender received an answer.
    Answered {
        /// The key.
        key: String,
        /// `accepted`, `duplicate` or `replaced`.
        outcome: &'static str,
        /// The message that has the key.
        uid: String,
    },
    /// A sender received an error.
    Unanswered {
        /// The key.
        key: String,
    },
    /// The store accepted a message, or recognized it as a duplicate.
    Stored {
        /// The key.
        key: String,
        /// The message that has the key.
        uid: String,
        /// `new`, `duplicate` or `replaced`.
        outcome: &'static str,
        /// The earliest time at which the sender may have asked for it.
        asked_at: u64,
        /// What was sent.
        content: SimContent,
    },
    /// The store changed what is paused in a topic.
    TopicPaused {
        /// The topic.
        topic: String,
        /// Whether new messages are rejected from now on.
        sending: bool,
        /// Whether messages are kept back from now on.
        receiving: bool,
    },
    /// A worker starts.
    Started {
        /// Its unique number, which is also the owner of its leases.
        worker: u64,
        /// Its node.
        node: u64,
        /// Its settings.
        setup: WorkerSetup,
    },
    /// The store granted a lease, or returned one again that it had granted to the same call.
    Granted {
        /// The worker.
        worker: u64,
        /// The fence of the lease.
        fence: u64,
        /// The message.
        uid: String,
        /// Number of the delivery, from 1.
        delivery: u32,
        /// Number of failed attempts before.
        attempts: u32,
        /// End of the lease, in store time.
        until: u64,
        /// The earliest time at which the worker may have asked for it.
        asked_at: u64,
        /// The delivered content.
        content: SimContent,
    },
    /// The store extended a lease, or found it lost.
    Extended {
        /// The fence of the lease.
        fence: u64,
        /// The new end, in store time; none if the lease was lost.
        until: Option<u64>,
    },
    /// The store settled a delivery.
    Settled {
        /// The fence of the lease.
        fence: u64,
        /// `ack`, `abandon`, `release`, or the reason of a failure.
        verdict: &'static str,
        /// `done`, `retrying`, `released`, `superseded`, `lost`, or the reason why it is dead.
        outcome: &'static str,
    },
    /// A worker received an answer from the store.
    AnswerReceived {
        /// The worker.
        worker: u64,
        /// The earliest time at which it may have asked for the call, before its node read the pauses.
        asked_at: u64,
        /// When its node made the call.
        called_at: u64,
        /// Whether the call claimed messages.
        claimed: bool,
        /// The fences of the deliveries.
        delivered: Vec<u64>,
        /// The fences of the leases that were extended.
        extended: Vec<u64>,
        /// The fences of the leases that could not be extended.
        lost: Vec<u64>,
        /// The outcomes of its settlements, by fence.
        settled: Vec<(u64, &'static str)>,
    },
    /// A handler started.
    HandlerStarted {
        /// Its worker.
        worker: u64,
        /// The message.
        uid: String,
        /// Number of the delivery, from 1.
        delivery: u32,
        /// The content it received.
        content: SimContent,
    },
    /// A handler ended.
    HandlerEnded {
        /// Its worker.
        worker: u64,
        /// The message.
        uid: String,
        /// Number of the delivery, from 1.
        delivery: u32,
        /// `ok`, `retry`, `dead`, `panic`, or `dropped` before its end.
        how: &'static str,
    },
    /// A worker is asked to pause.
    Paused {
        /// The worker.
        worker: u64,
    },
    /// A worker reports that it is drained.
    Drained {
        /// The worker.
        worker: u64,
    },
    /// A worker is asked to resume.
    Resumed {
        /// The worker.
        worker: u64,
    },
    /// A worker is asked to stop.
    Stopping {
        /// The worker.
        worker: u64,
    },
    /// A worker has stopped.
    Stopped {
        /// The worker.
        worker: u64,
        /// The totals it reports.
        totals: WorkerTotals,
    },
    /// A worker's task was aborted.
    Crashed {
        /// The worker.
        worker: u64,
    },
    /// A worker ended with an error.
    WorkerFailed {
        /// The worker.
        worker: u64,
        /// The error.
        error: String,
    },
    /// The state of a message at the end of the run.
    FinalState {
        /// The key.
        key: String,
        /// The message; empty if there is none.
        uid: String,
        /// `seen`, `processing`, `done`, or the reason why it is dead.
        state: &'static str,
        /// Number of failed attempts.
        attempts: u32,
        /// Number of deliveries.
        deliveries: u32,
    },
}
