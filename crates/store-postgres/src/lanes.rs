//! Which lanes may have something, and from which number on: what this process has seen, so that a claim need not search.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Namespace, Topic, Topics};
use oncebox_system::uptime;

use crate::codes::TICKET;

/// A slice of a topic, served in order.
pub(crate) type Lane = (Topic, i32);

/// Lanes that one statement looks into, at most.
pub(crate) const LANES_MAX: usize = 64;
/// Lanes that are remembered, at most; the others are found again when it is their turn.
const KNOWN_MAX: usize = 4_096;
/// So often a lane is looked at from its beginning: so late this process notices what others put back there, at the latest. More
/// rarely if such a look takes long, because vacuum may not remove what lies there: no more than a twentieth of the time is spent.
const FROM_BEGINNING_EVERY: Duration = Duration::from_secs(1);
const SHARE_OF_TIME: u32 = 20;
/// Calls that draw their tickets before others may commit after them: so far a look begins before what was claimed last.
const SLACK: i64 = 64 * TICKET;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<Namespace, Known>>);

#[derive(Default)]
struct Known {
    lanes: BTreeMap<Lane, Look>,
    /// The lane that was served last.
    served: Option<Lane>,
}

/// From where a lane is looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    floor: i64,
    /// When it is looked at from its beginning again.
    again_at: Duration,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, Known>> {
        // A map of hints is whole whatever happened while it was locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that lanes may have something.
    pub(crate) fn add(&self, namespace: Namespace, lanes: impl IntoIterator<Item = Lane>) {
        let mut all = self.lock();
        let known = &mut all.entry(namespace).or_default().lanes;
        for lane in lanes {
            if known.len() < KNOWN_MAX {
                known.entry(lane).or_default();
            }
        }
    }

    /// Notes that lanes have nothing.
    pub(crate) fn remove(&self, namespace: Namespace, lanes: &[Lane]) {
        if let Some(known) = self.lock().get_mut(&namespace) {
            for lane in lanes {
                known.lanes.remove(lane);
            }
        }
    }

    /// The lanes whose turn it is, beginning after the one that was served last.
    pub(crate) fn in_turn(&self, namespace: Namespace, topics: &Topics) -> Vec<Lane> {
        let mut all = self.lock();
        let Some(known) = all.get_mut(&namespace) else { return Vec::new() };
        let after = known.served.as_ref().map_or(Unbounded, Excluded);
        let rest = known.lanes.range::<Lane, _>((after, Unbounded));
        let wanted = |lane: &&Lane| topics.contains(&lane.0);
        let in_turn = rest.chain(&known.lanes).map(|(lane, _)| lane).filter(wanted);
        let mut seen = BTreeSet::new();
        let lanes: Vec<_> = in_turn
            .take(LANES_MAX.min(known.lanes.len()))
            .filter(|lane| seen.insert(*lane))
            .cloned()
            .collect();
        if let Some(first) = lanes.first() {
            known.served = Some(first.clone());
        }
        lanes
    }

    /// The lowest number of each lane that is worth a look.
    pub(crate) fn floors(&self, namespace: Namespace, lanes: &[Lane]) -> Vec<i64> {
        let all = self.lock();
        let known = all.get(&namespace);
        let look = |lane| known.and_then(|known| known.lanes.get(lane)).copied().unwrap_or_default();
        let now = uptime();
        lanes.iter().map(look).map(|look| if look.again_at > now { look.floor } else { 0 }).collect()
    }

    /// Notes the lowest number that a look into a lane found, and how long that took from where.
    pub(crate) fn looked(&self, namespace: Namespace, lane: &Lane, from: i64, lowest: i64, took: Duration) {
        let mut all = self.lock();
        let look = all.get_mut(&namespace).and_then(|known| known.lanes.get_mut(lane));
        let Some(look) = look else { return };
        look.floor = lowest.saturating_sub(SLACK).max(0);
        if from == 0 {
            look.again_at = uptime().saturating_add((took * SHARE_OF_TIME).max(FROM_BEGINNING_EVERY));
        }
    }

    /// Notes that something may have come back to its place in the lanes of a topic.
    pub(crate) fn lower(&self, namespace: Namespace, topic: &Topic) {
        let mut all = self.lock();
        let lanes = all.get_mut(&namespace).into_iter().flat_map(|known| &mut known.lanes);
        for (_, look) in lanes.filter(|((name, _), _)| name == topic) {
            *look = Look::default();
        }
    }

    /// Notes that something may have come back to its place in any lane.
    pub(crate) fn lower_all(&self) {
        for look in self.lock().values_mut().flat_map(|known| known.lanes.values_mut()) {
            *look = Look::default();
        }
    }
}

/// Lanes as they are bound to a statement: their topics, and their shards.
pub(crate) fn columns(lanes: &[Lane]) -> (Vec<&str>, Vec<i32>) {
    lanes.iter().map(|(topic, shard)| (topic.as_str(), *shard)).unzip()
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Namespace, Topic, Topics};

    use std::time::Duration;

    use super::{LANES_MAX, Lane, Lanes, SLACK};

    fn lane(name: &str) -> Lane {
        (Topic::new(name).unwrap(), 0)
    }

    #[test]
    fn lanes_take_turns_and_each_comes_once() {
        let lanes = Lanes::default();
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), []);
        lanes.add(Namespace::Inbox, ["a", "b", "c"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["a", "b", "c"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["b", "c", "a"].map(lane));
        let only = Topics::only([Topic::new("a").unwrap()]).unwrap();
        assert_eq!(lanes.in_turn(Namespace::Inbox, &only), [lane("a")]);
        lanes.remove(Namespace::Inbox, &[lane("b")]);
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["c", "a"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Ledger, &Topics::ALL), []);
    }

    #[test]
    fn what_has_been_claimed_is_not_looked_at_again_for_a_while() {
        let (lanes, space) = (Lanes::default(), Namespace::Inbox);
        lanes.add(space, ["a", "b"].map(lane));
        let both = ["a", "b"].map(lane);
        assert_eq!(lanes.floors(space, &both), [0, 0]);
        lanes.looked(space, &lane("a"), 0, 10 * SLACK, Duration::ZERO);
        assert_eq!(lanes.floors(space, &both), [9 * SLACK, 0], "calls that commit late have a chance");
        lanes.add(space, [lane("a")]);
        lanes.looked(space, &lane("a"), 9 * SLACK, 12 * SLACK, Duration::ZERO);
        assert_eq!(lanes.floors(space, &both), [11 * SLACK, 0], "what comes in is above");
        lanes.lower(space, &Topic::new("b").unwrap());
        assert_eq!(lanes.floors(space, &both), [11 * SLACK, 0]);
        lanes.lower(space, &Topic::new("a").unwrap());
        assert_eq!(lanes.floors(space, &both), [0, 0], "something came back");
        lanes.looked(space, &lane("b"), 0, 3, Duration::ZERO);
        assert_eq!(lanes.floors(space, &both), [0, 0], "there is nothing below the beginning");
        lanes.looked(space, &lane("b"), 0, 10 * SLACK, Duration::ZERO);
        lanes.lower_all();
        assert_eq!(lanes.floors(space, &both), [0, 0]);
    }

    #[test]
    fn one_statement_looks_into_a_bounded_number_of_lanes_and_all_get_their_turn() {
        let lanes = Lanes::default();
        lanes.add(Namespace::Inbox, (0..200).map(|number| lane(&format!("{number:03}"))));
        let mut served = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let turn = lanes.in_turn(Namespace::Inbox, &Topics::ALL);
            assert_eq!(turn.len(), LANES_MAX);
            served.extend(turn.into_iter().take(1));
        }
        assert_eq!(served.len(), 200);
    }
}
