//! What a sender is told.

use oncebox_core::{Accepted, Error, Invalid, Timestamp, Trace, Uid};

/// What became of a message that was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It is new, and taken in.
    Accepted,
    /// It came before; the first content stays.
    Duplicate,
    /// It came before with other content, and has this content now.
    Replaced,
    /// It came before with other content, and the inbox is set to refuse that; the first content stays.
    Conflict,
}

/// What a sender is told. But for the outcome, everything is as it was stored first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// What became of what was sent.
    pub outcome: Outcome,
    /// The identity of the message that has the key.
    pub uid: Uid,
    /// When its key came first.
    pub accepted_at: Timestamp,
    /// Until when duplicates are known as such, at least.
    pub dedup_until: Timestamp,
    /// Where the message stands.
    pub state: oncebox_core::State,
    /// The trace ids it came with first.
    pub trace: Trace,
}

impl Receipt {
    pub(crate) fn of(accepted: Accepted) -> Result<Self, Error> {
        let (outcome, receipt) = match accepted {
            Accepted::New { receipt, .. } => (Outcome::Accepted, receipt),
            Accepted::Duplicate { receipt, .. } => (Outcome::Duplicate, receipt),
            Accepted::Replaced(receipt) => (Outcome::Replaced, receipt),
            Accepted::Conflict(receipt) => (Outcome::Conflict, receipt),
            Accepted::Saturated { retry_after, bound } => return Err(Error::saturated(retry_after, bound)),
            // The inbox lets the store draw uids.
            _ => return Err(Invalid::new("uid", "belongs to another message").into()),
        };
        let oncebox_core::Receipt { uid, accepted_at, dedup_until, state, trace } = receipt;
        Ok(Self { outcome, uid, accepted_at, dedup_until, state, trace })
    }
}
