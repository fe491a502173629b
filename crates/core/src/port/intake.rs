//! Taking in: sightings, new messages, leases on bare keys, and their outcomes.

use std::time::Duration;

use crate::annotation::Trace;
use crate::hash::CallerHash;
use crate::id::{Owner, Uid};
use crate::key::Key;
use crate::message::{Hold, Lease, State};
use crate::port::Bound;
use crate::time::{Span, Timestamp};

/// What a sender is told about the message that has its key. Every field is the stored message's, not the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The identity of the message.
    pub uid: Uid,
    /// When its key came first.
    pub accepted_at: Timestamp,
    /// Until when duplicates are known as such, at least.
    pub dedup_until: Timestamp,
    /// Where it stands.
    pub state: State,
    /// The trace ids it was accepted with.
    pub trace: Trace,
}

/// A key that came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// The key.
    pub key: Key,
    /// A hash of what came with it.
    pub hash: Option<CallerHash>,
    /// How long the key is held, if it is new.
    pub hold: Hold,
}

/// The outcome of a sighting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// Nobody held the key; it is Seen now.
    First(Receipt),
    /// The key is held.
    Again {
        /// Of the message that holds it.
        receipt: Receipt,
        /// The hash says that the content differs.
        diverged: bool,
    },
    /// The store is full; nothing was recorded.
    Saturated {
        /// When to try again.
        retry_after: Duration,
        /// The bound that left no room.
        bound: Bound,
    },
}

impl Observed {
    /// Whether the key's message is Done.
    pub fn is_processed(&self) -> bool {
        matches!(self, Self::Again { receipt, .. } if receipt.state == State::Done)
    }
}

/// The outcome of taking in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Accepted {
    /// The content is taken in: the key was free, or was known without content.
    New {
        /// Of the message that holds the key now.
        receipt: Receipt,
        /// The key was known, and with another hash of the caller's.
        diverged: bool,
    },
    /// The key's message has content already; the first content stays (or is Done and gone).
    Duplicate {
        /// Of the message that holds the key.
        receipt: Receipt,
        /// The content differs.
        diverged: bool,
    },
    /// The key's message had other content, and has this content now.
    Replaced(Receipt),
    /// The key's message has other content, and the policy refuses.
    Conflict(Receipt),
    /// The key is free, but the given uid belongs to this other message.
    UidTaken(Receipt),
    /// The store is full; nothing was taken in.
    Saturated {
        /// When to try again.
        retry_after: Duration,
        /// The bound that left no room.
        bound: Bound,
    },
}

impl Accepted {
    /// The receipt, unless the store is full.
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::New { receipt, .. }
            | Self::Duplicate { receipt, .. }
            | Self::Replaced(receipt)
            | Self::Conflict(receipt)
            | Self::UidTaken(receipt) => Some(receipt),
            Self::Saturated { .. } => None,
        }
    }

    /// Whether what came contradicts what is stored: worth a warning, whatever the policy made of it.
    pub fn diverged(&self) -> bool {
        match self {
            Self::New { diverged, .. } | Self::Duplicate { diverged, .. } => *diverged,
            Self::Replaced(_) | Self::Conflict(_) => true,
            Self::UidTaken(_) | Self::Saturated { .. } => false,
        }
    }
}

/// A wish to process a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The key.
    pub key: Key,
    /// Who wants it.
    pub owner: Owner,
    /// For how long.
    pub lease: Span,
    /// How long the key is held, if it is new.
    pub hold: Hold,
}

/// The outcome of such a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begun {
    /// It is leased.
    Acquired {
        /// The message to settle.
        uid: Uid,
        /// The lease to settle it with.
        lease: Lease,
    },
    /// It is Done.
    Processed(Receipt),
    /// A lease is current.
    Busy {
        /// Until this moment.
        until: Timestamp,
    },
    /// The key has content, or is Dead: it is not for this call.
    Invalid,
    /// The store is full; nothing was recorded.
    Saturated {
        /// When to try again.
        retry_after: Duration,
        /// The bound that left no room.
        bound: Bound,
    },
}
