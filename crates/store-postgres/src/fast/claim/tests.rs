//! The stages of a claim.

use oncebox_core::Topic;

use super::{CONFLICTS_MAX, Lane, Progress, Stage, StepOutcome};

fn lanes(names: &[&str]) -> Vec<Lane> {
    names.iter().map(|name| (Topic::new(*name).unwrap(), 0)).collect()
}

#[test]
fn queued_lanes_come_first_and_then_those_that_a_search_finds() {
    let mut progress = Progress::default();
    assert_eq!(progress.after(Stage::Queued, StepOutcome::Claimed), Stage::Queued);
    let found = progress.found(lanes(&["a"]));
    assert_eq!(found, Stage::Found(lanes(&["a"])));
    assert_eq!(progress.after(found.clone(), StepOutcome::Claimed), Stage::Search, "there may be more");
    assert_eq!(progress.after(found, StepOutcome::Empty), Stage::Done, "a claim with messages does not wait");
    assert_eq!(progress.found(Vec::new()), Stage::Done);
}

#[test]
fn an_empty_claim_waits_once_for_locked_messages() {
    let mut progress = Progress::default();
    let found = Stage::Found(lanes(&["a"]));
    assert_eq!(progress.after(found.clone(), StepOutcome::Empty), Stage::Wait(lanes(&["a"])));
    assert_eq!(progress.after(found, StepOutcome::Empty), Stage::Done);
}

#[test]
fn a_claim_that_always_loses_ends() {
    let mut progress = Progress::default();
    let found = Stage::Found(lanes(&["a"]));
    for _ in 0..CONFLICTS_MAX {
        assert_eq!(progress.after(found.clone(), StepOutcome::Lost), Stage::Search);
    }
    assert_eq!(progress.after(found, StepOutcome::Lost), Stage::Done);
}

#[test]
fn a_lane_whose_next_message_does_not_fit_is_skipped() {
    let mut progress = Progress::default();
    progress.unfit.extend(lanes(&["a"]));
    assert_eq!(progress.found(lanes(&["a", "b"])), Stage::Found(lanes(&["b"])));
    assert_eq!(progress.found(lanes(&["a"])), Stage::Done);
}
