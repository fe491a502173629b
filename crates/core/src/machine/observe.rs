//! Keys without content: sightings, and leases on bare keys.

use super::accept::diverges;
use super::arena::Slot;
use super::counts::cost_of_key;
use super::{Effect, Machine, Turn};
use crate::hash::CallerHash;
use crate::key::Key;
use crate::message::{Hold, Lease, State};
use crate::payload::PayloadHandle;
use crate::port::{Begin, Begun, Observed, Sighting};

impl<P: PayloadHandle> Machine<P> {
    /// Notes that a key came by; see [`crate::Store::observe`].
    pub fn observe(&mut self, turn: &mut Turn<'_, P>, sighting: &Sighting) -> Observed {
        self.advance(turn);
        let key_hash = self.hash_key(&sighting.key);
        let Some(slot) = self.holder(key_hash, &sighting.key) else {
            if let Some((retry_after, bound)) = self.full(cost_of_key(&sighting.key)) {
                return Observed::Saturated { retry_after, bound };
            }
            let hash = sighting.hash.as_ref();
            let slot = self.record(turn, key_hash, &sighting.key, sighting.hold, hash, State::Seen);
            return Observed::First(self.receipt(slot));
        };
        let message = &self.messages[slot];
        let diverged = diverges(message, None, sighting.hash.as_ref());
        if message.state != State::Done {
            let hash = sighting.hash.as_ref().filter(|_| message.hash().is_none());
            self.commit(turn.journal, slot, Effect::Sighted { hash });
        }
        Observed::Again { receipt: self.receipt(slot), diverged }
    }

    /// Leases a key that has no content; see [`crate::Store::begin`].
    pub fn begin(&mut self, turn: &mut Turn<'_, P>, begin: &Begin) -> Begun {
        self.advance(turn);
        let key_hash = self.hash_key(&begin.key);
        let slot = match self.holder(key_hash, &begin.key) {
            Some(slot) => {
                let message = &self.messages[slot];
                if message.state == State::Done {
                    return Begun::Processed(self.receipt(slot));
                }
                if message.state == State::Dead || message.has_content() {
                    return Begun::Invalid;
                }
                if let Some(lease) = self.lease(slot) {
                    return Begun::Busy { until: lease.until };
                }
                self.commit(turn.journal, slot, Effect::Sighted { hash: None });
                slot
            }
            None => {
                if let Some((retry_after, bound)) = self.full(cost_of_key(&begin.key)) {
                    return Begun::Saturated { retry_after, bound };
                }
                self.record(turn, key_hash, &begin.key, begin.hold, None, State::Seen)
            }
        };
        let until = self.now.after(begin.lease.get());
        let lease = Lease { owner: begin.owner, fence: self.next_fence(), until };
        let extendable_until = self.extendable_until(begin.key.namespace, begin.lease);
        let (request, attempts_max, worker) = (None, None, None);
        let effect = Effect::Granted { lease, extendable_until, request, attempts_max, worker };
        self.commit(turn.journal, slot, effect);
        Begun::Acquired { uid: self.messages[slot].uid, lease }
    }

    /// Records a key that nobody holds, without content.
    pub(super) fn record(
        &mut self,
        turn: &mut Turn<'_, P>,
        key_hash: u32,
        key: &Key,
        hold: Hold,
        hash: Option<&CallerHash>,
        state: State,
    ) -> Slot {
        let uid = self.draw_uid(turn);
        let effect = Effect::Recorded { number: self.next_number(), key, hold, hash, state };
        self.create(turn.journal, uid, key_hash, effect)
    }
}
