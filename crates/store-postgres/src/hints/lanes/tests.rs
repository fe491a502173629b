//! The cache is bounded, evicts, and ignores the results of invalidated scans.

use std::collections::HashSet;
use std::time::Duration;

use oncebox_core::{Namespace, Topic, Topics};

use super::{Lane, LaneCache, NumberRange, POSITIONS_MAX, Plan, QUEUES_MAX, READY_MAX, ScanFrom};

const NOW: Duration = Duration::from_secs(60);
const NAMESPACE: Namespace = Namespace::Inbox;

fn lane(name: &str) -> Lane {
    (Topic::new(name).unwrap(), 0)
}

fn only(name: &str) -> Topics {
    Topics::only([Topic::new(name).unwrap()]).unwrap()
}

fn next(lanes: &LaneCache, topics: &Topics) -> Vec<Lane> {
    lanes.next_lanes(NAMESPACE, topics, 64, 1, &HashSet::new())
}

fn from(lanes: &LaneCache, name: &str) -> i64 {
    lanes.starts(NAMESPACE, &[lane(name)], ScanFrom::Position, NOW)[0].from
}

fn record_scan(lanes: &LaneCache, name: &str, lowest: i64, highest: i64) {
    let start = lanes.starts(NAMESPACE, &[lane(name)], ScanFrom::Position, NOW)[0];
    lanes.record_scan(NAMESPACE, &lane(name), start, NumberRange { lowest, highest }, NOW);
}

#[test]
fn a_claim_gets_the_ready_lanes_of_its_topics() {
    let lanes = LaneCache::default();
    for name in ["a", "b"] {
        lanes.mark_ready(NAMESPACE, lane(name));
    }
    assert!(matches!(lanes.plan(NAMESPACE, &only("b"), NOW), Plan::Scan(None)), "there may be others");
    assert_eq!(next(&lanes, &only("b")), [lane("b")]);
    assert!(matches!(lanes.plan(NAMESPACE, &Topics::ALL, NOW), Plan::Scan(None)));
    assert_eq!(next(&lanes, &Topics::ALL), [lane("a")], "the other lane went to the first claim");
    lanes.scanned(NAMESPACE, &Topics::ALL, &[lane("b"), lane("a")], NOW, NOW);
    assert!(matches!(lanes.plan(NAMESPACE, &Topics::ALL, NOW), Plan::Serve));
    let mut both = next(&lanes, &Topics::ALL);
    both.sort();
    assert_eq!(both, ["a", "b"].map(lane), "in any order");
    lanes.remove_drained(NAMESPACE, &Topics::ALL, [&lane("a")]);
    assert_eq!(next(&lanes, &Topics::ALL), [lane("b")]);
    assert_eq!(lanes.next_lanes(Namespace::Ledger, &Topics::ALL, 64, 1, &HashSet::new()), []);
}

#[test]
fn a_scan_that_was_invalidated_does_not_count() {
    let lanes = LaneCache::default();
    record_scan(&lanes, "a", 1, 10);
    assert_eq!(from(&lanes, "a"), 11);
    let slow = lanes.starts(NAMESPACE, &[lane("a"), lane("b")], ScanFrom::Position, NOW);
    lanes.invalidate(NAMESPACE, lane("a"));
    lanes.invalidate(NAMESPACE, lane("b"));
    for (name, start) in ["a", "b"].iter().zip(slow) {
        lanes.record_scan(NAMESPACE, &lane(name), start, NumberRange { lowest: 11, highest: 20 }, NOW);
        assert_eq!(from(&lanes, name), 0, "{name}");
    }
    record_scan(&lanes, "a", 1, 10);
    let slow = lanes.starts(NAMESPACE, &[lane("a"), lane("c")], ScanFrom::Position, NOW);
    lanes.invalidate_all();
    for (name, start) in ["a", "c"].iter().zip(slow) {
        lanes.record_scan(NAMESPACE, &lane(name), start, NumberRange { lowest: 11, highest: 20 }, NOW);
        assert_eq!(from(&lanes, name), 0, "{name}");
    }
}

/// Holds: RULE-25.
#[test]
fn everything_is_bounded_and_evicted_lanes_are_found_again() {
    let lanes = LaneCache::default();
    for number in 0..QUEUES_MAX.max(READY_MAX).max(POSITIONS_MAX) + 10 {
        let name = number.to_string();
        lanes.mark_ready(NAMESPACE, lane(&name));
        lanes.plan(NAMESPACE, &only(&name), NOW);
        lanes.scanned(NAMESPACE, &only(&name), &[lane(&name)], NOW, NOW);
        record_scan(&lanes, &name, 1, 10);
        lanes.mark_ready(NAMESPACE, lane(&name));
    }
    let state = lanes.lock();
    assert_eq!(state.queues.len(), QUEUES_MAX);
    assert_eq!(state.queued, QUEUES_MAX);
    assert_eq!(state.ready[&NAMESPACE].len(), READY_MAX);
    assert_eq!(state.positions.len(), POSITIONS_MAX);
    drop(state);
    assert!(matches!(lanes.plan(NAMESPACE, &only("0"), NOW), Plan::Serve));
    assert_eq!(next(&lanes, &only("0")), [], "as if it were new");
}
