//! Applying effects: the only code that changes a message, used by live operations and by replay.

use super::arena::Slot;
use super::content::fill;
use super::grant::StoredGrant;
use super::message::Message;
use super::{Effect, Journal, Machine, TimedEffect};
use crate::annotation::LastError;
use crate::id::Uid;
use crate::message::{DeadReason, GrantEnd, MessageState, Policy, Settled, VerdictKind};
use crate::payload::PayloadHandle;
use crate::port::AttemptCount;
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    /// Records and applies an effect on a message in memory.
    pub(super) fn commit(&mut self, journal: &mut dyn Journal<P>, slot: Slot, effect: Effect<'_, P>) {
        journal.record(TimedEffect { at: self.now, uid: self.messages[slot].uid, effect });
        self.apply(slot, effect);
    }

    /// Records and applies an effect that creates a message.
    pub(super) fn create(
        &mut self,
        journal: &mut dyn Journal<P>,
        uid: Uid,
        key_hash: u32,
        effect: Effect<'_, P>,
    ) -> Slot {
        journal.record(TimedEffect { at: self.now, uid, effect });
        self.apply_new(uid, key_hash, effect)
    }

    pub(super) fn apply_new(&mut self, uid: Uid, key_hash: u32, effect: Effect<'_, P>) -> Slot {
        let message = match effect {
            Effect::Accepted { number, message: new } => {
                let mut message =
                    Message::new(uid, number, self.keys.intern(&new.key), key_hash, &new.policy, self.now);
                message.state = MessageState::Processing;
                fill(&mut self.lanes, &mut self.partitions, &mut message, &new.content);
                message.fingerprint = Some(new.fingerprint);
                message.trace = new.trace.clone();
                if new.hash.is_some() {
                    message.update_rare(|rare| rare.hash = new.hash.clone());
                }
                message
            }
            Effect::Recorded { number, key, hold, hash, state } => {
                let mut message =
                    Message::new(uid, number, self.keys.intern(key), key_hash, &Policy::bare(hold), self.now);
                message.state = state;
                if state == MessageState::Done {
                    message.finished_or_retry_at = self.now;
                }
                if hash.is_some() {
                    message.update_rare(|rare| rare.hash = hash.cloned());
                }
                message
            }
            Effect::Restored(snapshot) => self.restore(snapshot, key_hash),
            _ => unreachable!("not an effect that creates a message"),
        };
        self.insert(message)
    }

    pub(super) fn insert(&mut self, message: Message<P>) -> Slot {
        let number = message.number;
        let slot = self.messages.insert(message);
        self.number_next = self.number_next.max(number.0 + 1);
        self.numbers.insert(number, slot);
        self.add_to_index(slot);
        self.add_to_counts(slot);
        self.charge(slot);
        self.index_new(slot);
        slot
    }

    /// Indexes a new message, including the lease that it may have.
    fn index_new(&mut self, slot: Slot) {
        self.consume_fence(slot);
        if self.is_leased(&self.messages[slot]) {
            self.mark_in_flight(slot);
        }
        self.index(slot);
        self.offer_touched();
    }

    /// Makes sure that the fence of a grant is never assigned again.
    fn consume_fence(&mut self, slot: Slot) {
        if let Some(fence) = self.grant(slot).map(|grant| grant.lease.fence) {
            self.fence_next = self.fence_next.max(fence.get().saturating_add(1));
        }
    }

    /// Registers a current grant: its request can be repeated, and its partition is busy.
    fn mark_in_flight(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let grant = &self.grants[message.grant];
        if let Some(request) = grant.request() {
            self.requests
                .insert((message.key.namespace, grant.lease.owner, request, grant.lease.fence), slot);
        }
        if let Some(partition) = grant.partition() {
            self.partitions.mark_in_flight(message.key.namespace, partition, slot);
        }
    }

    pub(super) fn apply(&mut self, slot: Slot, effect: Effect<'_, P>) {
        match effect {
            Effect::Observed { hash } => {
                let message = &mut self.messages[slot];
                message.last_seen_at = self.now;
                if hash.is_some() {
                    message.update_rare(|rare| rare.hash = hash.cloned());
                }
                self.bump_version(slot);
                if hash.is_some() {
                    self.charge(slot);
                }
            }
            Effect::Dropped => self.remove(slot),
            _ => self.reindex(slot, |machine, slot| machine.change(slot, effect)),
        }
    }

    /// Changes a message that is not indexed.
    fn change(&mut self, slot: Slot, effect: Effect<'_, P>) {
        match effect {
            Effect::Filled { number, message } => {
                self.renumber(slot, number);
                self.replace_content(slot, message);
                self.supersede(slot);
                let row = &mut self.messages[slot];
                row.adopt_policy(&message.policy);
                row.trace = message.trace.clone();
                row.update_rare(|rare| rare.hash.clone_from(&message.hash));
                if row.state == MessageState::Seen {
                    row.state = MessageState::Processing;
                }
                self.charge(slot);
            }
            Effect::Replaced { message, diverged } => {
                self.replace_content(slot, message);
                if diverged {
                    self.supersede(slot);
                }
                self.messages[slot].update_rare(|rare| rare.hash.clone_from(&message.hash));
                self.charge(slot);
            }
            Effect::Granted { lease, extendable_until, request, attempts_max, worker } => {
                let partition = self.messages[slot].partition.some();
                let partition = partition.map(|partition| self.partitions.name(partition).clone());
                let mut grant =
                    StoredGrant::new(lease, extendable_until, request, partition, worker.cloned());
                grant.attempts_max = attempts_max;
                self.apply_grant(slot, grant);
            }
            Effect::Extended { until } => {
                let grant = self.messages[slot].grant;
                self.grants[grant].lease.until = until;
            }
            Effect::Settled { kind, outcome, error } => self.apply_settled(slot, kind, outcome, error),
            Effect::Lapsed { exhausted } => {
                self.timer_events.lapsed += 1;
                self.end_grant(slot, GrantEnd::Lost);
                self.messages[slot].spend_attempt();
                if self.messages[slot].has_content() {
                    self.set_last_error(slot, Some(&LastError::lapsed()));
                }
                if exhausted {
                    self.die(slot, DeadReason::Exhausted);
                }
            }
            Effect::Expired => {
                self.timer_events.expired += 1;
                self.die(slot, DeadReason::Expired);
            }
            Effect::Marked { .. } | Effect::Killed { .. } | Effect::Redriven { .. } => {
                self.apply_order(slot, effect);
            }
            Effect::Accepted { .. }
            | Effect::Recorded { .. }
            | Effect::Restored(_)
            | Effect::Observed { .. }
            | Effect::Dropped => unreachable!("applied elsewhere"),
        }
    }

    /// Applies an operator's order; a current lease ends.
    fn apply_order(&mut self, slot: Slot, effect: Effect<'_, P>) {
        if self.messages[slot].keyed && !self.messages[slot].holds_key(self.now) {
            // The hold has lapsed: an unfinished message must not take its key back.
            self.release_key(slot);
        }
        self.end_grant(slot, GrantEnd::Lost);
        match effect {
            Effect::Marked { state: MessageState::Done } => self.finish(slot),
            Effect::Marked { .. } => self.revive(slot),
            Effect::Killed { reason, error } => {
                self.set_last_error(slot, error);
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
                message.update_rare(|rare| {
                    rare.due = None;
                    rare.redrives = rare.redrives.saturating_add(1);
                });
            }
            _ => unreachable!("not an operator's order"),
        }
    }

    fn apply_grant(&mut self, slot: Slot, grant: StoredGrant) {
        let message = &mut self.messages[slot];
        message.deliveries = message.deliveries.saturating_add(1);
        message.retry(Timestamp::EPOCH);
        match message.grant.some() {
            Some(before) => self.grants[before] = grant,
            None => message.grant = self.grants.insert(grant),
        }
        if let Some(lane) = message.lane.some() {
            self.lanes.note_delivered(lane, message.number);
        }
        self.consume_fence(slot);
        self.mark_in_flight(slot);
    }

    fn apply_settled(&mut self, slot: Slot, kind: VerdictKind, outcome: Settled, error: Option<&LastError>) {
        self.end_grant(slot, GrantEnd::Settled(kind, outcome));
        self.set_last_error(slot, error);
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

    fn set_last_error(&mut self, slot: Slot, error: Option<&LastError>) {
        if error.is_some() {
            self.messages[slot].update_rare(|rare| rare.last_error = error.cloned());
            self.charge(slot);
        }
    }

    pub(super) fn revive(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        message.finished_or_retry_at = message.retry_at();
        message.state = MessageState::Processing;
        message.dead = None;
    }

    fn die(&mut self, slot: Slot, reason: DeadReason) {
        let message = &mut self.messages[slot];
        let topic = message.lane.some().map(|lane| self.lanes.topic(lane).clone());
        self.timer_events.note_death(message.key.namespace, topic, reason);
        message.state = MessageState::Dead;
        message.dead = Some(reason);
        message.finished_or_retry_at = self.now;
    }

    fn finish(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        message.state = MessageState::Done;
        message.dead = None;
        message.finished_or_retry_at = self.now;
        if !message.keep_finished {
            self.clear_content(slot);
        }
    }
}
