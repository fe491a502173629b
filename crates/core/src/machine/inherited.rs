//! The restart rule: how far a lane may run ahead of deliveries from before a restart (MBX-G-9).

use std::collections::BTreeSet;

use crate::id::Number;
use crate::limits::MAILBOX_REORDER_MESSAGES_MAX;

/// The inherited deliveries of a lane, that is, those from before the restart that are still outstanding, and the
/// messages that were delivered past the oldest of them.
#[derive(Default)]
pub(super) struct Inherited {
    outstanding: BTreeSet<Number>,
    delivered: BTreeSet<Number>,
}

impl Inherited {
    /// Adds an inherited delivery.
    pub(super) fn add(&mut self, number: Number) {
        self.outstanding.insert(number);
    }

    /// Whether this message may be delivered.
    pub(super) fn may_deliver(&self, number: Number) -> bool {
        !self.is_past(number)
            || self.delivered.len() < MAILBOX_REORDER_MESSAGES_MAX
            || self.delivered.contains(&number)
    }

    /// Notes a delivery. Returns how many messages were delivered past the oldest inherited delivery.
    pub(super) fn note_delivered(&mut self, number: Number) -> usize {
        if self.is_past(number) {
            self.delivered.insert(number);
        }
        self.delivered.len()
    }

    /// Notes the end of a lease. Returns whether no inherited delivery is left.
    pub(super) fn remove(&mut self, number: Number) -> bool {
        self.outstanding.remove(&number);
        let Some(oldest) = self.outstanding.first() else { return true };
        self.delivered = self.delivered.split_off(oldest);
        false
    }

    fn is_past(&self, number: Number) -> bool {
        self.outstanding.first().is_some_and(|oldest| number > *oldest)
    }
}
