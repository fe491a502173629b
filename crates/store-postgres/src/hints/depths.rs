//! How full lanes are, without counting them at every call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::NewMessage;

use oncebox_store_rows::{LaneKey, lane_key};

/// A count is valid for this long.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// A count is valid until this process has added a 128th of the lane's limit. By that much, and by its concurrent
/// calls, a process can exceed the limit. Limits below 128 are counted at every call.
const UNCOUNTED_DIVISOR: u64 = 128;
/// Maximum number of lanes whose counts are cached.
const LANES_MAX: usize = 4_096;

/// What a call adds to a lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    /// The number of messages that the call adds to the lane.
    pub(crate) items: u64,
    /// The lane's limit: the highest that a message of the call sets.
    pub(crate) max: u64,
}

/// The number of messages in lanes when they were counted, and how many this process has added since.
#[derive(Default)]
pub(crate) struct DepthCache(Mutex<HashMap<LaneKey, Count>>);

#[derive(Debug, Clone, Copy)]
struct Count {
    counted: u64,
    added: u64,
    at: Duration,
}

impl DepthCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<LaneKey, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How full a lane is, if the cached count is accurate enough for what the call adds.
    pub(crate) fn get(&self, lane: &LaneKey, demand: Demand, now: Duration) -> Option<u64> {
        let count = *self.lock().get(lane)?;
        let uncounted = count.added.saturating_add(demand.items);
        let is_fresh =
            now.saturating_sub(count.at) < FRESH_FOR && uncounted <= demand.max / UNCOUNTED_DIVISOR;
        let fits = count.counted.saturating_add(uncounted) <= demand.max;
        (is_fresh && fits).then_some(count.counted + count.added)
    }

    /// Records the count of a lane.
    pub(crate) fn set(&self, lane: LaneKey, counted: u64, now: Duration) {
        let mut counts = self.lock();
        if counts.len() >= LANES_MAX && !counts.contains_key(&lane) {
            // Evicts any lane: it is counted again when needed.
            if let Some(other) = counts.keys().next().cloned() {
                counts.remove(&other);
            }
        }
        counts.insert(lane, Count { counted, added: 0, at: now });
    }

    /// Records that a message was added to its lane.
    pub(crate) fn add(&self, message: &NewMessage) {
        if let Some(count) = self.lock().get_mut(&lane_key(message)) {
            count.added += 1;
        }
    }

    /// Clears all counts, because messages were added to lanes in other ways.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_core::{Key, Namespace, NewMessage, Payload, Shard, Topic};

    use super::{Demand, DepthCache, FRESH_FOR, LANES_MAX, LaneKey, lane_key};

    const NOW: Duration = Duration::from_secs(60);

    fn message() -> NewMessage {
        let key = Key::inbox("shop", "1").unwrap();
        NewMessage::new(key, Topic::new("t").unwrap(), Payload::default())
    }

    fn demand(items: u64, max: u64) -> Demand {
        Demand { items, max }
    }

    #[test]
    fn a_lane_is_counted_again_after_a_128th_of_its_limit() {
        let (depths, lane) = (DepthCache::default(), lane_key(&message()));
        assert_eq!(depths.get(&lane, demand(1, 1_280), NOW), None, "it was never counted");
        depths.set(lane.clone(), 100, NOW);
        for added in 0..10 {
            assert_eq!(depths.get(&lane, demand(1, 1_280), NOW), Some(100 + added));
            depths.add(&message());
        }
        assert_eq!(depths.get(&lane, demand(1, 1_280), NOW), None);
        depths.set(lane.clone(), 110, NOW);
        assert_eq!(depths.get(&lane, demand(11, 1_280), NOW), None, "too many at once");
        assert_eq!(depths.get(&lane, demand(1, 127), NOW), None, "a small limit is always counted");
        assert_eq!(depths.get(&lane, demand(1, 1_280), NOW + FRESH_FOR), None);
        depths.set(lane.clone(), 1_280, NOW);
        assert_eq!(depths.get(&lane, demand(1, 1_280), NOW), None, "a full lane is always counted");
        depths.clear();
        assert_eq!(depths.get(&lane, demand(1, 1_280), NOW), None);
    }

    /// Holds: RULE-25.
    #[test]
    fn the_number_of_counts_is_bounded() {
        let depths = DepthCache::default();
        for shard in 0..u16::try_from(LANES_MAX).unwrap() + 10 {
            let lane: LaneKey = (Namespace::Inbox, Topic::new("t").unwrap(), Shard(shard));
            depths.set(lane, 1, NOW);
        }
        assert_eq!(depths.lock().len(), LANES_MAX);
    }
}
