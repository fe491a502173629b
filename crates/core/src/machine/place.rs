//! Keeps each message exactly where its state and the time ask for.

use super::Machine;
use super::arena::Slot;
use super::counts::Class;
use super::message::{Message, Place};
use crate::message::State;
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn is_leased(&self, message: &Message<P>) -> bool {
        message.grant.some().is_some_and(|grant| self.grants[grant].end.is_none())
    }

    /// When a message may be given out again, as far as that does not depend on its due time.
    pub(super) fn retry_at(&self, message: &Message<P>) -> Timestamp {
        let (below, until) = self.held_back;
        if message.number < below { message.retry_at().max(until) } else { message.retry_at() }
    }

    /// Takes a message out of its place, changes it, and puts it where it belongs then.
    pub(super) fn replace(&mut self, slot: Slot, change: impl FnOnce(&mut Self, Slot)) {
        self.unplace(slot);
        change(self, slot);
        self.place(slot);
        self.offer_touched();
    }

    pub(super) fn unplace(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        let timer = std::mem::replace(&mut message.timer, Timestamp::NEVER);
        let (lane, partition, number) = (message.lane, message.partition, message.number);
        let grant = message.grant;
        match std::mem::replace(&mut message.place, Place::Aside) {
            Place::Aside => self.unshelve(slot, Place::Aside),
            Place::Free => self.unshelve(slot, Place::Free),
            Place::Lane => self.lanes.withdraw(lane, number),
            Place::Queue => {
                if self.partitions.unqueue(partition, number) {
                    self.lanes.withdraw(lane, number);
                }
                self.partitions.touch(partition);
            }
            Place::Named => {
                if let Some(worker) = self.grants[grant].worker() {
                    self.lanes.leave_worker(lane, worker);
                }
            }
        }
        self.timers.clear(timer, number);
    }

    pub(super) fn place(&mut self, slot: Slot) {
        self.renew(slot);
        let message = &self.messages[slot];
        match message.state {
            State::Seen | State::Processing if self.is_leased(message) => self.place_leased(slot),
            State::Processing if message.has_content() => self.place_waiting(slot),
            State::Processing => self.classify(slot, Class::Waiting),
            State::Seen | State::Done | State::Dead => self.shelve(slot),
        }
    }

    /// Gives a changed message its new version.
    pub(super) fn renew(&mut self, slot: Slot) {
        self.messages[slot].version = self.version_next;
        self.version_next += 1;
    }

    fn place_leased(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        let class = if message.is_processing() { Class::Leased } else { Class::Seen };
        let held = &self.grants[message.grant];
        if let (Some(worker), Some(lane), Class::Leased) = (held.worker(), message.lane.some(), class) {
            message.place = Place::Named;
            self.lanes.join_worker(lane, worker);
        }
        let until = held.lease.until;
        self.set_timer(slot, until);
        self.classify(slot, class);
    }

    fn place_waiting(&mut self, slot: Slot) {
        let now = self.now;
        let retry = self.retry_at(&self.messages[slot]);
        let message = &mut self.messages[slot];
        let (due, expires) = (message.due(), message.expires);
        let (lane, partition, number) = (message.lane, message.partition, message.number);
        let later = |at: Timestamp| if at > now { at } else { Timestamp::NEVER };
        let mut class = Class::Waiting;
        let timer = if let (Some(partition), true) = (partition.some(), due <= now) {
            message.place = Place::Queue;
            self.partitions.queue(partition, number, slot);
            self.partitions.touch(partition);
            later(retry)
        } else if partition == Slot::NONE && due.max(retry) <= now {
            message.place = Place::Lane;
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
