//! Properties that follow from a single message.

use oncebox_core::{Grant, Keep, MessageState, Namespace, Partition, Snapshot, Timestamp};

/// Properties of a message.
pub(super) trait Facts {
    /// The grant whose lease is current.
    fn current(&self) -> Option<&Grant>;

    /// Whether a lease is current.
    fn is_leased(&self) -> bool;

    /// When time changes it next: its lease lapses, or it expires.
    fn next_event(&self) -> Option<Timestamp>;

    /// Whether it holds its key.
    fn holds_key(&self, now: Timestamp) -> bool;

    /// Until when it holds its key, at least.
    fn held_until(&self) -> Timestamp;

    /// Whether it is queued: Processing, due and not leased.
    fn is_queued(&self, now: Timestamp) -> bool;

    /// Whether its content belongs to this partition.
    fn is_in(&self, namespace: Namespace, partition: &Partition) -> bool;
}

impl Facts for Snapshot {
    fn current(&self) -> Option<&Grant> {
        self.grant.as_ref().filter(|grant| grant.end.is_none())
    }

    fn is_leased(&self) -> bool {
        self.current().is_some()
    }

    fn next_event(&self) -> Option<Timestamp> {
        match self.current() {
            Some(grant) => Some(grant.lease.until),
            _ if self.state == MessageState::Processing => self.content.as_ref()?.expires,
            _ => None,
        }
    }

    fn holds_key(&self, now: Timestamp) -> bool {
        let bounded = match self.policy.hold.keep {
            Keep::Window => true,
            Keep::UntilFinished => matches!(self.state, MessageState::Done | MessageState::Dead),
            Keep::After(_) => self.state == MessageState::Done,
        };
        self.keyed && (!bounded || now < self.held_until())
    }

    fn held_until(&self) -> Timestamp {
        let window_end = self.accepted_at.after(self.policy.hold.window);
        let from = if self.state == MessageState::Done { self.finished_at } else { None };
        match self.policy.hold.keep {
            Keep::Window | Keep::UntilFinished => window_end,
            Keep::After(keep) => window_end.max(from.unwrap_or(self.accepted_at).after(keep)),
        }
    }

    fn is_queued(&self, now: Timestamp) -> bool {
        let due = self.content.as_ref().is_some_and(|content| content.due.is_none_or(|due| due <= now));
        self.state == MessageState::Processing && due && !self.is_leased()
    }

    fn is_in(&self, namespace: Namespace, partition: &Partition) -> bool {
        let own = self.content.as_ref().and_then(|content| content.partition.as_ref());
        self.key.namespace == namespace && own == Some(partition)
    }
}
