//! Partitions: one message in flight, the others queued by number; only the first of the queue may be claimable.

use std::collections::{BTreeMap, HashMap};

use super::Machine;
use super::arena::{Arena, Slot};
use super::counts::Class;
use crate::id::Number;
use crate::key::Namespace;
use crate::payload::PayloadHandle;
use crate::text::Partition;

struct Row {
    namespace: Namespace,
    name: Partition,
    /// Messages that are due and not leased, whether or not their retry time has passed.
    queue: BTreeMap<Number, Slot>,
    in_flight: Slot,
    /// The message that the partition currently offers in its lane.
    offered: Slot,
    users: u32,
}

#[derive(Default)]
pub(super) struct Partitions {
    rows: Arena<Row>,
    by_name: [HashMap<Partition, Slot>; Namespace::ALL.len()],
    /// Partitions to re-evaluate once a change is complete; each counts as a user.
    touched: Vec<Slot>,
}

impl Partitions {
    /// Acquires the partition for one more user, creating it if necessary.
    pub(super) fn acquire(&mut self, namespace: Namespace, name: &Partition) -> Slot {
        let by_name = &mut self.by_name[namespace as usize];
        let partition = match by_name.get(name) {
            Some(partition) => *partition,
            None => {
                let row = Row {
                    namespace,
                    name: name.clone(),
                    queue: BTreeMap::new(),
                    in_flight: Slot::NONE,
                    offered: Slot::NONE,
                    users: 0,
                };
                let partition = self.rows.insert(row);
                by_name.insert(name.clone(), partition);
                partition
            }
        };
        self.rows[partition].users += 1;
        partition
    }

    /// Releases the partition of a user. The last user removes it.
    pub(super) fn release(&mut self, partition: Slot) {
        let row = &mut self.rows[partition];
        row.users -= 1;
        if row.users == 0 {
            debug_assert!(row.queue.is_empty() && row.in_flight == Slot::NONE);
            self.by_name[row.namespace as usize].remove(&row.name);
            self.rows.remove(partition);
        }
    }

    pub(super) fn name(&self, partition: Slot) -> &Partition {
        &self.rows[partition].name
    }

    /// Schedules the partition for re-evaluation at the end of the current change.
    pub(super) fn touch(&mut self, partition: Slot) {
        self.rows[partition].users += 1;
        self.touched.push(partition);
    }

    pub(super) fn enqueue(&mut self, partition: Slot, number: Number, message: Slot) {
        self.rows[partition].queue.insert(number, message);
    }

    /// Removes a message from the queue; returns whether it was in its lane.
    pub(super) fn dequeue(&mut self, partition: Slot, number: Number) -> bool {
        let row = &mut self.rows[partition];
        let message = row.queue.remove(&number).expect("a queued message is in the queue");
        let was_offered = row.offered == message;
        if was_offered {
            row.offered = Slot::NONE;
        }
        was_offered
    }

    /// Whether no message of the partition is in flight; no partition is always free.
    pub(super) fn is_free(&self, partition: Slot) -> bool {
        partition.some().is_none_or(|partition| self.rows[partition].in_flight == Slot::NONE)
    }

    /// The message that keeps a partition busy.
    pub(super) fn in_flight(&self, namespace: Namespace, name: &Partition) -> Option<Slot> {
        let partition = self.by_name[namespace as usize].get(name)?;
        self.rows[*partition].in_flight.some()
    }

    /// Marks a partition as busy with a message.
    pub(super) fn mark_in_flight(&mut self, namespace: Namespace, name: &Partition, message: Slot) {
        let partition = self.acquire(namespace, name);
        let row = &mut self.rows[partition];
        assert!(row.in_flight == Slot::NONE, "one message of a partition is in flight at a time");
        row.in_flight = message;
        self.touch(partition);
    }

    /// Marks a partition as free, and schedules its re-evaluation.
    pub(super) fn clear_in_flight(&mut self, namespace: Namespace, name: &Partition) {
        let partition = self.by_name[namespace as usize][name];
        self.rows[partition].in_flight = Slot::NONE;
        // The user count of the message in flight passes to the scheduled re-evaluation.
        self.touched.push(partition);
    }
}

impl<P: PayloadHandle> Machine<P> {
    /// Lets each touched partition offer the message that is now first, if it may be delivered.
    pub(super) fn offer_touched(&mut self) {
        while let Some(partition) = self.partitions.touched.pop() {
            self.offer_first(partition);
            self.partitions.release(partition);
        }
    }

    fn offer_first(&mut self, partition: Slot) {
        let row = &self.partitions.rows[partition];
        let first = row.queue.first_key_value().map(|(_, message)| *message);
        let free = row.in_flight == Slot::NONE;
        let wanted = first.filter(|first| free && self.retry_at(&self.messages[*first]) <= self.now);
        let wanted = wanted.unwrap_or(Slot::NONE);
        let before = std::mem::replace(&mut self.partitions.rows[partition].offered, wanted);
        if before == wanted {
            return;
        }
        if let Some(before) = before.some() {
            let (lane, number) = (self.messages[before].lane, self.messages[before].number);
            self.lanes.withdraw(lane, number);
            self.classify(before, Class::Waiting);
        }
        if let Some(wanted) = wanted.some() {
            let (lane, number) = (self.messages[wanted].lane, self.messages[wanted].number);
            self.lanes.offer(lane, number, wanted);
            self.classify(wanted, Class::Ready);
        }
    }
}

#[cfg(test)]
impl Partitions {
    /// Every partition with its queue, for comparison; `name_of` names a message.
    pub(super) fn dump(&self, name_of: impl Fn(Slot) -> String) -> Vec<String> {
        assert!(self.touched.is_empty(), "every touched partition is re-evaluated before an operation ends");
        let line = |row: &Row| {
            let [in_flight, offered] = [row.in_flight, row.offered].map(|slot| slot.some().map(&name_of));
            let queue: Vec<_> = row.queue.keys().collect();
            format!("{} {} {queue:?} {in_flight:?} {offered:?} {}", row.namespace, row.name, row.users)
        };
        let mut lines: Vec<_> = self.rows.iter().map(|(_, row)| line(row)).collect();
        lines.sort();
        lines
    }
}
