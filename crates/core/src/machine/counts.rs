//! Exact counters: the number of messages by class, and their bytes.

use super::Machine;
use super::arena::Slot;
use crate::hash::CallerHash;
use crate::key::{Key, Namespace};
use crate::message::NewMessage;
use crate::payload::PayloadHandle;
use crate::port::Counts;

/// The class that a message is counted in.
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
pub(super) struct ClassCounts([u64; 6]);

impl ClassCounts {
    pub(super) fn add(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }

    pub(super) fn subtract(&mut self, class: Class) {
        self.0[class as usize] -= 1;
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|class| self.0[class] + other.0[class]))
    }

    pub(super) fn counts(&self) -> Counts {
        let [seen, ready, waiting, leased, done, dead] = self.0;
        Counts { seen, ready, waiting, leased, done, dead, estimated: false }
    }
}

/// The fixed cost that the byte bound charges per record, in addition to payload and texts.
const RECORD_BYTES: u64 = 512;

#[derive(Default)]
pub(super) struct Totals {
    namespaces: [ClassCounts; Namespace::ALL.len()],
    unfinished: u64,
    bytes: u64,
}

impl Totals {
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

/// What the byte bound charges for a key alone.
pub(super) fn cost_of_key(key: &Key) -> u64 {
    RECORD_BYTES + (key.source.as_str().len() + key.id.as_str().len()) as u64
}

/// What the byte bound charges for a new message.
pub(super) fn cost_of<P: PayloadHandle>(new: &NewMessage<P>) -> u64 {
    let content = &new.content;
    let partition = content.partition.as_ref().map_or(0, |partition| partition.as_str().len());
    let texts = content.topic.as_str().len() + partition + content.attributes.bytes() + new.trace.bytes();
    let hash = new.hash.as_ref().map_or(0, CallerHash::bytes);
    cost_of_key(&new.key) + u64::from(content.payload.bytes()) + (texts + hash) as u64
}

impl<P: PayloadHandle> Machine<P> {
    /// What the byte bound charges for a stored message.
    fn cost(&self, slot: Slot) -> u64 {
        let message = &self.messages[slot];
        let topic = message.lane.some().map_or(0, |lane| self.lanes.topic(lane).as_str().len());
        let partition = message.partition.some().map_or(0, |name| self.partitions.name(name).as_str().len());
        let rare = message.rare.as_ref().map_or(0, |rare| rare.bytes());
        let texts = topic + partition + message.trace.bytes() + rare;
        cost_of_key(&message.key) + message.payload_bytes() + texts as u64
    }

    /// Updates the charge of a message that is new or has changed.
    pub(super) fn charge(&mut self, slot: Slot) {
        let cost = self.cost(slot);
        let charged = u32::try_from(cost).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.messages[slot].charged, charged);
        self.totals.bytes = self.totals.bytes + u64::from(charged) - u64::from(before);
    }

    /// Removes the charge of a message that is about to be removed.
    pub(super) fn discharge(&mut self, slot: Slot) {
        self.totals.bytes -= u64::from(std::mem::take(&mut self.messages[slot].charged));
    }

    /// Counts a message that is new or has just acquired its lane.
    pub(super) fn add_to_counts(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        self.totals.add(message.key.namespace, message.class);
        if let Some(lane) = message.lane.some() {
            self.lanes.counts(lane).add(message.class);
        }
    }

    /// Uncounts a message that is about to be removed or to release its lane.
    pub(super) fn remove_from_counts(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        self.totals.subtract(message.key.namespace, message.class);
        if let Some(lane) = message.lane.some() {
            self.lanes.counts(lane).subtract(message.class);
        }
    }

    pub(super) fn classify(&mut self, slot: Slot, class: Class) {
        let message = &mut self.messages[slot];
        let before = std::mem::replace(&mut message.class, class);
        if before == class {
            return;
        }
        let (namespace, lane) = (message.key.namespace, message.lane);
        self.totals.subtract(namespace, before);
        self.totals.add(namespace, class);
        if let Some(lane) = lane.some() {
            let counts = self.lanes.counts(lane);
            counts.subtract(before);
            counts.add(class);
        }
    }
}
