//! Events of a demo run.

use oncebox_client::wire::operator::ReasonName;

/// An event. `index` is a message of the scenario, `attempt` the number of the delivery.
#[derive(Debug)]
pub(super) enum Event {
    /// The server answered a call that sent the message.
    Sent { index: usize, answer: Answer },
    /// A handler started.
    Started { index: usize, worker: &'static str, attempt: u32 },
    /// A handler succeeded; the delivery is not settled yet.
    Handled { index: usize, worker: &'static str },
    /// A handler failed; the delivery is not settled yet.
    Failed { index: usize, worker: &'static str, error: String },
    /// The server confirmed the acknowledgement.
    Acked { index: usize, worker: &'static str, attempt: u32 },
    /// The server answered that the lease of this delivery was lost.
    Lost { index: usize, worker: &'static str },
    /// The server lists the message as a dead letter since `at`.
    Dead { index: usize, reason: Option<ReasonName>, error: String, at: String },
    /// The operator redrove the message.
    Redriven { index: usize },
    /// A worker crashed while it held these messages.
    Crashed { worker: &'static str, held: Vec<usize> },
    /// The server was killed.
    Killed,
    /// The server process was restarted.
    Restarted,
    /// The restarted server is ready.
    Ready,
    /// A guarantee was violated.
    Violation(String),
}

/// The server's answer to a sender.
#[derive(Debug)]
pub(super) enum Answer {
    /// The message is accepted, by this call or (`duplicate`) by an earlier one.
    Accepted { msg_id: String, duplicate: bool },
    /// The key belongs to this message, which has a different payload.
    Refused { msg_id: String },
}

impl Event {
    /// Index of the message, for events that can only follow its acceptance.
    pub(super) fn after_accept(&self) -> Option<usize> {
        match self {
            Self::Started { index, .. }
            | Self::Handled { index, .. }
            | Self::Failed { index, .. }
            | Self::Acked { index, .. }
            | Self::Lost { index, .. }
            | Self::Dead { index, .. }
            | Self::Redriven { index } => Some(*index),
            _ => None,
        }
    }
}
