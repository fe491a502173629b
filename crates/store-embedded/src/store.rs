//! The port on engine and journal: callers apply under the lock, then wait for the journal.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::limits::check_work;
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Begin, Begun, Bell, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest,
    Key, NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics, Ref, Scope,
    Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept, Usage, Wakeups, Worked,
};

use crate::call::{Call, Weight, deal, disk_bound, or_full, refused};
use crate::lock::DirectoryLock;
use crate::need::{CLAIM_LEAVES_BYTES, Need, SETTLEMENT_LEAVES_BYTES, UPKEEP_LEAVES_BYTES};
use crate::options::Durability;
use crate::recovery::Cut;
use crate::shared::{Goal, Life, Shared};
use crate::size;

/// Messages that one upkeep forgets, at most, and what each of them takes of the journal.
const FORGOTTEN_MAX: u32 = 10_000;
const FORGOTTEN_BYTES: u64 = 32;
/// When to come again while the disk is full.
const DISK_FULL_RETRY: Duration = Duration::from_secs(1);

/// A durable store in a directory of its own.
pub struct EmbeddedStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bell: Bell,
    pub(crate) durability: Durability,
    /// Space that only claims, settlements and operators may use.
    pub(crate) reserve_bytes: u64,
    pub(crate) cut: Option<Cut>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) lock: Mutex<Option<DirectoryLock>>,
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Where the journal was cut when it was opened, if its last frames were not whole: the mark of a crash.
    pub fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Waits until nobody touches the directory any more, and lets others open it.
    fn leave(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads.into_iter().rev() {
            let _ = thread.join();
        }
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    async fn read<T>(
        &self,
        items: usize,
        run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T + Send,
    ) -> Result<T, Error> {
        let read = Call::read(items);
        self.call(&read, |machine, turn, _| run(machine, turn)).await.map_err(refused)
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.life == Life::Open {
            state.life = Life::Closing;
        }
        drop(state);
        self.shared.work.notify_all();
        self.leave();
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities.durable = true;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.bell.listen(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        let bytes = sightings.iter().map(size::sighting).sum();
        let call = Call::intake(sightings.len(), bytes, self.reserve_bytes);
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            sightings.iter().map(|item| machine.observe(turn, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_full(outcome, sightings.len(), |bound| Observed::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let bytes = messages.iter().map(size::message).sum();
        let call = Call::intake(messages.len(), bytes, self.reserve_bytes);
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            messages.iter().map(|item| machine.accept(turn, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_full(outcome, messages.len(), |bound| Accepted::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let bytes = begins.iter().map(|begin| size::key(&begin.key)).sum();
        let lease = begins.iter().map(|begin| begin.lease.get()).max().unwrap_or_default();
        let call = Call { lease, ..Call::intake(begins.len(), bytes, self.reserve_bytes) };
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            begins.iter().map(|item| machine.begin(turn, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_full(outcome, begins.len(), |bound| Begun::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        check_work(settlements.len(), claims)?;
        let lease = claims.iter().map(|claim| claim.lease.get()).max().unwrap_or_default();
        let (weight, leaves) = match settlements {
            [] => (Weight::Light, CLAIM_LEAVES_BYTES),
            _ => (Weight::Solid, SETTLEMENT_LEAVES_BYTES),
        };
        let bytes = settlements.iter().map(size::settlement).sum();
        let claimed = claims.iter().map(|claim| claim.batch.get()).sum();
        let name_bytes = claims.iter().map(size::worker).max().unwrap_or_default();
        let call = Call { items: 0, weight, need: Need { bytes, claimed, name_bytes, leaves }, lease };
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, claimed| Worked {
            settled: settlements.iter().map(|item| machine.settle(turn, item)).collect(),
            deliveries: deal(claims, claimed)
                .map(|claim| claim.map_or_else(Vec::new, |claim| machine.claim(turn, &claim)))
                .collect(),
        };
        self.call(&call, run).await.map_err(refused)
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let bytes = extensions.len() as u64 * size::RECORD_BYTES;
        let lease = extensions.iter().map(|extension| extension.lease.get()).max().unwrap_or_default();
        let call = Call { weight: Weight::Light, lease, ..Call::solid(extensions.len(), bytes) };
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            extensions.iter().map(|item| machine.extend(turn, item)).collect()
        };
        self.call(&call, run).await.map_err(refused)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        let call = Call::solid(orders.len(), orders.iter().map(size::order).sum());
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            orders.iter().map(|item| machine.operate(turn, item)).collect()
        };
        self.call(&call, run).await.map_err(refused)
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.read(refs.len(), |machine, turn| refs.iter().map(|item| machine.get(turn, item)).collect()).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.read(1, |machine, turn| machine.with_key(turn, key, limit)).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.read(1, |machine, turn| machine.page(turn, query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.read(1, |machine, turn| machine.counts(turn, scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.read(1, |machine, turn| machine.ready_topics(turn, query)).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.read(1, |machine, turn| machine.topic_counts(turn, query)).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = self.read(1, Machine::usage).await?;
        let state = self.shared.lock();
        if let Some(trouble) = &state.trouble {
            usage.bounds.push(disk_bound(&state));
            usage.trouble = (!trouble.full).then(|| trouble.text.clone());
        }
        Ok(usage)
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        // As much as half of the space allows: a full disk makes the pieces smaller.
        let space = self.shared.lock().room.saturating_sub(UPKEEP_LEAVES_BYTES) / 2 / FORGOTTEN_BYTES;
        let fitting = u32::try_from(space).unwrap_or(u32::MAX).clamp(1, FORGOTTEN_MAX);
        let items_max = budget.items_max.min(fitting);
        let bytes = u64::from(items_max) * FORGOTTEN_BYTES;
        let need = Need { bytes, claimed: 0, name_bytes: 0, leaves: UPKEEP_LEAVES_BYTES };
        let call = Call { items: 1, weight: Weight::Upkeep, need, lease: Duration::ZERO };
        let run = |machine: &mut Machine, turn: &mut Turn<'_>, _| {
            machine.upkeep(turn, Budget { items_max, ..budget })
        };
        self.call(&call, run).await.map_err(refused)
    }

    async fn close(&self) -> Result<(), Error> {
        let goal = {
            let mut state = self.shared.lock();
            if state.life == Life::Open {
                state.life = Life::Closing;
                // The group that is being filled, and the mark after it.
                state.last_group = state.group_number + 1;
                self.shared.work.notify_all();
            }
            self.bell.close();
            // Whoever closes again waits for the same mark.
            Goal { written: state.last_group, durable: state.last_group, wrote: false }
        };
        self.shared.wait(goal).await?;
        self.leave();
        Ok(())
    }
}
