//! Maintenance: lease ends, expiries and retention, done in bounded steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Namespace;
use crate::message::DeadReason;
use crate::text::Topic;
use crate::time::Timestamp;

/// How much one maintenance call may do, and what it may forget.
///
/// A Done message is forgotten once its key is no longer held and repeats of its settlement need no answer. Seen and
/// Dead messages stay unless a retention is given, and even then for as long as their dedup window lasts and repeats of
/// their settlement need an answer. Processing messages always stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The maximum number of messages to forget and of timer events to process.
    pub items_max: u32,
    /// Seen messages that are not leased are forgotten this long after their key was first seen; none keeps them.
    pub seen_keep: Option<Duration>,
    /// Dead messages are forgotten this long after they died; none keeps them. Mailbox messages follow `dead_letters`.
    pub dead_keep: Option<Duration>,
    /// The retention of dead letters, the Dead messages of the mailbox; none keeps them forever.
    pub dead_letters: Option<Arc<DeadLetters>>,
}

impl Budget {
    /// A budget that forgets no Seen or Dead messages.
    pub const fn new(items_max: u32) -> Self {
        Self { items_max, seen_keep: None, dead_keep: None, dead_letters: None }
    }
}

/// The retention of dead letters, by topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetters {
    /// For topics without a retention of their own, and for dead letters without content.
    pub default: Retention,
    /// For single topics; at most [`crate::limits::RETENTION_TOPICS_MAX`].
    pub topics: BTreeMap<Topic, Retention>,
}

impl DeadLetters {
    /// The retention of a topic; `None` stands for dead letters without content.
    pub fn of(&self, topic: Option<&Topic>) -> Retention {
        topic.and_then(|topic| self.topics.get(topic)).copied().unwrap_or(self.default)
    }
}

/// Limits by age and by count. Dead letters beyond either limit are forgotten, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// A dead letter is forgotten this long after it died; none keeps it forever.
    pub keep: Option<Duration>,
    /// The newest dead letters that stay, among those that are not required for their dedup window or for repeated
    /// settlements; none keeps all.
    pub messages_max: Option<u32>,
}

/// Messages that became Dead, grouped by namespace, topic and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deaths {
    /// Their namespace.
    pub namespace: Namespace,
    /// The topic of their content; none if they had no content, or if there are too many topics to count separately.
    pub topic: Option<Topic>,
    /// Why they are Dead.
    pub reason: DeadReason,
    /// The number of messages.
    pub count: u64,
}

/// What one maintenance call did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaintenanceReport {
    /// Leases that lapsed since the last maintenance, whichever call noticed.
    pub lapsed: u64,
    /// Messages that expired since the last maintenance, whichever call noticed.
    pub expired: u64,
    /// Messages that became Dead since the last maintenance, whichever call caused it.
    pub died: Vec<Deaths>,
    /// Messages that this call has forgotten.
    pub forgotten: u64,
    /// Dead letters among the forgotten messages.
    pub dead_letters_forgotten: u64,
    /// When the next maintenance is due, as far as is known: not later than now if the budget was used up, none if
    /// no message waits for a moment in time. Any call may bring an earlier moment, so do not sleep for long.
    pub next_due: Option<Timestamp>,
}
