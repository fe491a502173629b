//! What happens in a demo.

use oncebox_client::wire::operator::Reason;

/// Something that happened. `part` numbers a part of the script, `attempt` its delivery.
#[derive(Debug)]
pub(super) enum Event {
    /// A call brought it, and the server answered.
    Arrived { part: usize, answer: Answer },
    /// A handler began.
    Started { part: usize, worker: &'static str, attempt: u32 },
    /// A handler ended well; the server does not know yet.
    Handled { part: usize, worker: &'static str },
    /// A handler failed; the server does not know yet.
    Failed { part: usize, worker: &'static str, error: String },
    /// The server answered that it is acknowledged.
    Acked { part: usize, worker: &'static str, attempt: u32 },
    /// The server answered that this delivery was not held any more.
    Lost { part: usize, worker: &'static str },
    /// The server lists it among its dead letters; `at` tells one death from the next.
    Dead { part: usize, reason: Option<Reason>, error: String, at: String },
    /// An operator gave it another chance.
    Redriven { part: usize },
    /// A worker crashed with these in its hands.
    Crashed { worker: &'static str, held: Vec<usize> },
    /// The server was killed.
    Killed,
    /// The server was started again.
    Restarted,
    /// The server answers again.
    Back,
    /// Something that must not happen.
    Fault(String),
}

/// What the server said to a sender.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is taken in, now or before.
    Taken { msg_id: String, duplicate: bool },
    /// Its key belongs to this message, which has another payload.
    Refused { msg_id: String },
}

impl Event {
    /// What happened to a message after it was taken in: to which.
    pub(super) fn after_arrival(&self) -> Option<usize> {
        match self {
            Self::Started { part, .. }
            | Self::Handled { part, .. }
            | Self::Failed { part, .. }
            | Self::Acked { part, .. }
            | Self::Lost { part, .. }
            | Self::Dead { part, .. }
            | Self::Redriven { part } => Some(*part),
            _ => None,
        }
    }
}
