//! The rule after a restart: how far a lane runs ahead of a delivery from before it (MBX-G-9).

use std::collections::BTreeSet;

use crate::id::Number;
use crate::limits::MAILBOX_REORDER_MESSAGES_MAX;

/// Deliveries of a lane from before the restart that are still out, and what was given out past the oldest of them.
#[derive(Default)]
pub(super) struct Inherited {
    out: BTreeSet<Number>,
    given: BTreeSet<Number>,
}

impl Inherited {
    /// A delivery from before the restart is still out.
    pub(super) fn add(&mut self, number: Number) {
        self.out.insert(number);
    }

    /// Whether this message may be given out.
    pub(super) fn may_give(&self, number: Number) -> bool {
        !self.is_past(number)
            || self.given.len() < MAILBOX_REORDER_MESSAGES_MAX
            || self.given.contains(&number)
    }

    /// This message was given out. Answers how many were, past the oldest delivery that is still out.
    pub(super) fn given(&mut self, number: Number) -> usize {
        if self.is_past(number) {
            self.given.insert(number);
        }
        self.given.len()
    }

    /// A lease of this message has ended. Answers whether that was the last delivery from before the restart.
    pub(super) fn remove(&mut self, number: Number) -> bool {
        self.out.remove(&number);
        let Some(oldest) = self.out.first() else { return true };
        self.given = self.given.split_off(oldest);
        false
    }

    fn is_past(&self, number: Number) -> bool {
        self.out.first().is_some_and(|oldest| number > *oldest)
    }
}
