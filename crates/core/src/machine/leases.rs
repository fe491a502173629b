//! Leases: extension, the end of a grant, and the rule that they come back after a restart.

use super::arena::Slot;
use super::ended::Ended;
use super::held::Held;
use super::{Effect, Machine, Turn};
use crate::id::{Fence, Number};
use crate::key::Namespace;
use crate::limits::MAILBOX_EXTEND_FACTOR;
use crate::message::{GrantEnd, Lease};
use crate::payload::PayloadHandle;
use crate::port::{Extended, Extension};
use crate::time::{Span, Timestamp};

/// What a machine cannot know from a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The store's time, never before what was recorded.
    pub now: Timestamp,
    /// No number below this is given out: higher than that of any message that is not in memory.
    pub number_floor: Number,
    /// No fence below this is given out: higher than any that was ever granted.
    pub fence_floor: Fence,
    /// Leases may have been lost in the restart: until then nothing that is here is given out, and no lease ends.
    pub held_until: Timestamp,
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn held(&self, slot: Slot) -> Option<&Held> {
        self.messages[slot].grant.some().map(|grant| &self.grants[grant])
    }

    /// The current lease of a message.
    pub(super) fn lease(&self, slot: Slot) -> Option<&Lease> {
        self.held(slot).filter(|grant| grant.end.is_none()).map(|grant| &grant.lease)
    }

    /// How far the extensions of a lease granted now may go.
    pub(super) fn extendable_until(&self, namespace: Namespace, lease: Span) -> Timestamp {
        match namespace {
            Namespace::Mailbox => self.now.after(lease.get().saturating_mul(MAILBOX_EXTEND_FACTOR)),
            Namespace::Inbox | Namespace::Commands | Namespace::Ledger => Timestamp::NEVER,
        }
    }

    /// Moves the end of a current lease, never to an earlier moment.
    pub fn extend(&mut self, turn: &mut Turn<'_, P>, extension: &Extension) -> Extended {
        self.advance(turn);
        let Some(slot) = self.find_uid(extension.uid) else { return Extended::LeaseLost };
        let Some(grant) = self.held(slot) else { return Extended::LeaseLost };
        let Held { lease, extendable_until, end, .. } = *grant;
        if end.is_some() || lease.owner != extension.owner || lease.fence != extension.fence {
            return Extended::LeaseLost;
        }
        let until = self.now.after(extension.lease.get()).min(extendable_until).max(lease.until);
        if until > lease.until {
            self.commit(turn.journal, slot, Effect::Extended { until });
        }
        Extended::Until(until)
    }

    /// Ends the current grant, if there is one. The message is out of its place.
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
            self.lanes.disinherit(lane, message.number);
        }
        if let Some(partition) = grant.partition() {
            self.partitions.land(message.key.namespace, partition);
        }
    }

    /// To be called once after a replay, before the first operation.
    ///
    /// Deliveries that are out now were given out before the restart, and bound how far their mailbox lanes run ahead of
    /// them.
    pub fn resume(&mut self, resume: Resume) {
        // What time had brought by what was replayed has been told before.
        self.ended = Ended::default();
        // What time has brought in between still happens at its own instant.
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

    /// Gives out nothing that is here before `until`, and lets no current lease end before it. Part of [`Machine::resume`],
    /// and of the replay of an earlier one.
    pub fn hold_back(&mut self, until: Timestamp) {
        self.held_back = (self.next_number(), until);
        let slots: Vec<_> = self.messages.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.replace(slot, |machine, slot| {
                let message = &machine.messages[slot];
                if machine.is_leased(message) {
                    let lease = &mut machine.grants[message.grant].lease;
                    lease.until = lease.until.max(until);
                }
            });
        }
    }
}
