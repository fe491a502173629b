//! Effects enacted: the only code that changes a message. Live operations and replay both end here.

use super::arena::Slot;
use super::content::fill;
use super::held::Held;
use super::message::Message;
use super::{Effect, Journal, Machine, Record};
use crate::annotation::LastError;
use crate::id::Uid;
use crate::message::{DeadReason, GrantEnd, Policy, State};
use crate::payload::PayloadHandle;
use crate::port::{AttemptCount, Settled, VerdictKind};
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    /// Records and enacts an effect on a message that is here.
    pub(super) fn commit(&mut self, journal: &mut dyn Journal<P>, slot: Slot, effect: Effect<'_, P>) {
        journal.record(Record { at: self.now, uid: self.messages[slot].uid, effect });
        self.enact(slot, effect);
    }

    /// Records and enacts an effect that brings a message in.
    pub(super) fn create(
        &mut self,
        journal: &mut dyn Journal<P>,
        uid: Uid,
        key_hash: u32,
        effect: Effect<'_, P>,
    ) -> Slot {
        journal.record(Record { at: self.now, uid, effect });
        self.enact_new(uid, key_hash, effect)
    }

    pub(super) fn enact_new(&mut self, uid: Uid, key_hash: u32, effect: Effect<'_, P>) -> Slot {
        let message = match effect {
            Effect::Accepted { number, message: new } => {
                let mut message =
                    Message::new(uid, number, self.keys.share(&new.key), key_hash, &new.policy, self.now);
                message.state = State::Processing;
                fill(&mut self.lanes, &mut self.partitions, &mut message, &new.content);
                message.fingerprint = Some(new.fingerprint);
                message.trace = new.trace.clone();
                if new.hash.is_some() {
                    message.change_rare(|rare| rare.hash = new.hash.clone());
                }
                message
            }
            Effect::Recorded { number, key, hold, hash, state } => {
                let mut message =
                    Message::new(uid, number, self.keys.share(key), key_hash, &Policy::bare(hold), self.now);
                message.state = state;
                if state == State::Done {
                    message.moment = self.now;
                }
                if hash.is_some() {
                    message.change_rare(|rare| rare.hash = hash.cloned());
                }
                message
            }
            Effect::Restored(snapshot) => self.thaw(snapshot, key_hash),
            _ => unreachable!("only these bring a message in"),
        };
        self.insert(message)
    }

    pub(super) fn insert(&mut self, message: Message<P>) -> Slot {
        let number = message.number;
        let slot = self.messages.insert(message);
        self.number_next = self.number_next.max(number.0 + 1);
        self.numbers.insert(number, slot);
        self.enter(slot);
        self.count_in(slot);
        self.charge(slot);
        self.settle_in(slot);
        slot
    }

    /// Puts a message that has just come in where it belongs, with the lease that it may have.
    fn settle_in(&mut self, slot: Slot) {
        self.use_up_fence(slot);
        if self.is_leased(&self.messages[slot]) {
            self.take_off(slot);
        }
        self.place(slot);
        self.offer_touched();
    }

    /// A fence that was given out once, ever, is not given out again.
    fn use_up_fence(&mut self, slot: Slot) {
        if let Some(fence) = self.held(slot).map(|grant| grant.lease.fence) {
            self.fence_next = self.fence_next.max(fence.get().saturating_add(1));
        }
    }

    /// A grant becomes current: its request can be repeated, its partition is busy.
    fn take_off(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let held = &self.grants[message.grant];
        if let Some(request) = held.request() {
            self.requests.insert((message.key.namespace, held.lease.owner, request, held.lease.fence), slot);
        }
        if let Some(partition) = held.partition() {
            self.partitions.fly(message.key.namespace, partition, slot);
        }
    }

    pub(super) fn enact(&mut self, slot: Slot, effect: Effect<'_, P>) {
        match effect {
            Effect::Sighted { hash } => {
                let message = &mut self.messages[slot];
                message.last_seen_at = self.now;
                if hash.is_some() {
                    message.change_rare(|rare| rare.hash = hash.cloned());
                }
                self.renew(slot);
                if hash.is_some() {
                    self.charge(slot);
                }
            }
            Effect::Dropped => self.remove(slot),
            _ => self.replace(slot, |machine, slot| machine.change(slot, effect)),
        }
    }

    /// Changes a message that is out of its place.
    fn change(&mut self, slot: Slot, effect: Effect<'_, P>) {
        match effect {
            Effect::Filled { number, message } => {
                self.renumber(slot, number);
                self.refill(slot, message);
                self.supersede(slot);
                let row = &mut self.messages[slot];
                row.take_policy(&message.policy);
                row.trace = message.trace.clone();
                row.change_rare(|rare| rare.hash.clone_from(&message.hash));
                if row.state == State::Seen {
                    row.state = State::Processing;
                }
                self.charge(slot);
            }
            Effect::Replaced { message, diverged } => {
                self.refill(slot, message);
                if diverged {
                    self.supersede(slot);
                }
                self.messages[slot].change_rare(|rare| rare.hash.clone_from(&message.hash));
                self.charge(slot);
            }
            Effect::Granted { lease, extendable_until, request, attempts_max, worker } => {
                let partition = self.messages[slot].partition.some();
                let partition = partition.map(|partition| self.partitions.name(partition).clone());
                let mut held = Held::new(lease, extendable_until, request, partition, worker.cloned());
                held.attempts_max = attempts_max;
                self.enact_grant(slot, held);
            }
            Effect::Extended { until } => {
                let grant = self.messages[slot].grant;
                self.grants[grant].lease.until = until;
            }
            Effect::Settled { kind, outcome, error } => self.enact_settled(slot, kind, outcome, error),
            Effect::Lapsed { exhausted } => {
                self.ended.lapsed += 1;
                self.end_grant(slot, GrantEnd::Lost);
                self.messages[slot].spend_attempt();
                if self.messages[slot].has_content() {
                    self.blame(slot, Some(&LastError::lapsed()));
                }
                if exhausted {
                    self.die(slot, DeadReason::Exhausted);
                }
            }
            Effect::Expired => {
                self.ended.expired += 1;
                self.die(slot, DeadReason::Expired);
            }
            Effect::Marked { .. } | Effect::Killed { .. } | Effect::Redriven { .. } => {
                self.obey(slot, effect);
            }
            Effect::Accepted { .. }
            | Effect::Recorded { .. }
            | Effect::Restored(_)
            | Effect::Sighted { .. }
            | Effect::Dropped => unreachable!("enacted elsewhere"),
        }
    }

    /// Enacts an operator's order; whatever lease there is ends.
    fn obey(&mut self, slot: Slot, effect: Effect<'_, P>) {
        if self.messages[slot].keyed && !self.messages[slot].holds_key(self.now) {
            // It was free once: what is unfinished again must not hold it again.
            self.give_up_key(slot);
        }
        self.end_grant(slot, GrantEnd::Lost);
        match effect {
            Effect::Marked { state: State::Done } => self.finish(slot),
            Effect::Marked { .. } => self.revive(slot),
            Effect::Killed { reason, error } => {
                self.blame(slot, error);
                self.die(slot, reason);
            }
            Effect::Redriven { number, attempts } => {
                self.renumber(slot, number);
                self.revive(slot);
                let message = &mut self.messages[slot];
                if attempts == AttemptCount::Reset {
                    message.attempts = 0;
                }
                message.expires = Timestamp::NEVER;
                message.change_rare(|rare| {
                    rare.due = None;
                    rare.redrives = rare.redrives.saturating_add(1);
                });
            }
            _ => unreachable!("not an operator's order"),
        }
    }

    fn enact_grant(&mut self, slot: Slot, grant: Held) {
        let message = &mut self.messages[slot];
        message.deliveries = message.deliveries.saturating_add(1);
        message.retry(Timestamp::EPOCH);
        match message.grant.some() {
            Some(before) => self.grants[before] = grant,
            None => message.grant = self.grants.insert(grant),
        }
        if let Some(lane) = message.lane.some() {
            self.lanes.given(lane, message.number);
        }
        self.use_up_fence(slot);
        self.take_off(slot);
    }

    fn enact_settled(&mut self, slot: Slot, kind: VerdictKind, outcome: Settled, error: Option<&LastError>) {
        self.end_grant(slot, GrantEnd::Settled(kind, outcome));
        self.blame(slot, error);
        match outcome {
            Settled::Done => self.finish(slot),
            Settled::Retrying { at } => {
                let message = &mut self.messages[slot];
                message.spend_attempt();
                message.retry(at);
            }
            Settled::Dead { reason } => {
                if kind == VerdictKind::Abandon && reason == DeadReason::Exhausted {
                    self.messages[slot].spend_attempt();
                }
                self.die(slot, reason);
            }
            Settled::Superseded | Settled::Released => {}
            Settled::LeaseLost => unreachable!("a settlement without a lease has no effect"),
        }
    }

    fn blame(&mut self, slot: Slot, error: Option<&LastError>) {
        if error.is_some() {
            self.messages[slot].change_rare(|rare| rare.last_error = error.cloned());
            self.charge(slot);
        }
    }

    pub(super) fn revive(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        message.moment = message.retry_at();
        message.state = State::Processing;
        message.dead = None;
    }

    fn die(&mut self, slot: Slot, reason: DeadReason) {
        let message = &mut self.messages[slot];
        let topic = message.lane.some().map(|lane| self.lanes.topic(lane).clone());
        self.ended.note_death(message.key.namespace, topic, reason);
        message.state = State::Dead;
        message.dead = Some(reason);
        message.moment = self.now;
    }

    fn finish(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        message.state = State::Done;
        message.dead = None;
        message.moment = self.now;
        if !message.keep_finished {
            self.empty(slot);
        }
    }
}
