//! Salvage: recorded effects enacted again although others before them are lost.

use super::arena::Slot;
use super::{Effect, Machine, Record};
use crate::id::{Number, Uid};
use crate::message::{DeadReason, GrantEnd, State};
use crate::payload::PayloadHandle;
use crate::port::Settled;

impl<P: PayloadHandle> Machine<P> {
    /// Enacts a recorded effect of a journal from which effects are missing. [`Machine::replay`] passes over what does not
    /// fit; here the record is believed, and what it takes for granted is made so: whoever had its number is gone, whoever
    /// was in flight in its partition has landed, and a settlement counts although its lease is not known.
    ///
    /// Answers whether it had an effect: not if its message is not here, or a lease that it speaks of.
    pub fn salvage(&mut self, record: Record<'_, P>) -> bool {
        self.pass_time_again(record.at);
        if record.effect.is_of_time() {
            return true;
        }
        self.lanes.replaying = true;
        self.make_way(record);
        let enacted = self.salvage_quietly(record);
        self.lanes.replaying = false;
        enacted
    }

    fn salvage_quietly(&mut self, record: Record<'_, P>) -> bool {
        if let Effect::Accepted { .. } | Effect::Recorded { .. } | Effect::Restored(_) = record.effect {
            return self.replay_quietly(record);
        }
        let Some(slot) = self.find_uid(record.uid) else { return false };
        let message = &self.messages[slot];
        let effect = match record.effect {
            Effect::Extended { .. } if !self.is_leased(message) => return false,
            Effect::Settled { outcome: Settled::LeaseLost, .. } => return false,
            // Its first content was lost, this is what came after it.
            Effect::Replaced { message: new, .. } if message.state == State::Seen => {
                Effect::Filled { number: message.number, message: new }
            }
            // The content that was claimed is lost: a repeat of the claim has nothing to get.
            Effect::Granted { lease, extendable_until, worker, .. } if self.content(slot).is_none() => {
                Effect::Granted { lease, extendable_until, request: None, attempts_max: None, worker }
            }
            effect => effect,
        };
        self.enact(slot, effect);
        true
    }

    /// Ends what must have ended before this could be recorded.
    fn make_way(&mut self, record: Record<'_, P>) {
        let other = number_of(record.effect).and_then(|number| self.numbers.get(number));
        if let Some(other) = other.filter(|other| self.messages[*other].uid != record.uid) {
            // Numbers are given out again only when their message is gone.
            self.remove(other);
        }
        match record.effect {
            Effect::Settled { .. } => self.undo_time(record.uid),
            Effect::Granted { .. } => {
                self.undo_time(record.uid);
                let Some(slot) = self.find_uid(record.uid) else { return };
                self.lose_lease(Some(slot));
                let message = &self.messages[slot];
                let partition = message.partition.some().map(|partition| self.partitions.name(partition));
                let flying =
                    partition.and_then(|name| self.partitions.in_flight(message.key.namespace, name));
                self.lose_lease(flying);
            }
            Effect::Restored(snapshot) => {
                let grant = snapshot.grant.as_ref().filter(|grant| grant.end.is_none());
                let Some(partition) = grant.and_then(|grant| grant.partition.as_ref()) else { return };
                let flying = self.partitions.in_flight(snapshot.key.namespace, partition);
                self.lose_lease(flying);
            }
            _ => {}
        }
    }

    /// Takes back a death that time seemed to bring: what prevented it, an extension or newer content, is lost.
    fn undo_time(&mut self, uid: Uid) {
        let Some(slot) = self.find_uid(uid) else { return };
        let message = &self.messages[slot];
        if matches!(message.dead, Some(DeadReason::Exhausted | DeadReason::Expired)) && message.has_content()
        {
            self.replace(slot, Self::revive);
        }
    }

    fn lose_lease(&mut self, slot: Option<Slot>) {
        if let Some(slot) = slot.filter(|slot| self.is_leased(&self.messages[*slot])) {
            self.replace(slot, |machine, slot| machine.end_grant(slot, GrantEnd::Lost));
        }
    }

    /// The messages that are here, oldest number first.
    pub fn uids(&self) -> impl Iterator<Item = Uid> {
        let slots = self.numbers.after(None, crate::port::Direction::OldestFirst);
        slots.map(|(_, slot)| self.messages[slot].uid)
    }
}

/// The number that an effect gives to its message.
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
