//! Keeps each message in exactly the indexes that its state and the time require.

use super::Machine;
use super::arena::Slot;
use super::counts::Class;
use super::message::{Membership, Message};
use crate::message::MessageState;
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn is_leased(&self, message: &Message<P>) -> bool {
        message.grant.some().is_some_and(|grant| self.grants[grant].end.is_none())
    }

    /// When a message may be delivered again, regardless of its due time.
    pub(super) fn retry_at(&self, message: &Message<P>) -> Timestamp {
        let (below, until) = self.held_back;
        if message.number < below { message.retry_at().max(until) } else { message.retry_at() }
    }

    /// Removes a message from its indexes, changes it, and adds it to the indexes of its new state.
    pub(super) fn reindex(&mut self, slot: Slot, change: impl FnOnce(&mut Self, Slot)) {
        self.unindex(slot);
        change(self, slot);
        self.index(slot);
        self.offer_touched();
    }

    pub(super) fn unindex(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        let timer = std::mem::replace(&mut message.timer, Timestamp::NEVER);
        let (lane, partition, number) = (message.lane, message.partition, message.number);
        let grant = message.grant;
        match std::mem::replace(&mut message.membership, Membership::Retained) {
            Membership::Retained => self.unretain(slot, Membership::Retained),
            Membership::Discardable => self.unretain(slot, Membership::Discardable),
            Membership::Lane => self.lanes.withdraw(lane, number),
            Membership::Queue => {
                if self.partitions.dequeue(partition, number) {
                    self.lanes.withdraw(lane, number);
                }
                self.partitions.touch(partition);
            }
            Membership::WorkerList => {
                if let Some(worker) = self.grants[grant].worker() {
                    self.lanes.remove_worker_lease(lane, worker);
                }
            }
        }
        self.timers.clear(timer, number);
    }

    pub(super) fn index(&mut self, slot: Slot) {
        self.bump_version(slot);
        let message = &self.messages[slot];
        match message.state {
            MessageState::Seen | MessageState::Processing if self.is_leased(message) => {
                self.index_leased(slot);
            }
            MessageState::Processing if message.has_content() => self.index_waiting(slot),
            MessageState::Processing => self.classify(slot, Class::Waiting),
            MessageState::Seen | MessageState::Done | MessageState::Dead => self.retain(slot),
        }
    }

    /// Assigns a new version to a changed message.
    pub(super) fn bump_version(&mut self, slot: Slot) {
        self.messages[slot].version = self.version_next;
        self.version_next += 1;
    }

    fn index_leased(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        let class = if message.is_processing() { Class::Leased } else { Class::Seen };
        let grant = &self.grants[message.grant];
        if let (Some(worker), Some(lane), Class::Leased) = (grant.worker(), message.lane.some(), class) {
            message.membership = Membership::WorkerList;
            self.lanes.add_worker_lease(lane, worker);
        }
        let until = grant.lease.until;
        self.set_timer(slot, until);
        self.classify(slot, class);
    }

    fn index_waiting(&mut self, slot: Slot) {
        let now = self.now;
        let retry = self.retry_at(&self.messages[slot]);
        let message = &mut self.messages[slot];
        let (due, expires) = (message.due(), message.expires);
        let (lane, partition, number) = (message.lane, message.partition, message.number);
        let later = |at: Timestamp| if at > now { at } else { Timestamp::NEVER };
        let mut class = Class::Waiting;
        let timer = if let (Some(partition), true) = (partition.some(), due <= now) {
            message.membership = Membership::Queue;
            self.partitions.enqueue(partition, number, slot);
            self.partitions.touch(partition);
            later(retry)
        } else if partition == Slot::NONE && due.max(retry) <= now {
            message.membership = Membership::Lane;
            self.lanes.offer(lane, number, slot);
            class = Class::Ready;
            Timestamp::NEVER
        } else if partition == Slot::NONE {
            due.max(retry)
        } else {
            due
        };
        self.set_timer(slot, timer.min(expires));
        self.classify(slot, class);
    }

    fn set_timer(&mut self, slot: Slot, at: Timestamp) {
        let message = &mut self.messages[slot];
        message.timer = at;
        self.timers.set(at, message.number, slot);
    }
}
