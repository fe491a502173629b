//! Checks that the list of behaviours shared with `LiteBus` is complete and names existing tests.

use std::fs;
use std::path::Path;

const LIST: &str = include_str!("../../../../../docs/internals/litebus-behaviours.md");
const COUNT: usize = 63;

/// The tests that a row names: file and function.
fn tests(row: &str) -> Vec<(String, String)> {
    let held_by = row.split('|').nth(3).expect("a row has four cells");
    let names: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
    let here = names.iter().filter_map(|name| name.split_once("::"));
    let here = here.map(|(file, test)| (format!("oncebox/tests/it/commands/{file}.rs"), test.to_owned()));
    let elsewhere = names.windows(2).filter(|pair| pair[0].contains("/tests/"));
    here.chain(elsewhere.map(|pair| (pair[0].to_owned(), pair[1].to_owned()))).collect()
}

#[test]
fn every_behaviour_names_a_test_that_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder of crates");
    let rows: Vec<_> = LIST.lines().filter(|line| line.starts_with("| L-T")).collect();
    assert_eq!(rows.len(), COUNT);
    for (row, number) in rows.into_iter().zip(1..) {
        assert!(row.starts_with(&format!("| L-T{number} |")), "{row}");
        let tests = tests(row);
        assert!(!tests.is_empty(), "{row}");
        for (file, test) in tests {
            let text =
                fs::read_to_string(crates.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {test}(")), "{file} has no {test}");
        }
    }
}
