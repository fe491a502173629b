//! Upkeep: what time makes necessary, done in bounded pieces.

use std::time::Duration;

use crate::key::Namespace;
use crate::message::DeadReason;
use crate::text::Topic;
use crate::time::Timestamp;

/// How much one call of upkeep may do, and what it may forget.
///
/// What is Done is forgotten when its key is no longer held and repeats of its settlement need no more answer. What is
/// Seen or Dead stays unless a retention is given, and even then as long as its receipt promised to know duplicates and
/// repeats of its settlement need an answer. Processing always stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Messages to forget, and events that time has brought to let happen, at most.
    pub items_max: u32,
    /// Seen (and not leased) messages are forgotten so long after they came first.
    pub seen_keep: Option<Duration>,
    /// Dead messages are forgotten so long after they died; those of the mailbox by `dlq_keep` instead.
    pub dead_keep: Option<Duration>,
    /// Dead messages of the mailbox are forgotten so long after they died.
    pub dlq_keep: Option<Duration>,
}

impl Budget {
    /// A budget that forgets nothing Seen or Dead.
    pub fn new(items_max: u32) -> Self {
        Self { items_max, seen_keep: None, dead_keep: None, dlq_keep: None }
    }
}

/// Messages that became Dead, alike in what is told here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deaths {
    /// Of this namespace.
    pub namespace: Namespace,
    /// With content of this topic; none if they had no content, or there are too many topics to tell apart.
    pub topic: Option<Topic>,
    /// Why.
    pub reason: DeadReason,
    /// How many.
    pub count: u64,
}

/// What one call of upkeep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Upkept {
    /// Leases that ended by themselves since the last upkeep, whichever call noticed.
    pub lapsed: u64,
    /// Messages that expired since the last upkeep, whichever call noticed.
    pub expired: u64,
    /// Messages that became Dead since the last upkeep, whichever call made them so.
    pub died: Vec<Deaths>,
    /// Messages that this call forgot.
    pub forgotten: u64,
    /// When there is something to do again, as far as is known now: not later than now if the budget ran out, none if
    /// nothing is waiting for time. Any call may bring up an earlier moment, so do not sleep for long.
    pub next_due: Option<Timestamp>,
}
