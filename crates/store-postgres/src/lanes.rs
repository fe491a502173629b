//! Which lanes may have something: what this process has seen, so that a claim need not search.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_core::{Namespace, Topic, Topics};

/// A slice of a topic, served in order.
pub(crate) type Lane = (Topic, i32);

/// Lanes that one statement looks into, at most.
pub(crate) const LANES_MAX: usize = 64;
/// Lanes that are remembered, at most; the others are found again when it is their turn.
const KNOWN_MAX: usize = 4_096;

#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<Namespace, Known>>);

#[derive(Default)]
struct Known {
    lanes: BTreeSet<Lane>,
    /// The lane that was served last.
    served: Option<Lane>,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, Known>> {
        // A set of names is whole whatever happened while it was locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that lanes may have something.
    pub(crate) fn add(&self, namespace: Namespace, lanes: impl IntoIterator<Item = Lane>) {
        let mut all = self.lock();
        let known = &mut all.entry(namespace).or_default().lanes;
        for lane in lanes {
            if known.len() < KNOWN_MAX {
                known.insert(lane);
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
        let lanes: Vec<_> =
            rest.chain(&known.lanes).filter(wanted).take(LANES_MAX.min(known.lanes.len())).cloned().collect();
        let lanes: Vec<_> = {
            let mut seen = BTreeSet::new();
            lanes.into_iter().filter(|lane| seen.insert(lane.clone())).collect()
        };
        if let Some(first) = lanes.first() {
            known.served = Some(first.clone());
        }
        lanes
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Namespace, Topic, Topics};

    use super::{LANES_MAX, Lane, Lanes};

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
