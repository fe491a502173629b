//! Keys without content: observations, and leases on keys.

use super::accept::diverges;
use super::arena::Slot;
use super::counts::cost_of_key;
use super::{CallContext, Effect, Machine};
use crate::hash::CallerHash;
use crate::key::Key;
use crate::message::{Hold, Lease, MessageState};
use crate::payload::PayloadHandle;
use crate::port::{Begin, Begun, Observation, Observed};

impl<P: PayloadHandle> Machine<P> {
    /// Records that a key was observed; see [`crate::Store::observe`].
    pub fn observe(&mut self, context: &mut CallContext<'_, P>, observation: &Observation) -> Observed {
        self.advance(context);
        let key_hash = self.hash_key(&observation.key);
        let Some(slot) = self.holder(key_hash, &observation.key) else {
            if let Some((retry_after, bound)) = self.check_capacity(cost_of_key(&observation.key)) {
                return Observed::Saturated { retry_after, bound };
            }
            let hash = observation.hash.as_ref();
            let slot =
                self.record(context, key_hash, &observation.key, observation.hold, hash, MessageState::Seen);
            return Observed::First(self.summary(slot));
        };
        let message = &self.messages[slot];
        let diverged = diverges(message, None, observation.hash.as_ref());
        if message.state != MessageState::Done {
            let hash = observation.hash.as_ref().filter(|_| message.hash().is_none());
            self.commit(context.journal, slot, Effect::Observed { hash });
        }
        Observed::Again { summary: self.summary(slot), diverged }
    }

    /// Leases a key that has no content; see [`crate::Store::begin`].
    pub fn begin(&mut self, context: &mut CallContext<'_, P>, begin: &Begin) -> Begun {
        self.advance(context);
        let key_hash = self.hash_key(&begin.key);
        let slot = match self.holder(key_hash, &begin.key) {
            Some(slot) => {
                let message = &self.messages[slot];
                if message.state == MessageState::Done {
                    return Begun::Processed(self.summary(slot));
                }
                if message.state == MessageState::Dead || message.has_content() {
                    return Begun::Invalid;
                }
                if let Some(lease) = self.lease(slot) {
                    return Begun::Busy { until: lease.until };
                }
                self.commit(context.journal, slot, Effect::Observed { hash: None });
                slot
            }
            None => {
                if let Some((retry_after, bound)) = self.check_capacity(cost_of_key(&begin.key)) {
                    return Begun::Saturated { retry_after, bound };
                }
                self.record(context, key_hash, &begin.key, begin.hold, None, MessageState::Seen)
            }
        };
        let until = self.now.after(begin.lease.get());
        let lease = Lease { owner: begin.owner, fence: self.next_fence(), until };
        let extendable_until = self.extendable_until(begin.key.namespace, begin.lease);
        let (request, attempts_max, worker) = (None, None, None);
        let effect = Effect::Granted { lease, extendable_until, request, attempts_max, worker };
        self.commit(context.journal, slot, effect);
        Begun::Acquired { uid: self.messages[slot].uid, lease }
    }

    /// Records a free key, without content.
    pub(super) fn record(
        &mut self,
        context: &mut CallContext<'_, P>,
        key_hash: u32,
        key: &Key,
        hold: Hold,
        hash: Option<&CallerHash>,
        state: MessageState,
    ) -> Slot {
        let uid = self.draw_uid(context);
        let effect = Effect::Recorded { number: self.next_number(), key, hold, hash, state };
        self.create(context.journal, uid, key_hash, effect)
    }
}
