//! Claims: which messages are delivered next, in order of number within a lane and round-robin across lanes.

use super::arena::Slot;
use super::{CallContext, Effect, Machine};
use crate::id::{Fence, Number, RequestId};
use crate::message::Lease;
use crate::payload::PayloadHandle;
use crate::port::{Claim, Delivery};

/// The maximum number of lanes that one claim skips, so that held-back lanes cannot make it long.
const SKIPPED_LANES_MAX: usize = 64;

/// The maximum number of deliveries to allocate space for in advance; larger claims are rarely filled.
const DELIVERIES_EXPECTED: u32 = 128;

/// The progress of one claim.
struct ClaimProgress {
    /// Identifies repeats of the claim.
    request: Option<RequestId>,
    /// The named topics that may still have claimable messages; none if the claim names no topics.
    topics: Option<Vec<Slot>>,
    /// The index of the next topic to serve.
    next_topic: usize,
    delivered: u32,
    bytes: u64,
    /// Lanes whose first message this claim cannot deliver. They leave the rotation for the rest of the claim.
    skipped: Vec<Slot>,
}

impl<P: PayloadHandle> Machine<P> {
    /// Delivers claimable messages; see [`crate::Store::work`].
    pub fn claim(&mut self, context: &mut CallContext<'_, P>, claim: &Claim) -> Vec<Delivery<P>> {
        self.advance(context);
        let request = claim.request_identity();
        if let Some(repeated) = self.repeat_deliveries(claim, request) {
            return repeated;
        }
        let mut progress = self.start_claim(claim, request);
        let batch = claim.batch.get().min(self.in_flight_capacity(claim));
        let mut deliveries = Vec::with_capacity(batch.min(DELIVERIES_EXPECTED) as usize);
        while progress.delivered < batch
            && let Some((lane, number, slot)) = self.next_candidate(claim, &mut progress)
        {
            if !self.can_deliver(claim, &progress, lane, number, slot) {
                self.lanes.leave_rotation(lane);
                progress.skipped.push(lane);
                if progress.skipped.len() == SKIPPED_LANES_MAX {
                    break;
                }
                continue;
            }
            progress.delivered += 1;
            progress.bytes += self.messages[slot].payload_bytes();
            deliveries.push(self.deliver(context, claim, progress.request, slot));
        }
        for lane in progress.skipped {
            self.lanes.enter_rotation(lane);
        }
        deliveries
    }

    fn start_claim(&self, claim: &Claim, request: Option<RequestId>) -> ClaimProgress {
        let topics =
            claim.topics.named().map(|names| self.lanes.least_recently_served(claim.namespace, names));
        ClaimProgress { request, topics, next_topic: 0, delivered: 0, bytes: 0, skipped: Vec::new() }
    }

    /// The next lane in the rotation, and its first message.
    fn next_candidate(
        &mut self,
        claim: &Claim,
        progress: &mut ClaimProgress,
    ) -> Option<(Slot, Number, Slot)> {
        let Some(topics) = &mut progress.topics else {
            let topic = self.lanes.next_topic(claim.namespace)?;
            return self.lanes.next_lane(topic);
        };
        while !topics.is_empty() {
            let index = progress.next_topic % topics.len();
            if let Some(found) = self.lanes.next_lane(topics[index]) {
                self.lanes.mark_served(topics[index]);
                progress.next_topic = index + 1;
                return Some(found);
            }
            topics.remove(index);
            progress.next_topic = index;
        }
        None
    }

    fn can_deliver(
        &self,
        claim: &Claim,
        progress: &ClaimProgress,
        lane: Slot,
        number: Number,
        slot: Slot,
    ) -> bool {
        let bytes = progress.bytes + self.messages[slot].payload_bytes();
        let fits = progress.delivered == 0 || claim.bytes_max.is_none_or(|max| bytes <= max);
        fits && self.lanes.may_deliver(lane, number)
    }

    fn deliver(
        &mut self,
        context: &mut CallContext<'_, P>,
        claim: &Claim,
        request: Option<RequestId>,
        slot: Slot,
    ) -> Delivery<P> {
        let until = self.now.after(claim.lease.get());
        let lease = Lease { owner: claim.owner, fence: self.next_fence(), until };
        let extendable_until = self.extendable_until(claim.namespace, claim.lease);
        let (attempts_max, worker) = (claim.attempts_max, claim.worker.as_ref());
        let effect = Effect::Granted { lease, extendable_until, request, attempts_max, worker };
        self.commit(context.journal, slot, effect);
        self.delivery(slot, lease)
    }

    /// How many more messages of the namespace may be in flight.
    fn in_flight_capacity(&self, claim: &Claim) -> u32 {
        let leased = self.totals.namespace(claim.namespace).leased;
        let capacity = claim.in_flight_max.map_or(u64::MAX, |max| max.saturating_sub(leased));
        u32::try_from(capacity).unwrap_or(u32::MAX)
    }

    /// The current deliveries of an earlier call with the same request id, except those whose content was replaced
    /// since. None if there are no current ones.
    fn repeat_deliveries(&self, claim: &Claim, request: Option<RequestId>) -> Option<Vec<Delivery<P>>> {
        let request = request?;
        let bound = |fence| (claim.namespace, claim.owner, request, Fence::new(fence).expect("not zero"));
        let mut leased = self.requests.range(bound(1)..=bound(u64::MAX)).peekable();
        leased.peek()?;
        let grant = |slot| self.grant(slot).expect("a request's leases are current");
        let same = leased.filter(|(_, slot)| !grant(**slot).superseded);
        Some(same.map(|(_, slot)| self.delivery(*slot, grant(*slot).lease)).collect())
    }

    fn delivery(&self, slot: Slot, lease: Lease) -> Delivery<P> {
        let message = &self.messages[slot];
        Delivery {
            uid: message.uid,
            number: message.number,
            key: message.key.clone(),
            content: self.content(slot).expect("a claimable message has content"),
            fingerprint: message.fingerprint.expect("content has a fingerprint"),
            hash: message.hash().cloned(),
            trace: message.trace.clone(),
            accepted_at: message.accepted_at,
            last_seen_at: message.last_seen_at,
            attempts: message.attempts,
            deliveries: message.deliveries,
            last_error: message.rare.as_ref().and_then(|rare| rare.last_error.clone()),
            lease,
        }
    }
}
