//! Accepting: observed keys, new messages, leases on keys without content, and the outcomes of these calls.

use std::time::Duration;

use crate::bound::Bound;
use crate::hash::CallerHash;
use crate::id::{Owner, Uid};
use crate::key::Key;
use crate::message::{Hold, Lease, MessageState, MessageSummary};
use crate::time::{Span, Timestamp};

/// A key that the caller has observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The key.
    pub key: Key,
    /// A hash of the content that came with it.
    pub hash: Option<CallerHash>,
    /// How long the key is held if it is new.
    pub hold: Hold,
}

/// The outcome of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// No message held the key; it is recorded as Seen.
    First(MessageSummary),
    /// The key is held.
    Again {
        /// The message that holds it.
        summary: MessageSummary,
        /// The hashes show that the content differs.
        diverged: bool,
    },
    /// The store is full; nothing was recorded.
    Saturated {
        /// When to retry.
        retry_after: Duration,
        /// The bound that is reached.
        bound: Bound,
    },
}

impl Observed {
    /// Whether the key's message is Done.
    pub fn is_processed(&self) -> bool {
        matches!(self, Self::Again { summary, .. } if summary.state == MessageState::Done)
    }
}

/// The outcome of accepting a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepted {
    /// The content was accepted: the key was free, or was known without content.
    New {
        /// The message that now holds the key.
        summary: MessageSummary,
        /// The key was known with a different caller's hash.
        diverged: bool,
    },
    /// The key's message already has content; the first content is kept (or the message is Done and its content
    /// removed).
    Duplicate {
        /// The message that holds the key.
        summary: MessageSummary,
        /// The content differs.
        diverged: bool,
    },
    /// The key's message had other content, which was replaced by this content.
    Replaced(MessageSummary),
    /// The key's message has other content, and the policy refuses to replace it.
    Conflict(MessageSummary),
    /// The key is free, but the given uid belongs to this other message.
    UidTaken(MessageSummary),
    /// The store is full; nothing was accepted.
    Saturated {
        /// When to retry.
        retry_after: Duration,
        /// The bound that is reached.
        bound: Bound,
    },
}

impl Accepted {
    /// The summary, unless the store is full.
    pub fn summary(&self) -> Option<&MessageSummary> {
        match self {
            Self::New { summary, .. }
            | Self::Duplicate { summary, .. }
            | Self::Replaced(summary)
            | Self::Conflict(summary)
            | Self::UidTaken(summary) => Some(summary),
            Self::Saturated { .. } => None,
        }
    }

    /// Whether the new message contradicts the stored one: worth a warning, whatever the policy did.
    pub fn diverged(&self) -> bool {
        match self {
            Self::New { diverged, .. } | Self::Duplicate { diverged, .. } => *diverged,
            Self::Replaced(_) | Self::Conflict(_) => true,
            Self::UidTaken(_) | Self::Saturated { .. } => false,
        }
    }
}

/// A request to lease a key for processing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The key.
    pub key: Key,
    /// The worker that will hold the lease.
    pub owner: Owner,
    /// The duration of the lease.
    pub lease: Span,
    /// How long the key is held if it is new.
    pub hold: Hold,
}

/// The outcome of a [`Begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begun {
    /// The key is leased to the caller.
    Acquired {
        /// The message to settle.
        uid: Uid,
        /// The lease to settle it with.
        lease: Lease,
    },
    /// The key is Done.
    Processed(MessageSummary),
    /// The key has a current lease.
    Busy {
        /// When that lease ends.
        until: Timestamp,
    },
    /// The key has content or is Dead, so it cannot be begun.
    Invalid,
    /// The store is full; nothing was recorded.
    Saturated {
        /// When to retry.
        retry_after: Duration,
        /// The bound that is reached.
        bound: Bound,
    },
}
