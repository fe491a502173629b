//! The deliveries in a worker's hands: waiting for a handler, in one, or waiting for their settlement to be answered.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

use oncebox_core::{Delivery, Settlement, Uid, Verdict};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::Ticket;

/// What is in a worker's hands. Ordered, so that the same run does the same thing again.
#[derive(Default)]
pub(super) struct Held {
    all: BTreeMap<Ticket, Item>,
    /// Waiting for a handler, in the order they came.
    pub(super) queue: VecDeque<Ticket>,
    /// Messages in a handler: none is ever in two (IBX-078), also while a cancelled one is still on its way out.
    pub(super) busy: HashSet<Uid>,
    /// Verdicts that the store has not been told yet, in the order they came.
    pub(super) outbox: VecDeque<Ticket>,
    /// No lease ends before this moment.
    pub(super) watch: Option<Instant>,
}

/// One delivery.
pub(super) struct Item {
    pub(super) delivery: Arc<Delivery>,
    /// Its topic's place; none if nobody handles it.
    pub(super) lane: Option<usize>,
    /// The lease counts as lost from here on, by our clock: counted from when it was asked for.
    pub(super) deadline: Instant,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    /// Waits for a handler. One that was claimed ahead may only start under a lease that is fresh enough.
    Queued { ahead: bool },
    /// In a handler. If the lease was lost, its result does not count.
    Running { cancellation: CancellationToken, lost: bool },
    /// The handler has ended; the store shall hear this.
    Settling(Verdict),
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn insert(&mut self, ticket: Ticket, item: Item) {
        let watch = self.watch.map_or(item.deadline, |watch| watch.min(item.deadline));
        self.watch = Some(watch);
        self.all.insert(ticket, item);
    }

    pub(super) fn item(&self, ticket: &Ticket) -> Option<&Item> {
        self.all.get(ticket)
    }

    /// Its lease lasts until then.
    pub(super) fn prolong(&mut self, ticket: &Ticket, deadline: Instant) {
        if let Some(item) = self.all.get_mut(ticket) {
            item.deadline = item.deadline.max(deadline);
        }
    }

    pub(super) fn get_mut(&mut self, ticket: &Ticket) -> Option<&mut Item> {
        self.all.get_mut(ticket)
    }

    pub(super) fn remove(&mut self, ticket: &Ticket) -> Option<Item> {
        self.all.remove(ticket)
    }

    pub(super) fn contains(&self, ticket: &Ticket) -> bool {
        self.all.contains_key(ticket)
    }

    pub(super) fn items(&self) -> impl Iterator<Item = (&Ticket, &Item)> {
        self.all.iter()
    }

    /// Notes what the store shall hear about it.
    pub(super) fn settle(&mut self, ticket: Ticket, verdict: Verdict) {
        if let Some(item) = self.all.get_mut(&ticket) {
            item.phase = Phase::Settling(verdict);
            self.outbox.push_back(ticket);
        }
    }

    /// What the store shall hear about it, as a settlement.
    pub(super) fn settlement(&self, ticket: &Ticket) -> Option<Settlement> {
        let item = self.all.get(ticket)?;
        match &item.phase {
            Phase::Settling(verdict) => Some(item.delivery.settle(verdict.clone())),
            Phase::Queued { .. } | Phase::Running { .. } => None,
        }
    }

    /// Those whose leases have ended by our clock; sets the next moment to look.
    pub(super) fn lapsed(&mut self, now: Instant) -> Vec<Ticket> {
        if self.watch.is_none_or(|watch| now < watch) {
            return Vec::new();
        }
        let live = |item: &&Item| match &item.phase {
            Phase::Queued { .. } => true,
            Phase::Running { cancellation, .. } => !cancellation.is_cancelled(),
            Phase::Settling(_) => false,
        };
        self.watch = self.all.values().filter(live).map(|item| item.deadline).filter(|end| *end > now).min();
        let ended = self.all.iter().filter(|(_, item)| live(item) && item.deadline <= now);
        ended.map(|(ticket, _)| *ticket).collect()
    }

    /// Those whose leases are to be extended: all but the lost.
    pub(super) fn extendable(&self) -> Vec<Ticket> {
        let lost = |item: &Item| matches!(item.phase, Phase::Running { lost: true, .. });
        self.all.iter().filter(|(_, item)| !lost(item)).map(|(ticket, _)| *ticket).collect()
    }
}
