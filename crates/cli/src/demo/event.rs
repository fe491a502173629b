//! What happens in a demo.

use oncebox::{DeadReason, Outcome, Timestamp};

/// Something that happened to a part of the script, which `part` numbers.
#[derive(Debug)]
pub(super) enum Event {
    /// A call brought it, and the inbox answered.
    Arrived { part: usize, outcome: Outcome, accepted_at: Timestamp },
    /// A handler began.
    Started { part: usize, worker: &'static str, delivery: u32 },
    /// A handler ended.
    Ended { part: usize, worker: &'static str, ending: Ending },
    /// The store says that it is Done.
    Done { part: usize },
    /// The store says that it is Dead.
    Dead { part: usize, reason: DeadReason, error: String },
    /// A worker was crashed.
    Crashed { worker: &'static str },
}

/// How a run of a handler ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished,
    Failed(String),
    Panicked,
    Interrupted,
}
