//! Leases: extensions, the end of a grant, and how leases resume after a restart.

use super::arena::Slot;
use super::grant::StoredGrant;
use super::timer_events::TimerEvents;
use super::{CallContext, Effect, Machine};
use crate::id::{Fence, Number};
use crate::key::Namespace;
use crate::limits::MAILBOX_EXTEND_FACTOR;
use crate::message::{GrantEnd, Lease};
use crate::payload::PayloadHandle;
use crate::port::{Extended, Extension};
use crate::time::{Span, Timestamp};

/// What a machine cannot derive from a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The store's time, never earlier than the last recorded time.
    pub now: Timestamp,
    /// The lowest number that may be assigned: higher than that of any message that is not in memory.
    pub number_floor: Number,
    /// The lowest fence that may be assigned: higher than any that was ever granted.
    pub fence_floor: Fence,
    /// Leases may have been lost in the restart: until this moment no existing message is delivered, and no lease ends.
    pub held_until: Timestamp,
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn grant(&self, slot: Slot) -> Option<&StoredGrant> {
        self.messages[slot].grant.some().map(|grant| &self.grants[grant])
    }

    /// The current lease of a message.
    pub(super) fn lease(&self, slot: Slot) -> Option<&Lease> {
        self.grant(slot).filter(|grant| grant.end.is_none()).map(|grant| &grant.lease)
    }

    /// The limit for extensions of a lease that is granted now.
    pub(super) fn extendable_until(&self, namespace: Namespace, lease: Span) -> Timestamp {
        match namespace {
            Namespace::Mailbox => self.now.after(lease.get().saturating_mul(MAILBOX_EXTEND_FACTOR)),
            Namespace::Inbox | Namespace::Commands | Namespace::Ledger => Timestamp::NEVER,
        }
    }

    /// Extends a current lease, never to an earlier moment; see [`crate::Store::extend`].
    pub fn extend(&mut self, context: &mut CallContext<'_, P>, extension: &Extension) -> Extended {
        self.advance(context);
        let Some(slot) = self.find_uid(extension.uid) else { return Extended::LeaseLost };
        let Some(grant) = self.grant(slot) else { return Extended::LeaseLost };
        let StoredGrant { lease, extendable_until, end, .. } = *grant;
        if end.is_some() || lease.owner != extension.owner || lease.fence != extension.fence {
            return Extended::LeaseLost;
        }
        let until = self.now.after(extension.lease.get()).min(extendable_until).max(lease.until);
        if until > lease.until {
            self.commit(context.journal, slot, Effect::Extended { until });
        }
        Extended::Until(until)
    }

    /// Ends the current grant, if there is one. The message must not be indexed.
    pub(super) fn end_grant(&mut self, slot: Slot, end: GrantEnd) {
        let message = &self.messages[slot];
        let Some(grant) = message.grant.some() else { return };
        let grant = &mut self.grants[grant];
        if grant.end.is_some() {
            return;
        }
        grant.end = Some(end);
        grant.attempts_max = None;
        if let Some(request) = grant.request() {
            self.requests.remove(&(message.key.namespace, grant.lease.owner, request, grant.lease.fence));
        }
        if let Some(lane) = message.lane.some() {
            self.lanes.end_inherited(lane, message.number);
        }
        if let Some(partition) = grant.partition() {
            self.partitions.clear_in_flight(message.key.namespace, partition);
        }
    }

    /// Prepares the machine for operation; call it once after a replay, before the first operation.
    ///
    /// Current deliveries are from before the restart, and limit how far their mailbox lanes may run ahead of them.
    pub fn resume(&mut self, resume: Resume) {
        // Timer events up to the last record were reported before the restart.
        self.timer_events = TimerEvents::default();
        // Timer events since then are still processed at their own instants.
        let pending = self.timers.next().unwrap_or(Timestamp::NEVER);
        self.now = self.now.max(resume.now.min(pending));
        self.number_next = self.number_next.max(resume.number_floor.0);
        self.fence_next = self.fence_next.max(resume.fence_floor.get());
        for (_, message) in self.messages.iter() {
            if message.key.namespace == Namespace::Mailbox
                && self.is_leased(message)
                && let Some(lane) = message.lane.some()
            {
                self.lanes.inherit(lane, message.number);
            }
        }
        if resume.held_until > resume.now {
            self.hold_back(resume.held_until);
        }
    }

    /// Delivers no existing message before `until`, and lets no current lease end before it. Part of
    /// [`Machine::resume`], and of the replay of an earlier one.
    pub fn hold_back(&mut self, until: Timestamp) {
        self.held_back = (self.next_number(), until);
        let slots: Vec<_> = self.messages.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.reindex(slot, |machine, slot| {
                let message = &machine.messages[slot];
                if machine.is_leased(message) {
                    let lease = &mut machine.grants[message.grant].lease;
                    lease.until = lease.until.max(until);
                }
            });
        }
    }
}
