//! Salvage: applying recorded effects although earlier ones are lost.

use super::arena::Slot;
use super::{Effect, Machine, TimedEffect};
use crate::id::{Number, Uid};
use crate::message::{DeadReason, GrantEnd, MessageState, Settled};
use crate::payload::PayloadHandle;

impl<P: PayloadHandle> Machine<P> {
    /// Applies a recorded effect of a journal from which effects are missing. [`Machine::replay`] skips what does not
    /// apply; here the record is trusted, and its preconditions are established: another message with its number is
    /// removed, another message in flight in its partition loses its lease, and a settlement takes effect although its
    /// lease is unknown.
    ///
    /// Returns whether it had an effect: not if its message, or a lease that it refers to, is not in memory.
    pub fn salvage(&mut self, record: TimedEffect<'_, P>) -> bool {
        self.replay_timers(record.at);
        if record.effect.is_time_driven() {
            return true;
        }
        self.lanes.replaying = true;
        self.resolve_conflicts(record);
        let applied = self.salvage_record(record);
        self.lanes.replaying = false;
        applied
    }

    fn salvage_record(&mut self, record: TimedEffect<'_, P>) -> bool {
        if let Effect::Accepted { .. } | Effect::Recorded { .. } | Effect::Restored(_) = record.effect {
            return self.replay_record(record);
        }
        let Some(slot) = self.find_uid(record.uid) else { return false };
        let message = &self.messages[slot];
        let effect = match record.effect {
            Effect::Extended { .. } if !self.is_leased(message) => return false,
            Effect::Settled { outcome: Settled::LeaseLost, .. } => return false,
            // The first content is lost; this is a later one.
            Effect::Replaced { message: new, .. } if message.state == MessageState::Seen => {
                Effect::Filled { number: message.number, message: new }
            }
            // The claimed content is lost: a repeat of the claim must not return it.
            Effect::Granted { lease, extendable_until, worker, .. } if self.content(slot).is_none() => {
                Effect::Granted { lease, extendable_until, request: None, attempts_max: None, worker }
            }
            effect => effect,
        };
        self.apply(slot, effect);
        true
    }

    /// Ends what must have ended before this effect was recorded.
    fn resolve_conflicts(&mut self, record: TimedEffect<'_, P>) {
        let other = number_of(record.effect).and_then(|number| self.numbers.get(number));
        if let Some(other) = other.filter(|other| self.messages[*other].uid != record.uid) {
            // A number is assigned again only when its message is gone.
            self.remove(other);
        }
        match record.effect {
            Effect::Settled { .. } => self.undo_timer_death(record.uid),
            Effect::Granted { .. } => {
                self.undo_timer_death(record.uid);
                let Some(slot) = self.find_uid(record.uid) else { return };
                self.drop_lease(Some(slot));
                let message = &self.messages[slot];
                let partition = message.partition.some().map(|partition| self.partitions.name(partition));
                let in_flight =
                    partition.and_then(|name| self.partitions.in_flight(message.key.namespace, name));
                self.drop_lease(in_flight);
            }
            Effect::Restored(snapshot) => {
                let grant = snapshot.grant.as_ref().filter(|grant| grant.end.is_none());
                let Some(partition) = grant.and_then(|grant| grant.partition.as_ref()) else { return };
                let in_flight = self.partitions.in_flight(snapshot.key.namespace, partition);
                self.drop_lease(in_flight);
            }
            _ => {}
        }
    }

    /// Reverts a death by lease end or expiry: the extension or the newer content that prevented it is lost.
    fn undo_timer_death(&mut self, uid: Uid) {
        let Some(slot) = self.find_uid(uid) else { return };
        let message = &self.messages[slot];
        if matches!(message.dead, Some(DeadReason::Exhausted | DeadReason::Expired)) && message.has_content()
        {
            self.reindex(slot, Self::revive);
        }
    }

    fn drop_lease(&mut self, slot: Option<Slot>) {
        if let Some(slot) = slot.filter(|slot| self.is_leased(&self.messages[*slot])) {
            self.reindex(slot, |machine, slot| machine.end_grant(slot, GrantEnd::Lost));
        }
    }

    /// The messages in memory, in order of number.
    pub fn uids(&self) -> impl Iterator<Item = Uid> {
        let slots = self.numbers.after(None, crate::port::Direction::OldestFirst);
        slots.map(|(_, slot)| self.messages[slot].uid)
    }
}

/// The number that an effect assigns to its message.
fn number_of<P>(effect: Effect<'_, P>) -> Option<Number> {
    match effect {
        Effect::Accepted { number, .. }
        | Effect::Recorded { number, .. }
        | Effect::Filled { number, .. }
        | Effect::Redriven { number, .. } => Some(number),
        Effect::Restored(snapshot) => Some(snapshot.number),
        _ => None,
    }
}
