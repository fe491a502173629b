//! Claims: who gets what next. Per lane by number, the lanes in turn.

use super::arena::Slot;
use super::{Effect, Machine, Turn};
use crate::id::{Fence, Number, RequestId};
use crate::message::Lease;
use crate::payload::PayloadHandle;
use crate::port::{Claim, Delivery};

/// Lanes that one claim passes over, at most: what others hold back must not make it long.
const PASSED_LANES_MAX: usize = 64;

/// Deliveries that room is made for at once; larger claims are rarely full.
const DELIVERIES_EXPECTED: u32 = 128;

/// One claim under way.
struct Round {
    /// What a repeat of it is known by.
    request: Option<RequestId>,
    /// The topics that it names and that may still have something; none if it takes all.
    topics: Option<Vec<Slot>>,
    /// Which of them is next.
    turn: usize,
    taken: u32,
    bytes: u64,
    /// Lanes whose first message cannot be taken by this claim; they stay out of it, and are opened again after it.
    passed: Vec<Slot>,
}

impl<P: PayloadHandle> Machine<P> {
    /// Takes claimable messages; see [`crate::Store::work`].
    pub fn claim(&mut self, turn: &mut Turn<'_, P>, claim: &Claim) -> Vec<Delivery<P>> {
        self.advance(turn);
        let request = claim.request_identity();
        if let Some(repeated) = self.deliver_again(claim, request) {
            return repeated;
        }
        let mut round = self.start(claim, request);
        let batch = claim.batch.get().min(self.room_in_flight(claim));
        let mut deliveries = Vec::with_capacity(batch.min(DELIVERIES_EXPECTED) as usize);
        while round.taken < batch
            && let Some((lane, number, slot)) = self.next_in(claim, &mut round)
        {
            if !self.may_take(claim, &round, lane, number, slot) {
                self.lanes.close(lane);
                round.passed.push(lane);
                if round.passed.len() == PASSED_LANES_MAX {
                    break;
                }
                continue;
            }
            round.taken += 1;
            round.bytes += self.messages[slot].payload_bytes();
            deliveries.push(self.deliver(turn, claim, round.request, slot));
        }
        for lane in round.passed {
            self.lanes.open(lane);
        }
        deliveries
    }

    fn start(&self, claim: &Claim, request: Option<RequestId>) -> Round {
        let topics = claim.topics.named().map(|names| self.lanes.in_turn(claim.namespace, names));
        Round { request, topics, turn: 0, taken: 0, bytes: 0, passed: Vec::new() }
    }

    /// The lane whose turn it is, and its first message.
    fn next_in(&mut self, claim: &Claim, round: &mut Round) -> Option<(Slot, Number, Slot)> {
        let Some(topics) = &mut round.topics else {
            let topic = self.lanes.next_topic(claim.namespace)?;
            return self.lanes.next_lane(topic);
        };
        while !topics.is_empty() {
            let index = round.turn % topics.len();
            if let Some(found) = self.lanes.next_lane(topics[index]) {
                self.lanes.note_served(topics[index]);
                round.turn = index + 1;
                return Some(found);
            }
            topics.remove(index);
            round.turn = index;
        }
        None
    }

    fn may_take(&self, claim: &Claim, round: &Round, lane: Slot, number: Number, slot: Slot) -> bool {
        let bytes = round.bytes + self.messages[slot].payload_bytes();
        let fits = round.taken == 0 || claim.bytes_max.is_none_or(|max| bytes <= max);
        fits && self.lanes.may_give(lane, number)
    }

    fn deliver(
        &mut self,
        turn: &mut Turn<'_, P>,
        claim: &Claim,
        request: Option<RequestId>,
        slot: Slot,
    ) -> Delivery<P> {
        let until = self.now.after(claim.lease.get());
        let lease = Lease { owner: claim.owner, fence: self.next_fence(), until };
        let extendable_until = self.extendable_until(claim.namespace, claim.lease);
        let (attempts_max, worker) = (claim.attempts_max, claim.worker.as_ref());
        let effect = Effect::Granted { lease, extendable_until, request, attempts_max, worker };
        self.commit(turn.journal, slot, effect);
        self.delivery(slot, lease)
    }

    /// How many more of the namespace may be in flight.
    fn room_in_flight(&self, claim: &Claim) -> u32 {
        let leased = self.tally.namespace(claim.namespace).leased;
        let room = claim.in_flight_max.map_or(u64::MAX, |max| max.saturating_sub(leased));
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// The deliveries that the same call got before and that are still out, as they were: not those whose content was replaced
    /// since. None if it has nothing out.
    fn deliver_again(&self, claim: &Claim, request: Option<RequestId>) -> Option<Vec<Delivery<P>>> {
        let request = request?;
        let bound = |fence| (claim.namespace, claim.owner, request, Fence::new(fence).expect("not zero"));
        let mut leased = self.requests.range(bound(1)..=bound(u64::MAX)).peekable();
        leased.peek()?;
        let grant = |slot| self.held(slot).expect("a request's leases are current");
        let same = leased.filter(|(_, slot)| !grant(**slot).superseded);
        Some(same.map(|(_, slot)| self.delivery(*slot, grant(*slot).lease)).collect())
    }

    fn delivery(&self, slot: Slot, lease: Lease) -> Delivery<P> {
        let message = &self.messages[slot];
        Delivery {
            uid: message.uid,
            number: message.number,
            key: message.key.clone(),
            content: self.content(slot).expect("what is claimed has content"),
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
