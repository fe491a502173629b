//! Violations of the guarantees are detected.

use std::sync::Arc;
use std::time::Duration;

use super::{Phase, Tracker};
use crate::demo::context::Context;
use crate::demo::event::{Answer, Event};
use crate::demo::scenario::Scenario;

const WORKER: &str = "worker A";

fn tracker(events: impl IntoIterator<Item = Event>) -> Tracker {
    let mut tracker = Tracker::new(Arc::new(Context::new(Scenario::generate(16, 1))));
    for event in events {
        tracker.record(Duration::ZERO, event);
    }
    tracker
}

fn accepted(id: &str, duplicate: bool) -> Event {
    Event::Sent { index: 0, answer: Answer::Accepted { msg_id: id.to_owned(), duplicate } }
}

fn started(attempt: u32) -> Event {
    Event::Started { index: 0, worker: WORKER, attempt }
}

fn acked(attempt: u32) -> Event {
    Event::Acked { index: 0, worker: WORKER, attempt }
}

fn dead(at: &str) -> Event {
    Event::Dead { index: 0, reason: None, error: String::new(), at: at.to_owned() }
}

#[test]
fn an_ordinary_run_has_no_violation() {
    let handled = Event::Handled { index: 0, worker: WORKER };
    let tracker = tracker([started(1), accepted("a", true), handled, acked(1), accepted("a", true)]);
    assert_eq!((tracker.violations.len(), tracker.totals.accepted, tracker.totals.duplicates), (0, 1, 1));
    assert!(tracker.is_settled());
}

#[test]
fn every_broken_guarantee_is_a_violation() {
    let refused = Event::Sent { index: 0, answer: Answer::Refused { msg_id: "b".to_owned() } };
    for (events, violation) in [
        (vec![accepted("a", false), accepted("b", true)], "another id"),
        (vec![accepted("a", false), refused], "another id"),
        (vec![accepted("a", false), accepted("a", false)], "accepted twice"),
        (vec![accepted("a", false), started(1), acked(1), started(2)], "after its acknowledgement"),
        (vec![accepted("a", false), started(1), started(2), acked(1)], "received it later"),
        (vec![accepted("a", false), started(1), acked(1), dead("T")], "dead letter"),
        (vec![accepted("a", false), started(1), dead("T"), acked(1)], "dead letter"),
    ] {
        let violations = tracker(events).violations;
        assert!(violations.len() == 1 && violations[0].contains(violation), "{violation}: {violations:?}");
    }
}

#[test]
fn a_late_worker_and_an_old_listing_change_nothing() {
    let late = Event::Handled { index: 0, worker: WORKER };
    let mut tracker = tracker([accepted("a", false), started(1), dead("T"), late]);
    assert_eq!((tracker.dead(), tracker.is_settled()), (1, true));
    tracker.record(Duration::ZERO, Event::Redriven { index: 0 });
    tracker.record(Duration::ZERO, dead("T"));
    assert_eq!((&tracker.messages[0].phase, tracker.totals.dead), (&Phase::Redriven, 1));
}
