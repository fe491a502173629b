//! What must not happen is noticed.

use std::sync::Arc;
use std::time::Duration;

use super::{Phase, Story};
use crate::demo::event::{Answer, Event};
use crate::demo::script::Script;
use crate::demo::world::World;

const WORKER: &str = "worker A";

fn story(events: impl IntoIterator<Item = Event>) -> Story {
    let mut story = Story::new(Arc::new(World::new(Script::write(16, 1))));
    for event in events {
        story.tell(Duration::ZERO, event);
    }
    story
}

fn taken(id: &str, duplicate: bool) -> Event {
    Event::Arrived { part: 0, answer: Answer::Taken { msg_id: id.to_owned(), duplicate } }
}

fn started(attempt: u32) -> Event {
    Event::Started { part: 0, worker: WORKER, attempt }
}

fn acked(attempt: u32) -> Event {
    Event::Acked { part: 0, worker: WORKER, attempt }
}

fn dead(at: &str) -> Event {
    Event::Dead { part: 0, reason: None, error: String::new(), at: at.to_owned() }
}

#[test]
fn an_ordinary_life_has_no_fault() {
    let handled = Event::Handled { part: 0, worker: WORKER };
    let story = story([started(1), taken("a", true), handled, acked(1), taken("a", true)]);
    assert_eq!((story.faults.len(), story.tally.accepted, story.tally.duplicates), (0, 1, 1));
    assert!(story.is_over());
}

#[test]
fn what_must_not_happen_is_a_fault() {
    let refused = Event::Arrived { part: 0, answer: Answer::Refused { msg_id: "b".to_owned() } };
    for (events, fault) in [
        (vec![taken("a", false), taken("b", true)], "another id"),
        (vec![taken("a", false), refused], "another id"),
        (vec![taken("a", false), taken("a", false)], "taken in twice"),
        (vec![taken("a", false), started(1), acked(1), started(2)], "after its acknowledgement"),
        (vec![taken("a", false), started(1), started(2), acked(1)], "taken it over"),
        (vec![taken("a", false), started(1), acked(1), dead("T")], "dead letter"),
        (vec![taken("a", false), started(1), dead("T"), acked(1)], "dead letter"),
    ] {
        let faults = story(events).faults;
        assert!(faults.len() == 1 && faults[0].contains(fault), "{fault}: {faults:?}");
    }
}

#[test]
fn a_late_worker_and_an_old_listing_change_nothing() {
    let late = Event::Handled { part: 0, worker: WORKER };
    let mut story = story([taken("a", false), started(1), dead("T"), late]);
    assert_eq!((story.dead(), story.is_over()), (1, true));
    story.tell(Duration::ZERO, Event::Redriven { part: 0 });
    story.tell(Duration::ZERO, dead("T"));
    assert_eq!((&story.acts[0].phase, story.tally.dead), (&Phase::Redriven, 1));
}
