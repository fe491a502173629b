//! A claim's way through its stages.

use oncebox_core::Topic;

use super::{COLLISIONS_MAX, Course, Lane, Outcome, Stage};

fn lanes(names: &[&str]) -> Vec<Lane> {
    names.iter().map(|name| (Topic::new(*name).unwrap(), 0)).collect()
}

#[test]
fn lanes_in_turn_come_first_and_then_whatever_a_search_finds() {
    let mut course = Course::default();
    assert_eq!(course.after(Stage::Turns, Outcome::Some), Stage::Turns);
    let rest = course.found(lanes(&["a"]));
    assert_eq!(rest, Stage::Rest(lanes(&["a"])));
    assert_eq!(course.after(rest.clone(), Outcome::Some), Stage::Search, "there may be more");
    assert_eq!(course.after(rest, Outcome::Nothing), Stage::Done, "it has something: it does not wait");
    assert_eq!(course.found(Vec::new()), Stage::Done);
}

#[test]
fn a_claim_with_nothing_waits_once_for_what_is_locked() {
    let mut course = Course::default();
    let rest = Stage::Rest(lanes(&["a"]));
    assert_eq!(course.after(rest.clone(), Outcome::Nothing), Stage::Wait(lanes(&["a"])));
    assert_eq!(course.after(rest, Outcome::Nothing), Stage::Done);
}

#[test]
fn a_claim_that_always_loses_ends() {
    let mut course = Course::default();
    let rest = Stage::Rest(lanes(&["a"]));
    for _ in 0..COLLISIONS_MAX {
        assert_eq!(course.after(rest.clone(), Outcome::Lost), Stage::Search);
    }
    assert_eq!(course.after(rest, Outcome::Lost), Stage::Done);
}

#[test]
fn a_lane_whose_next_message_does_not_fit_is_passed_over() {
    let mut course = Course::default();
    course.unfit.extend(lanes(&["a"]));
    assert_eq!(course.found(lanes(&["a", "b"])), Stage::Rest(lanes(&["b"])));
    assert_eq!(course.found(lanes(&["a"])), Stage::Done);
}
