//! Behaviours of the inbox that Oncebox was modelled on: one test for each, with its number in
//! `docs/internals/inbox-behaviours.md`. Where Oncebox differs on purpose, the test shows how.

mod receiving;
mod working;

use std::collections::BTreeSet;

const SOURCES: [&str; 2] = [include_str!("replays/receiving.rs"), include_str!("replays/working.rs")];
const TABLE: &str = include_str!("../../../../docs/internals/inbox-behaviours.md");

#[test]
fn the_table_lists_every_replayed_behaviour() {
    let lines = SOURCES.into_iter().flat_map(str::lines);
    let tests = lines.filter_map(|line| line.strip_prefix("fn ")?.split_once("()"));
    let tests: BTreeSet<_> = tests.map(|(name, _)| name).filter(|name| name.starts_with("i_t")).collect();
    let listed: BTreeSet<_> = TABLE.split('`').filter(|text| text.starts_with("i_t")).collect();
    assert_eq!(tests, listed);
    assert_eq!(tests.len(), 28);
}
