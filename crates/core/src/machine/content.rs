//! The content of a message: setting, replacing and removing it.

use super::Machine;
use super::arena::Slot;
use super::lanes::Lanes;
use super::message::Message;
use super::partitions::Partitions;
use crate::annotation::Attributes;
use crate::id::Number;
use crate::message::{Content, GrantEnd, NewMessage};
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

/// Sets the content of a message and acquires its lane and partition. The caller releases those of the previous
/// content.
pub(super) fn fill<P: PayloadHandle>(
    lanes: &mut Lanes,
    partitions: &mut Partitions,
    message: &mut Message<P>,
    content: &Content<P>,
) {
    let namespace = message.key.namespace;
    message.lane = lanes.acquire(namespace, &content.topic, content.shard);
    message.partition =
        content.partition.as_ref().map_or(Slot::NONE, |partition| partitions.acquire(namespace, partition));
    message.payload = Some(content.payload.clone());
    message.expires = content.expires.unwrap_or(Timestamp::NEVER);
    message.seal = content.seal.map(Box::new);
    let rare = content.due.is_some() || !content.attributes.is_empty();
    if rare || message.rare.is_some() {
        message.update_rare(|rare| {
            rare.due = content.due;
            rare.attributes = content.attributes.clone();
        });
    }
}

impl<P: PayloadHandle> Machine<P> {
    /// Replaces the content of a message that is not indexed.
    pub(super) fn replace_content(&mut self, slot: Slot, new: &NewMessage<P>) {
        self.remove_from_counts(slot);
        let message = &mut self.messages[slot];
        let (lane, partition) = (message.lane, message.partition);
        fill(&mut self.lanes, &mut self.partitions, message, &new.content);
        message.fingerprint = Some(new.fingerprint);
        message.last_seen_at = self.now;
        if let Some(lane) = lane.some() {
            if lane != message.lane {
                self.lanes.end_inherited(lane, message.number);
            }
            self.lanes.release(lane);
        }
        if let Some(partition) = partition.some() {
            self.partitions.release(partition);
        }
        self.add_to_counts(slot);
    }

    /// Marks a current grant as superseded: its worker has the old content.
    pub(super) fn supersede(&mut self, slot: Slot) {
        if let Some(grant) = self.messages[slot].grant.some()
            && self.grants[grant].end.is_none()
        {
            self.grants[grant].superseded = true;
        }
    }

    /// Removes the content and everything that describes it, except the hashes and the trace.
    pub(super) fn clear_content(&mut self, slot: Slot) {
        self.remove_from_counts(slot);
        let message = &mut self.messages[slot];
        message.payload = None;
        message.seal = None;
        message.expires = Timestamp::NEVER;
        if message.rare.is_some() {
            message.update_rare(|rare| {
                (rare.due, rare.last_error) = (None, None);
                rare.attributes = Attributes::default();
            });
        }
        self.release_lane(slot);
        self.add_to_counts(slot);
        self.charge(slot);
    }

    fn release_lane(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        if let Some(lane) = std::mem::replace(&mut message.lane, Slot::NONE).some() {
            self.lanes.release(lane);
        }
        if let Some(partition) = std::mem::replace(&mut message.partition, Slot::NONE).some() {
            self.partitions.release(partition);
        }
    }

    pub(super) fn renumber(&mut self, slot: Slot, number: Number) {
        let message = &mut self.messages[slot];
        self.numbers.remove(message.number);
        self.numbers.insert(number, slot);
        message.number = number;
        self.number_next = self.number_next.max(number.0 + 1);
    }

    /// Removes a message from all indexes and from memory.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.unindex(slot);
        self.end_grant(slot, GrantEnd::Lost);
        self.remove_from_index(slot);
        self.remove_from_counts(slot);
        self.discharge(slot);
        self.release_lane(slot);
        self.offer_touched();
        let (number, grant) = (self.messages[slot].number, self.messages[slot].grant);
        self.messages.remove(slot);
        self.numbers.remove(number);
        if let Some(grant) = grant.some() {
            self.grants.remove(grant);
        }
    }
}
