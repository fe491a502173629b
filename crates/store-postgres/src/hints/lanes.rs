//! Which lanes may have messages, and from which number on, as far as this process has seen, so that claims rarely
//! need to search.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Namespace, Topics};

use super::{Lane, LaneQueue, NumberRange, ScanFrom, ScanPosition, ScanStart};

/// Maximum number of queues, and of lanes in all queues together; beyond it, the least recently used queue is
/// evicted.
const QUEUES_MAX: usize = 4_096;
const QUEUED_MAX: usize = 65_536;
/// Maximum number of lanes per namespace that became ready since a claim last asked for their topic.
const READY_MAX: usize = 4_096;
/// Maximum number of lanes whose positions are remembered.
const POSITIONS_MAX: usize = 8_192;

type Key = (Namespace, Topics);

/// A cache. Any part of it may be missing or wrong at any time.
#[derive(Default)]
pub(crate) struct LaneCache(Mutex<State>);

#[derive(Default)]
struct State {
    queues: HashMap<Key, CachedQueue>,
    queued: usize,
    uses: u64,
    ready: HashMap<Namespace, BTreeSet<Lane>>,
    positions: HashMap<(Namespace, Lane), ScanPosition>,
    /// The generation of lanes whose position is not remembered.
    unknown_generation: u64,
    generations: u64,
}

#[derive(Default)]
struct CachedQueue {
    queue: LaneQueue,
    used_at: u64,
}

/// What a claim does first.
pub(crate) enum Plan {
    /// Scan for lanes below this one.
    Scan(Option<Lane>),
    Serve,
}

impl State {
    /// The queue for a claim, marked as used.
    fn queue(&mut self, key: &Key) -> &mut LaneQueue {
        self.uses += 1;
        let uses = self.uses;
        if !self.queues.contains_key(key) {
            if self.queues.len() >= QUEUES_MAX || self.queued >= QUEUED_MAX {
                self.evict_oldest();
            }
            let seed = usize::try_from(uses).unwrap_or_default();
            self.queues.insert(key.clone(), CachedQueue { queue: LaneQueue::new(seed), used_at: uses });
        }
        let cached = self.queues.entry(key.clone()).or_default();
        cached.used_at = uses;
        &mut cached.queue
    }

    fn evict_oldest(&mut self) {
        let oldest = self.queues.iter().min_by_key(|(_, cached)| cached.used_at).map(|(key, _)| key.clone());
        if let Some(cached) = oldest.and_then(|key| self.queues.remove(&key)) {
            self.queued = self.queued.saturating_sub(cached.queue.len());
        }
    }

    /// Changes a queue and updates the number of queued lanes.
    fn change<T>(&mut self, key: &Key, change: impl FnOnce(&mut LaneQueue) -> T) -> T {
        let queue = self.queue(key);
        let before = queue.len();
        let result = change(queue);
        let after = queue.len();
        self.queued = (self.queued + after).saturating_sub(before);
        result
    }

    /// Removes and returns the lanes of these topics that became ready; the caller adds them to the queue.
    fn take_ready(&mut self, (namespace, topics): &Key) -> Vec<Lane> {
        let Some(ready) = self.ready.get_mut(namespace) else { return Vec::new() };
        match topics.named() {
            None => std::mem::take(ready).into_iter().collect(),
            Some(names) => {
                let lanes: Vec<Lane> = names.iter().flat_map(|name| of_topic(ready, name)).collect();
                for lane in &lanes {
                    ready.remove(lane);
                }
                lanes
            }
        }
    }

    fn next_generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }

    fn set_position(&mut self, key: (Namespace, Lane), position: ScanPosition) {
        if self.positions.len() >= POSITIONS_MAX && !self.positions.contains_key(&key) {
            // Evicts any lane: it is scanned from its beginning next time.
            if let Some(other) = self.positions.keys().next().cloned() {
                self.positions.remove(&other);
            }
        }
        self.positions.insert(key, position);
    }
}

fn of_topic(ready: &BTreeSet<Lane>, name: &oncebox_core::Topic) -> Vec<Lane> {
    let (first, last) = ((name.clone(), i32::MIN), (name.clone(), i32::MAX));
    ready.range(first..=last).cloned().collect()
}

impl LaneCache {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A cache is consistent whatever happened while it was locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a lane may have a message that is new or returned to its old position.
    pub(crate) fn mark_ready(&self, namespace: Namespace, lane: Lane) {
        let mut state = self.lock();
        let ready = state.ready.entry(namespace).or_default();
        if ready.len() >= READY_MAX && !ready.contains(&lane) {
            ready.pop_first();
        }
        ready.insert(lane);
    }

    /// What a claim of these topics does first. Counts the claim.
    pub(crate) fn plan(&self, namespace: Namespace, topics: &Topics, now: Duration) -> Plan {
        let mut state = self.lock();
        let key = (namespace, topics.clone());
        let ready = state.take_ready(&key);
        state.change(&key, |queue| {
            for lane in ready {
                queue.offer(&lane);
            }
            if queue.is_scan_due(now) { Plan::Scan(queue.cursor().below().cloned()) } else { Plan::Serve }
        })
    }

    /// Adds the lanes that a scan found.
    pub(crate) fn scanned(
        &self,
        namespace: Namespace,
        topics: &Topics,
        batch: &[Lane],
        started: Duration,
        ended: Duration,
    ) {
        let key = (namespace, topics.clone());
        self.lock().change(&key, |queue| queue.scanned(batch, started, ended));
    }

    /// Adds lanes that have messages to the queue of these topics.
    pub(crate) fn offer(&self, namespace: Namespace, topics: &Topics, lanes: &[Lane]) {
        self.lock().change(&(namespace, topics.clone()), |queue| {
            for lane in lanes {
                queue.offer(lane);
            }
        });
    }

    /// The next lanes; see [`LaneQueue::next_lanes`].
    pub(crate) fn next_lanes(
        &self,
        namespace: Namespace,
        topics: &Topics,
        max: usize,
        turns: usize,
        except: &HashSet<Lane>,
    ) -> Vec<Lane> {
        let key = (namespace, topics.clone());
        self.lock().change(&key, |queue| queue.next_lanes(max, turns, except))
    }

    /// Removes lanes that have nothing for now.
    pub(crate) fn remove_drained<'a>(
        &self,
        namespace: Namespace,
        topics: &Topics,
        lanes: impl IntoIterator<Item = &'a Lane>,
    ) {
        self.lock().change(&(namespace, topics.clone()), |queue| {
            for lane in lanes {
                queue.remove_drained(lane);
            }
        });
    }

    /// Where scans of lanes start now, on the monotonic clock.
    pub(crate) fn starts(
        &self,
        namespace: Namespace,
        lanes: &[Lane],
        from: ScanFrom,
        now: Duration,
    ) -> Vec<ScanStart> {
        let state = self.lock();
        let unknown = ScanPosition::unknown(state.unknown_generation);
        let position =
            |lane: &Lane| state.positions.get(&(namespace, lane.clone())).copied().unwrap_or(unknown);
        lanes.iter().map(|lane| position(lane).start(from, now)).collect()
    }

    /// Records the result of a scan of a lane that ends now.
    pub(crate) fn record_scan(
        &self,
        namespace: Namespace,
        lane: &Lane,
        start: ScanStart,
        found: NumberRange,
        now: Duration,
    ) {
        let mut state = self.lock();
        let key = (namespace, lane.clone());
        let unknown = ScanPosition::unknown(state.unknown_generation);
        let mut position = state.positions.get(&key).copied().unwrap_or(unknown);
        // If a message returned in the meantime, the scan may have missed it.
        if position.generation() != start.generation {
            return;
        }
        let next_generation = state.generations + 1;
        if position.record_scan(start, found, now, next_generation) {
            state.generations = next_generation;
        }
        state.set_position(key, position);
    }

    /// Records that a message may have returned to its old position in a lane.
    pub(crate) fn invalidate(&self, namespace: Namespace, lane: Lane) {
        let mut state = self.lock();
        let generation = state.next_generation();
        state.set_position((namespace, lane), ScanPosition::unknown(generation));
    }

    /// Records that a message may have returned to its old position in any lane.
    pub(crate) fn invalidate_all(&self) {
        let mut state = self.lock();
        state.positions.clear();
        state.unknown_generation = state.next_generation();
    }
}

#[cfg(test)]
mod tests;
