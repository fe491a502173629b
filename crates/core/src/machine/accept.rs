//! Taking in messages: each key once while it is held, and what happens when it comes again.

use std::num::NonZeroU32;
use std::time::Duration;

use super::arena::Slot;
use super::counts::cost_of;
use super::message::Message;
use super::{Effect, Machine, Turn};
use crate::hash::{CallerHash, Fingerprint};
use crate::message::{Divergence, NewMessage, State};
use crate::payload::PayloadHandle;
use crate::port::{Accepted, Bound, Receipt};

/// When to come again while a lane is full: workers empty it, nobody knows how fast.
const LANE_RETRY: Duration = Duration::from_secs(1);

impl<P: PayloadHandle> Machine<P> {
    /// Takes in one message; see [`crate::Store::accept`].
    pub fn accept(&mut self, turn: &mut Turn<'_, P>, new: &NewMessage<P>) -> Accepted {
        self.advance(turn);
        let key_hash = self.hash_key(&new.key);
        match self.holder(key_hash, &new.key) {
            Some(slot) => self.accept_again(turn, slot, new),
            None => self.accept_first(turn, key_hash, new),
        }
    }

    fn accept_first(&mut self, turn: &mut Turn<'_, P>, key_hash: u32, new: &NewMessage<P>) -> Accepted {
        if let Some(other) = new.uid.and_then(|uid| self.find_uid(uid)) {
            return Accepted::UidTaken(self.receipt(other));
        }
        if let Some((retry_after, bound)) = self.full(cost_of(new)).or_else(|| self.full_for(new)) {
            return Accepted::Saturated { retry_after, bound };
        }
        let uid = new.uid.unwrap_or_else(|| self.draw_uid(turn));
        let effect = Effect::Accepted { number: self.next_number(), message: new };
        let slot = self.create(turn.journal, uid, key_hash, effect);
        Accepted::New { receipt: self.receipt(slot), diverged: false }
    }

    fn full_for(&self, new: &NewMessage<P>) -> Option<(Duration, Bound)> {
        let (limit, content) = (new.lane_max?, &new.content);
        let lane = self.lanes.find(new.key.namespace, &content.topic, content.shard)?;
        self.full_lane(lane, limit)
    }

    /// When to come again and why, if a lane has as many unfinished messages as it may.
    pub(super) fn full_lane(&self, lane: Slot, limit: NonZeroU32) -> Option<(Duration, Bound)> {
        let lane = lane.some()?;
        let bound = Bound::new(Bound::LANE_MESSAGES, self.lanes.unfinished(lane), u64::from(limit.get()));
        (bound.used >= bound.limit).then_some((LANE_RETRY, bound))
    }

    fn accept_again(&mut self, turn: &mut Turn<'_, P>, slot: Slot, new: &NewMessage<P>) -> Accepted {
        let message = &self.messages[slot];
        let diverged = diverges(message, Some(&new.fingerprint), new.hash.as_ref());
        let policy = new.policy.divergence;
        if message.state == State::Done {
            let receipt = self.receipt(slot);
            return if diverged && policy == Divergence::Conflict {
                Accepted::Conflict(receipt)
            } else {
                Accepted::Duplicate { receipt, diverged }
            };
        }
        let writes = !message.has_content() || policy == Divergence::Replace;
        let more = cost_of(new).saturating_sub(message.charged.into());
        if let (true, Some((retry_after, bound))) = (writes && more > 0, self.heavy(more)) {
            return Accepted::Saturated { retry_after, bound };
        }
        if !message.has_content() {
            let effect = Effect::Filled { number: self.next_number(), message: new };
            self.commit(turn.journal, slot, effect);
            return Accepted::New { receipt: self.receipt(slot), diverged };
        }
        let effect = match policy {
            Divergence::Replace => Effect::Replaced { message: new, diverged },
            Divergence::KeepFirst | Divergence::Conflict => Effect::Sighted { hash: None },
        };
        self.commit(turn.journal, slot, effect);
        let receipt = self.receipt(slot);
        match (policy, diverged) {
            (Divergence::Replace, true) => Accepted::Replaced(receipt),
            (Divergence::Conflict, true) => Accepted::Conflict(receipt),
            _ => Accepted::Duplicate { receipt, diverged },
        }
    }

    pub(super) fn receipt(&self, slot: Slot) -> Receipt {
        let message = &self.messages[slot];
        Receipt {
            uid: message.uid,
            accepted_at: message.accepted_at,
            dedup_until: message.dedup_until(),
            state: message.state,
            trace: message.trace.clone(),
        }
    }
}

/// Whether what came contradicts what is stored, by our hash or by the caller's.
pub(super) fn diverges<P>(
    message: &Message<P>,
    fingerprint: Option<&Fingerprint>,
    hash: Option<&CallerHash>,
) -> bool {
    let ours = matches!((&message.fingerprint, fingerprint), (Some(before), Some(now)) if before != now);
    let callers = matches!((message.hash(), hash), (Some(before), Some(now)) if before.contradicts(now));
    ours || callers
}
