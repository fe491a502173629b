//! The cache is bounded, forgets, and never lets a read that is void count.

use std::collections::HashSet;
use std::time::Duration;

use oncebox_core::{Namespace, Topic, Topics};

use super::{From, INTERESTS_MAX, Lane, Lanes, NOTED_MAX, POSITIONS_MAX, Plan, Span};

const NOW: Duration = Duration::from_secs(60);
const SPACE: Namespace = Namespace::Inbox;

fn lane(name: &str) -> Lane {
    (Topic::new(name).unwrap(), 0)
}

fn only(name: &str) -> Topics {
    Topics::only([Topic::new(name).unwrap()]).unwrap()
}

fn turn(lanes: &Lanes, topics: &Topics) -> Vec<Lane> {
    lanes.take_turn(SPACE, topics, 64, 1, &HashSet::new())
}

fn from(lanes: &Lanes, name: &str) -> i64 {
    lanes.starts(SPACE, &[lane(name)], From::Position, NOW)[0].from
}

fn read(lanes: &Lanes, name: &str, lowest: i64, highest: i64) {
    let start = lanes.starts(SPACE, &[lane(name)], From::Position, NOW)[0];
    lanes.read(SPACE, &lane(name), start, Span { lowest, highest }, NOW);
}

#[test]
fn a_claim_is_told_of_what_was_noted_for_its_topics() {
    let lanes = Lanes::default();
    for name in ["a", "b"] {
        lanes.note(SPACE, lane(name));
    }
    assert!(matches!(lanes.plan(SPACE, &only("b"), NOW), Plan::Scan(None)), "there may be others");
    assert_eq!(turn(&lanes, &only("b")), [lane("b")]);
    assert!(matches!(lanes.plan(SPACE, &Topics::ALL, NOW), Plan::Scan(None)));
    assert_eq!(turn(&lanes, &Topics::ALL), [lane("a")], "the other one was told to somebody");
    lanes.scanned(SPACE, &Topics::ALL, &[lane("b"), lane("a")], NOW, NOW);
    assert!(matches!(lanes.plan(SPACE, &Topics::ALL, NOW), Plan::Serve));
    let mut both = turn(&lanes, &Topics::ALL);
    both.sort();
    assert_eq!(both, ["a", "b"].map(lane), "either of them first");
    lanes.drained(SPACE, &Topics::ALL, [&lane("a")]);
    assert_eq!(turn(&lanes, &Topics::ALL), [lane("b")]);
    assert_eq!(lanes.take_turn(Namespace::Ledger, &Topics::ALL, 64, 1, &HashSet::new()), []);
}

#[test]
fn a_read_that_something_came_back_under_does_not_count() {
    let lanes = Lanes::default();
    read(&lanes, "a", 1, 10);
    assert_eq!(from(&lanes, "a"), 11);
    let slow = lanes.starts(SPACE, &[lane("a"), lane("b")], From::Position, NOW);
    lanes.lower(SPACE, lane("a"));
    lanes.lower(SPACE, lane("b"));
    for (name, start) in ["a", "b"].iter().zip(slow) {
        lanes.read(SPACE, &lane(name), start, Span { lowest: 11, highest: 20 }, NOW);
        assert_eq!(from(&lanes, name), 0, "{name}");
    }
    read(&lanes, "a", 1, 10);
    let slow = lanes.starts(SPACE, &[lane("a"), lane("c")], From::Position, NOW);
    lanes.lower_all();
    for (name, start) in ["a", "c"].iter().zip(slow) {
        lanes.read(SPACE, &lane(name), start, Span { lowest: 11, highest: 20 }, NOW);
        assert_eq!(from(&lanes, name), 0, "{name}");
    }
}

/// Holds: RULE-25.
#[test]
fn everything_is_bounded_and_what_is_forgotten_is_found_anew() {
    let lanes = Lanes::default();
    for number in 0..INTERESTS_MAX.max(NOTED_MAX).max(POSITIONS_MAX) + 10 {
        let name = number.to_string();
        lanes.note(SPACE, lane(&name));
        lanes.plan(SPACE, &only(&name), NOW);
        lanes.scanned(SPACE, &only(&name), &[lane(&name)], NOW, NOW);
        read(&lanes, &name, 1, 10);
        lanes.note(SPACE, lane(&name));
    }
    let known = lanes.lock();
    assert_eq!(known.interests.len(), INTERESTS_MAX);
    assert_eq!(known.queued, INTERESTS_MAX);
    assert_eq!(known.noted[&SPACE].len(), NOTED_MAX);
    assert_eq!(known.positions.len(), POSITIONS_MAX);
    drop(known);
    assert!(matches!(lanes.plan(SPACE, &only("0"), NOW), Plan::Serve));
    assert_eq!(turn(&lanes, &only("0")), [], "as if it were new");
}
