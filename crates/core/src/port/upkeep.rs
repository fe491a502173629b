//! Upkeep: what time makes necessary, done in bounded pieces.

use std::collections::BTreeMap;
use std::sync::Arc;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Messages to forget, and events that time has brought to let happen, at most.
    pub items_max: u32,
    /// Seen (and not leased) messages are forgotten so long after they came first.
    pub seen_keep: Option<Duration>,
    /// Dead messages are forgotten so long after they died; those of the mailbox by `dead_letters` instead.
    pub dead_keep: Option<Duration>,
    /// What dead letters, the Dead messages of the mailbox, are kept for; none keeps them for ever.
    pub dead_letters: Option<Arc<DeadLetters>>,
}

impl Budget {
    /// A budget that forgets nothing Seen or Dead.
    pub const fn new(items_max: u32) -> Self {
        Self { items_max, seen_keep: None, dead_keep: None, dead_letters: None }
    }
}

/// The retention of dead letters, by topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetters {
    /// Of topics that have none of their own, and of letters without content.
    pub default: Retention,
    /// Of single topics; at most [`crate::limits::RETENTION_TOPICS_MAX`].
    pub topics: BTreeMap<Topic, Retention>,
}

impl DeadLetters {
    /// The retention of a topic; none stands for letters without content.
    pub fn of(&self, topic: Option<&Topic>) -> Retention {
        topic.and_then(|topic| self.topics.get(topic)).copied().unwrap_or(self.default)
    }
}

/// How long, and how many. What is over either is forgotten, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// A dead letter is forgotten so long after it died; never if none.
    pub keep: Option<Duration>,
    /// Of those that need not be kept for their receipt or for repeats, so many stay, the newest; all if none.
    pub messages_max: Option<u32>,
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
    /// Dead letters among them.
    pub dead_letters_forgotten: u64,
    /// When there is something to do again, as far as is known now: not later than now if the budget ran out, none if
    /// nothing is waiting for time. Any call may bring up an earlier moment, so do not sleep for long.
    pub next_due: Option<Timestamp>,
}
