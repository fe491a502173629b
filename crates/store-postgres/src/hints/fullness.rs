//! How full lanes are, without counting them at every call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Namespace, NewMessage, Shard, Snapshot, Topic};

/// A count is good for this long.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// And for so large a part of the bound that this process adds since: by so much, and by what calls under way bring, a process can pass
/// a lane's bound. Small bounds are counted at every call.
const SHARE_UNCOUNTED: u64 = 128;
/// Lanes whose counts are kept, at most.
const LANES_MAX: usize = 4_096;

/// A lane, whatever its namespace.
pub(crate) type LaneOf = (Namespace, Topic, Shard);

pub(crate) fn lane_of(message: &NewMessage) -> LaneOf {
    let content = &message.content;
    (message.key.namespace, content.topic.clone(), content.shard)
}

/// The lane of a message that has content.
pub(crate) fn lane_of_snapshot<P>(message: &Snapshot<P>) -> Option<LaneOf> {
    let content = message.content.as_ref()?;
    Some((message.key.namespace, content.topic.clone(), content.shard))
}

/// What a call wants to put into a lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    /// Messages of the call for it.
    pub(crate) items: u64,
    /// The bound on it: the highest that a message names.
    pub(crate) max: u64,
}

/// What lanes held when they were counted, and what this process has added since.
#[derive(Default)]
pub(crate) struct Fullness(Mutex<HashMap<LaneOf, Count>>);

#[derive(Debug, Clone, Copy)]
struct Count {
    counted: u64,
    added: u64,
    at: Duration,
}

impl Fullness {
    fn lock(&self) -> MutexGuard<'_, HashMap<LaneOf, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How full a lane is, if that is known well enough for what a call wants to put into it.
    pub(crate) fn known(&self, lane: &LaneOf, demand: Demand, now: Duration) -> Option<u64> {
        let count = *self.lock().get(lane)?;
        let uncounted = count.added.saturating_add(demand.items);
        let is_fresh = now.saturating_sub(count.at) < GOOD_FOR && uncounted <= demand.max / SHARE_UNCOUNTED;
        let fits = count.counted.saturating_add(uncounted) <= demand.max;
        (is_fresh && fits).then_some(count.counted + count.added)
    }

    /// Notes how full a lane was when it was counted.
    pub(crate) fn counted(&self, lane: LaneOf, counted: u64, now: Duration) {
        let mut counts = self.lock();
        if counts.len() >= LANES_MAX && !counts.contains_key(&lane) {
            // Any one: it is counted next time.
            if let Some(other) = counts.keys().next().cloned() {
                counts.remove(&other);
            }
        }
        counts.insert(lane, Count { counted, added: 0, at: now });
    }

    /// Notes that a message came into its lane.
    pub(crate) fn added(&self, message: &NewMessage) {
        if let Some(count) = self.lock().get_mut(&lane_of(message)) {
            count.added += 1;
        }
    }

    /// Forgets all counts: messages came into lanes in other ways.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_core::{Key, Namespace, NewMessage, Payload, Shard, Topic};

    use super::{Demand, Fullness, GOOD_FOR, LANES_MAX, LaneOf, lane_of};

    const NOW: Duration = Duration::from_secs(60);

    fn message() -> NewMessage {
        let key = Key::inbox("shop", "1").unwrap();
        NewMessage::new(key, Topic::new("t").unwrap(), Payload::default())
    }

    fn demand(items: u64, max: u64) -> Demand {
        Demand { items, max }
    }

    #[test]
    fn a_lane_is_counted_again_after_a_small_part_of_its_bound() {
        let (fullness, lane) = (Fullness::default(), lane_of(&message()));
        assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW), None, "it was never counted");
        fullness.counted(lane.clone(), 100, NOW);
        for added in 0..10 {
            assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW), Some(100 + added));
            fullness.added(&message());
        }
        assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW), None);
        fullness.counted(lane.clone(), 110, NOW);
        assert_eq!(fullness.known(&lane, demand(11, 1_280), NOW), None, "they are too many at once");
        assert_eq!(fullness.known(&lane, demand(1, 127), NOW), None, "a small bound is always counted");
        assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW + GOOD_FOR), None);
        fullness.counted(lane.clone(), 1_280, NOW);
        assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW), None, "a full lane is counted");
        fullness.forget();
        assert_eq!(fullness.known(&lane, demand(1, 1_280), NOW), None);
    }

    /// Holds: RULE-25.
    #[test]
    fn the_counts_are_bounded() {
        let fullness = Fullness::default();
        for shard in 0..u16::try_from(LANES_MAX).unwrap() + 10 {
            let lane: LaneOf = (Namespace::Inbox, Topic::new("t").unwrap(), Shard(shard));
            fullness.counted(lane, 1, NOW);
        }
        assert_eq!(fullness.lock().len(), LANES_MAX);
    }
}
