//! What the inbox that ours was designed after does, one test per behaviour, by the number it has in
//! `docs/internals/inbox-behaviours.md`. Where ours does something else on purpose, the test shows what.

mod receiving;
mod working;

use std::collections::BTreeSet;

const SOURCES: [&str; 2] = [include_str!("replays/receiving.rs"), include_str!("replays/working.rs")];
const TABLE: &str = include_str!("../../../../docs/internals/inbox-behaviours.md");

#[test]
fn the_table_names_every_replay() {
    let lines = SOURCES.into_iter().flat_map(str::lines);
    let tests = lines.filter_map(|line| line.strip_prefix("fn ")?.split_once("()"));
    let tests: BTreeSet<_> = tests.map(|(name, _)| name).filter(|name| name.starts_with("i_t")).collect();
    let told: BTreeSet<_> = TABLE.split('`').filter(|text| text.starts_with("i_t")).collect();
    assert_eq!(tests, told);
    assert_eq!(tests.len(), 28);
}
