//! The receipt for an enqueued message.

use oncebox_core::{Accepted, Error, Invalid, Timestamp, Trace, Uid};

/// What happened to an enqueued message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EnqueueOutcome {
    /// The key is new, and the message was accepted.
    Accepted,
    /// The key was accepted before; the stored content stays.
    Duplicate,
    /// The key was accepted before with other content, which was replaced.
    Replaced,
    /// The key was accepted before with other content, and the inbox is set to reject that; the stored content stays.
    Conflict,
}

/// The receipt for an enqueued message. Apart from the outcome, it describes the message that was accepted first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnqueueReceipt {
    /// What happened to the enqueued message.
    pub outcome: EnqueueOutcome,
    /// The uid of the message with this key.
    pub uid: Uid,
    /// When the key was first accepted.
    pub accepted_at: Timestamp,
    /// The end of the dedup window: duplicates are recognized at least until then.
    pub dedup_until: Timestamp,
    /// The state of the message.
    pub state: oncebox_core::MessageState,
    /// The trace ids of the message that was accepted first.
    pub trace: Trace,
}

impl EnqueueReceipt {
    pub(crate) fn of(accepted: Accepted) -> Result<Self, Error> {
        let (outcome, summary) = match accepted {
            Accepted::New { summary, .. } => (EnqueueOutcome::Accepted, summary),
            Accepted::Duplicate { summary, .. } => (EnqueueOutcome::Duplicate, summary),
            Accepted::Replaced(summary) => (EnqueueOutcome::Replaced, summary),
            Accepted::Conflict(summary) => (EnqueueOutcome::Conflict, summary),
            Accepted::Saturated { retry_after, bound } => return Err(Error::saturated(retry_after, bound)),
            // Cannot happen: the inbox lets the store assign uids.
            _ => return Err(Invalid::new("uid", "belongs to another message").into()),
        };
        let oncebox_core::MessageSummary { uid, accepted_at, dedup_until, state, trace } = summary;
        Ok(Self { outcome, uid, accepted_at, dedup_until, state, trace })
    }
}
