//! The deliveries that a worker holds: waiting for a handler, being handled, or waiting for their settlement to be
//! confirmed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use oncebox_core::{Delivery, Settlement, Uid, Verdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::DeliveryKey;

/// The deliveries that a worker holds. Ordered, so that runs are reproducible.
#[derive(Default)]
pub(super) struct InFlight {
    all: BTreeMap<DeliveryKey, Item>,
    /// Deliveries that wait for a handler, in the order of arrival.
    pub(super) queue: VecDeque<DeliveryKey>,
    /// Messages being handled. A message is never in two handlers at once (IBX-078), not even while a cancelled handler
    /// is still ending.
    pub(super) busy: HashSet<Uid>,
    /// Deliveries whose verdict has not been sent to the store yet, in the order of their verdicts.
    pub(super) unsent: VecDeque<DeliveryKey>,
    /// No lease ends before this moment.
    pub(super) next_lapse: Option<Instant>,
}

/// One delivery.
pub(super) struct Item {
    pub(super) delivery: Arc<Delivery>,
    /// The index of its route; none if its topic has no handler.
    pub(super) route: Option<usize>,
    /// The lease counts as lost from this moment, by the local clock. Measured from when the lease was requested.
    pub(super) deadline: Instant,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    /// Waits for a handler. If it was prefetched, it starts only when enough of its lease is left.
    Queued { prefetched: bool },
    /// Being handled. If the lease was lost, the result does not count.
    Running { cancellation: CancellationToken, lost: bool },
    /// The handler has ended, and this verdict is to be sent.
    Settling(Verdict),
}

impl InFlight {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn insert(&mut self, key: DeliveryKey, item: Item) {
        let next_lapse = self.next_lapse.map_or(item.deadline, |next_lapse| next_lapse.min(item.deadline));
        self.next_lapse = Some(next_lapse);
        self.all.insert(key, item);
    }

    pub(super) fn item(&self, key: &DeliveryKey) -> Option<&Item> {
        self.all.get(key)
    }

    /// Records that the lease lasts until `deadline`.
    pub(super) fn extend_deadline(&mut self, key: &DeliveryKey, deadline: Instant) {
        if let Some(item) = self.all.get_mut(key) {
            item.deadline = item.deadline.max(deadline);
        }
    }

    pub(super) fn get_mut(&mut self, key: &DeliveryKey) -> Option<&mut Item> {
        self.all.get_mut(key)
    }

    pub(super) fn remove(&mut self, key: &DeliveryKey) -> Option<Item> {
        self.all.remove(key)
    }

    pub(super) fn contains(&self, key: &DeliveryKey) -> bool {
        self.all.contains_key(key)
    }

    pub(super) fn items(&self) -> impl Iterator<Item = (&DeliveryKey, &Item)> {
        self.all.iter()
    }

    /// Queues a verdict.
    pub(super) fn settle(&mut self, key: DeliveryKey, verdict: Verdict) {
        if let Some(item) = self.all.get_mut(&key) {
            item.phase = Phase::Settling(verdict);
            self.unsent.push_back(key);
        }
    }

    /// The settlement for a queued verdict.
    pub(super) fn settlement(&self, key: &DeliveryKey) -> Option<Settlement> {
        let item = self.all.get(key)?;
        match &item.phase {
            Phase::Settling(verdict) => Some(item.delivery.settle(verdict.clone())),
            Phase::Queued { .. } | Phase::Running { .. } => None,
        }
    }

    /// The deliveries whose leases have ended by the local clock. Sets the next moment to check.
    pub(super) fn lapsed(&mut self, now: Instant) -> Vec<DeliveryKey> {
        if self.next_lapse.is_none_or(|next_lapse| now < next_lapse) {
            return Vec::new();
        }
        let live = |item: &&Item| match &item.phase {
            Phase::Queued { .. } => true,
            Phase::Running { cancellation, .. } => !cancellation.is_cancelled(),
            Phase::Settling(_) => false,
        };
        self.next_lapse =
            self.all.values().filter(live).map(|item| item.deadline).filter(|end| *end > now).min();
        let ended = self.all.iter().filter(|(_, item)| live(item) && item.deadline <= now);
        ended.map(|(key, _)| *key).collect()
    }

    /// The deliveries whose leases are to be extended: all except those known to be lost.
    pub(super) fn extendable(&self) -> Vec<DeliveryKey> {
        let lost = |item: &Item| matches!(item.phase, Phase::Running { lost: true, .. });
        self.all.iter().filter(|(_, item)| !lost(item)).map(|(key, _)| *key).collect()
    }
}
