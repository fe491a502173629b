//! The topics of a namespace that have claimable messages: by slot for the rotation, by name for listings.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use super::arena::Slot;
use crate::port::PageSize;
use crate::text::Topic;

#[derive(Default)]
pub(super) struct Ready {
    pub(super) slots: BTreeSet<Slot>,
    /// Ordered, so that the cost of a page of names depends on its size only.
    names: BTreeSet<Topic>,
    /// The topic that was served last.
    pub(super) served: Option<Slot>,
}

impl Ready {
    pub(super) fn insert(&mut self, topic: Slot, name: &Topic) {
        self.slots.insert(topic);
        self.names.insert(name.clone());
    }

    pub(super) fn remove(&mut self, topic: Slot, name: &Topic) {
        self.slots.remove(&topic);
        self.names.remove(name);
    }

    /// The names after this one, in byte order.
    pub(super) fn names_after(&self, after: Option<&Topic>, limit: PageSize) -> Vec<Topic> {
        let rest = self.names.range::<Topic, _>((after.map_or(Unbounded, Excluded), Unbounded));
        rest.take(limit.get() as usize).cloned().collect()
    }
}

#[cfg(test)]
impl Ready {
    /// Whether a topic is ready; it is in both indexes or in none.
    pub(super) fn contains(&self, topic: Slot, name: &Topic) -> bool {
        let by_slot = self.slots.contains(&topic);
        assert_eq!(by_slot, self.names.contains(name), "a ready topic is found by slot and by name");
        assert_eq!(self.slots.len(), self.names.len(), "every ready topic has one name");
        by_slot
    }
}
