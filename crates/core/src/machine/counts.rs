//! Exact counters: how many messages stand where, and how many bytes they hold.

use super::Machine;
use super::arena::Slot;
use super::message::Message;
use crate::key::Namespace;
use crate::port::Counts;

/// What a message is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Seen,
    Ready,
    Waiting,
    Leased,
    Done,
    Dead,
}

/// One counter per class.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Census([u64; 6]);

impl Census {
    pub(super) fn add(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }

    pub(super) fn subtract(&mut self, class: Class) {
        self.0[class as usize] -= 1;
    }

    pub(super) fn counts(&self) -> Counts {
        let [seen, ready, waiting, leased, done, dead] = self.0;
        Counts { seen, ready, waiting, leased, done, dead, estimated: false }
    }
}

/// The fixed cost that the byte bound charges per record, beside payload and attributes.
const RECORD_BYTES: u64 = 512;

#[derive(Default)]
pub(super) struct Tally {
    namespaces: [Census; Namespace::ALL.len()],
    unfinished: u64,
    bytes: u64,
}

impl Tally {
    pub(super) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn namespace(&self, namespace: Namespace) -> Counts {
        self.namespaces[namespace as usize].counts()
    }

    fn add(&mut self, namespace: Namespace, class: Class) {
        self.namespaces[namespace as usize].add(class);
        self.unfinished += u64::from(class != Class::Done);
    }

    fn subtract(&mut self, namespace: Namespace, class: Class) {
        self.namespaces[namespace as usize].subtract(class);
        self.unfinished -= u64::from(class != Class::Done);
    }
}

/// What the byte bound charges for a message with a payload and attributes of so many bytes.
pub(super) fn cost(payload_bytes: u32, attributes_bytes: usize) -> u64 {
    RECORD_BYTES + u64::from(payload_bytes) + attributes_bytes as u64
}

fn cost_of<P>(message: &Message<P>) -> u64 {
    let attributes = message.rare.as_ref().map_or(0, |rare| rare.attributes.bytes());
    cost(message.payload_bytes, attributes)
}

impl<P: Clone> Machine<P> {
    /// What the byte bound charges for a message.
    pub(super) fn cost(&self, slot: Slot) -> u64 {
        cost_of(&self.messages[slot])
    }

    /// Counts a message that has come in, or whose content has just been set.
    pub(super) fn count_in(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        self.tally.add(message.key.namespace, message.class);
        self.tally.bytes += cost_of(message);
        if let Some(lane) = message.lane.some() {
            self.lanes.census(lane).add(message.class);
        }
    }

    /// Takes a message out of the counts before it goes, or before its content changes.
    pub(super) fn count_out(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        self.tally.subtract(message.key.namespace, message.class);
        self.tally.bytes -= cost_of(message);
        if let Some(lane) = message.lane.some() {
            self.lanes.census(lane).subtract(message.class);
        }
    }

    pub(super) fn classify(&mut self, slot: Slot, class: Class) {
        let message = &mut self.messages[slot];
        let before = std::mem::replace(&mut message.class, class);
        if before == class {
            return;
        }
        let (namespace, lane) = (message.key.namespace, message.lane);
        self.tally.subtract(namespace, before);
        self.tally.add(namespace, class);
        if let Some(lane) = lane.some() {
            let census = self.lanes.census(lane);
            census.subtract(before);
            census.add(class);
        }
    }
}
