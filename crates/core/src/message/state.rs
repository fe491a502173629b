//! The states of a message, and the reasons why it is given up.

use std::fmt;

/// The state of a message. Whether it is leased is independent of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// Its key was observed; there is nothing to process yet.
    Seen,
    /// To be processed, or being processed.
    Processing,
    /// Processed.
    Done,
    /// Given up; an operator has to decide.
    Dead,
}

/// Why a message is Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// A worker or an operator declared it failed.
    Failed,
    /// It has used up its attempts.
    Exhausted,
    /// Its expiry passed.
    Expired,
    /// An operator cancelled it.
    Cancelled,
    /// Its payload does not match its hash.
    Integrity,
    /// No handler is registered for its topic.
    Unhandled,
    /// Its payload cannot be decoded.
    Undecodable,
}

impl MessageState {
    /// The name in stored data, labels and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for MessageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DeadReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Failed,
        Self::Exhausted,
        Self::Expired,
        Self::Cancelled,
        Self::Integrity,
        Self::Unhandled,
        Self::Undecodable,
    ];

    /// The name in stored data, labels and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Integrity => "integrity",
            Self::Unhandled => "unhandled",
            Self::Undecodable => "undecodable",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
