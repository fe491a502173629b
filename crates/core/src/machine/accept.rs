//! Accepting messages: each key once while it is held, and how duplicates are handled.

use std::num::NonZeroU32;
use std::time::Duration;

use super::arena::Slot;
use super::counts::cost_of;
use super::message::Message;
use super::{CallContext, Effect, Machine};
use crate::bound::Bound;
use crate::hash::{CallerHash, Fingerprint};
use crate::message::{Divergence, MessageState, MessageSummary, NewMessage};
use crate::payload::PayloadHandle;
use crate::port::Accepted;

/// When to retry while a lane is full. How fast its workers are is not known.
const LANE_RETRY: Duration = Duration::from_secs(1);

impl<P: PayloadHandle> Machine<P> {
    /// Accepts one message; see [`crate::Store::accept`].
    pub fn accept(&mut self, context: &mut CallContext<'_, P>, new: &NewMessage<P>) -> Accepted {
        self.advance(context);
        let key_hash = self.hash_key(&new.key);
        match self.holder(key_hash, &new.key) {
            Some(slot) => self.accept_again(context, slot, new),
            None => self.accept_first(context, key_hash, new),
        }
    }

    fn accept_first(
        &mut self,
        context: &mut CallContext<'_, P>,
        key_hash: u32,
        new: &NewMessage<P>,
    ) -> Accepted {
        if let Some(other) = new.uid.and_then(|uid| self.find_uid(uid)) {
            return Accepted::UidTaken(self.summary(other));
        }
        if let Some((retry_after, bound)) =
            self.check_capacity(cost_of(new)).or_else(|| self.check_lane_capacity(new))
        {
            return Accepted::Saturated { retry_after, bound };
        }
        let uid = new.uid.unwrap_or_else(|| self.draw_uid(context));
        let effect = Effect::Accepted { number: self.next_number(), message: new };
        let slot = self.create(context.journal, uid, key_hash, effect);
        Accepted::New { summary: self.summary(slot), diverged: false }
    }

    fn check_lane_capacity(&self, new: &NewMessage<P>) -> Option<(Duration, Bound)> {
        let (limit, content) = (new.lane_max?, &new.content);
        let lane = self.lanes.find(new.key.namespace, &content.topic, content.shard)?;
        self.check_lane(lane, limit)
    }

    /// Checks whether a lane has fewer unfinished messages than `limit`; otherwise returns when to retry and the bound.
    pub(super) fn check_lane(&self, lane: Slot, limit: NonZeroU32) -> Option<(Duration, Bound)> {
        let lane = lane.some()?;
        let bound = Bound::new(Bound::LANE_MESSAGES, self.lanes.unfinished(lane), u64::from(limit.get()));
        (bound.used >= bound.limit).then_some((LANE_RETRY, bound))
    }

    fn accept_again(
        &mut self,
        context: &mut CallContext<'_, P>,
        slot: Slot,
        new: &NewMessage<P>,
    ) -> Accepted {
        let message = &self.messages[slot];
        let diverged = diverges(message, Some(&new.fingerprint), new.hash.as_ref());
        let policy = new.policy.divergence;
        if message.state == MessageState::Done {
            let summary = self.summary(slot);
            return if diverged && policy == Divergence::Conflict {
                Accepted::Conflict(summary)
            } else {
                Accepted::Duplicate { summary, diverged }
            };
        }
        let writes = !message.has_content() || policy == Divergence::Replace;
        let more = cost_of(new).saturating_sub(message.charged.into());
        if let (true, Some((retry_after, bound))) = (writes && more > 0, self.check_bytes(more)) {
            return Accepted::Saturated { retry_after, bound };
        }
        if !message.has_content() {
            let effect = Effect::Filled { number: self.next_number(), message: new };
            self.commit(context.journal, slot, effect);
            return Accepted::New { summary: self.summary(slot), diverged };
        }
        let effect = match policy {
            Divergence::Replace => Effect::Replaced { message: new, diverged },
            Divergence::KeepFirst | Divergence::Conflict => Effect::Observed { hash: None },
        };
        self.commit(context.journal, slot, effect);
        let summary = self.summary(slot);
        match (policy, diverged) {
            (Divergence::Replace, true) => Accepted::Replaced(summary),
            (Divergence::Conflict, true) => Accepted::Conflict(summary),
            _ => Accepted::Duplicate { summary, diverged },
        }
    }

    pub(super) fn summary(&self, slot: Slot) -> MessageSummary {
        let message = &self.messages[slot];
        MessageSummary {
            uid: message.uid,
            accepted_at: message.accepted_at,
            dedup_until: message.dedup_until(),
            state: message.state,
            trace: message.trace.clone(),
        }
    }
}

/// Whether a new message contradicts the stored one, by fingerprint or by the caller's hash.
pub(super) fn diverges<P>(
    message: &Message<P>,
    fingerprint: Option<&Fingerprint>,
    hash: Option<&CallerHash>,
) -> bool {
    let by_fingerprint =
        matches!((&message.fingerprint, fingerprint), (Some(stored), Some(new)) if stored != new);
    let by_hash = matches!((message.hash(), hash), (Some(stored), Some(new)) if stored.contradicts(new));
    by_fingerprint || by_hash
}
