//! What can happen in a simulated world, in plain texts and numbers.

use std::fmt;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, in milliseconds since the world began.
    pub at: u64,
    /// When, in milliseconds of the store's time.
    pub store: u64,
    /// What.
    pub what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8} ms (store +{}): {:?}", self.at, self.store.saturating_sub(self.at), self.what)
    }
}

/// What a sender sends, but for its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub payload: String,
    /// Handled one at a time with others of this partition.
    pub partition: Option<String>,
    /// Not handled before this moment of store time.
    pub due: Option<u64>,
    /// Dead from this moment of store time on.
    pub expires: Option<u64>,
}

/// What a worker is set to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setup {
    /// Handlers at once.
    pub concurrency: usize,
    /// Messages of the topic `narrow` at once.
    pub narrow: usize,
    /// Messages of the topic `rated` per second.
    pub rated: usize,
    /// How long a lease lasts.
    pub lease_ms: u64,
    /// Handlers end after so long.
    pub timeout_ms: Option<u64>,
    /// Handlers go on for so long when the worker stops.
    pub stop_budget_ms: u64,
    /// It gives up after so many failures.
    pub attempts_max: Option<u32>,
}

/// What a worker says that it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Done.
    pub handled: u64,
    /// To come again.
    pub retrying: u64,
    /// Dead.
    pub dead: u64,
    /// Given back.
    pub released: u64,
    /// Replaced meanwhile.
    pub superseded: u64,
    /// Not settled when the time was up.
    pub unsettled: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What every sender asks for.
    Rules {
        /// Messages are given up after this many deliveries that ended badly; none leaves it to their workers.
        attempts_max: Option<u32>,
    },
    /// From here on nothing fails and nobody crashes.
    Calm,
    /// The store's clock leapt ahead.
    Leapt {
        /// By so much.
        ms: u64,
    },
    /// A call did not go as it should.
    Fault {
        /// The node that called.
        node: u64,
        /// The worker that called; none if it was not a worker.
        worker: Option<u64>,
        /// The call.
        call: &'static str,
        /// What went wrong.
        kind: &'static str,
    },
    /// What follows was asked for long ago, by somebody who has been told that it failed.
    LateBegins,
    /// Until here.
    LateEnds,
    /// A node called very often.
    Hurry {
        /// The node.
        node: u64,
        /// The call.
        call: &'static str,
        /// How often in one second.
        calls: u64,
    },
    /// A sender was told what became of a message.
    Answered {
        /// The key.
        key: String,
        /// `accepted`, `duplicate` or `replaced`.
        outcome: &'static str,
        /// The message that has the key.
        uid: String,
    },
    /// A sender was told nothing.
    Unanswered {
        /// The key.
        key: String,
    },
    /// The store took a message in, or knew it already.
    Stored {
        /// The key.
        key: String,
        /// The message that has the key.
        uid: String,
        /// `new`, `duplicate` or `replaced`.
        outcome: &'static str,
        /// What was sent.
        content: Content,
    },
    /// A worker starts.
    Started {
        /// Its number, which no other has: the owner of its leases.
        worker: u64,
        /// What it is set to.
        setup: Setup,
    },
    /// The store granted a lease, or gave out one again that it had granted to the same call.
    Granted {
        /// To whom.
        worker: u64,
        /// Which lease.
        fence: u64,
        /// Of which message.
        uid: String,
        /// Which delivery of the message.
        delivery: u32,
        /// Its bad endings before.
        attempts: u32,
        /// Until when, in store time.
        until: u64,
        /// What was given out.
        content: Content,
    },
    /// The store was asked for a longer lease.
    Extended {
        /// Which lease.
        fence: u64,
        /// Until when, in store time; none if it was lost.
        until: Option<u64>,
    },
    /// The store heard how a delivery went.
    Settled {
        /// Which lease.
        fence: u64,
        /// `ack`, `abandon`, `release`, or the reason of a failure.
        verdict: &'static str,
        /// `done`, `retrying`, `released`, `superseded`, `lost`, or the reason why it is dead.
        outcome: &'static str,
    },
    /// A worker got an answer of the store.
    Told {
        /// The worker.
        worker: u64,
        /// When it had asked.
        asked_at: u64,
        /// Whether it had asked for messages.
        claimed: bool,
        /// The leases that it got.
        brought: Vec<u64>,
        /// The leases that it has extended.
        kept: Vec<u64>,
        /// The leases that it cannot extend.
        lost: Vec<u64>,
        /// What became of those it settled.
        settled: Vec<(u64, &'static str)>,
    },
    /// A handler began.
    Began {
        /// Whose.
        worker: u64,
        /// With which message.
        uid: String,
        /// Which delivery of it.
        delivery: u32,
        /// What it got.
        content: Content,
    },
    /// A handler ended.
    Ended {
        /// Whose.
        worker: u64,
        /// With which message.
        uid: String,
        /// Which delivery of it.
        delivery: u32,
        /// `ok`, `retry`, `dead`, `panic`, or `dropped` in the middle.
        how: &'static str,
    },
    /// A worker was told to take nothing new.
    Paused {
        /// The worker.
        worker: u64,
    },
    /// A worker says that nothing is in its hands any more.
    Drained {
        /// The worker.
        worker: u64,
    },
    /// A worker was told to work again.
    Resumed {
        /// The worker.
        worker: u64,
    },
    /// A worker was told to stop.
    Stopping {
        /// The worker.
        worker: u64,
    },
    /// A worker has stopped.
    Stopped {
        /// The worker.
        worker: u64,
        /// What it did.
        sums: Sums,
    },
    /// A worker's task was ended in the middle.
    Crashed {
        /// The worker.
        worker: u64,
    },
    /// A worker ended by itself.
    Broke {
        /// The worker.
        worker: u64,
        /// Why.
        why: String,
    },
    /// How a message stands in the end.
    Stands {
        /// The key.
        key: String,
        /// The message; empty if there is none.
        uid: String,
        /// `seen`, `processing`, `done`, or the reason why it is dead.
        state: &'static str,
        /// Its bad endings.
        attempts: u32,
        /// The leases granted.
        deliveries: u32,
    },
}
