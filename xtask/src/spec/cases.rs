//! Cases: public async functions that the macros `conformance!` and `faulty_cases!` turn into tests of every store.
//! A case that its macro does not list never runs, so it must not hold a requirement.

use std::collections::BTreeSet;

use crate::text::has_word;
use crate::workspace::File;

const CASES: [&str; 2] = ["crates/testkit/src/conformance", "crates/testkit/src/faulty/cases.rs"];
const TESTKIT: &str = "crates/testkit/src/";

/// Whether a file with this path may contain cases.
pub(super) fn may_be_in(path: &str) -> bool {
    CASES.iter().any(|cases| path.starts_with(cases))
}

/// A problem for each holder (`path::function`) that is a case but is not listed in the testkit.
pub(super) fn unlisted<'a>(files: &[File], holders: impl Iterator<Item = &'a String>) -> Vec<String> {
    let cases: BTreeSet<&String> = holders.filter(|holder| may_be_in(holder)).collect();
    let testkit: Vec<&File> = files.iter().filter(|file| file.path.starts_with(TESTKIT)).collect();
    let unlisted = cases.into_iter().filter(|case| {
        let name = case.rsplit("::").next().unwrap_or_default();
        !testkit.iter().any(|file| file.text.lines().any(|line| names(line, name)))
    });
    unlisted.map(|case| format!("{case} holds ids but never runs: add it to the list of its macro")).collect()
}

/// Whether a line of code uses the name and does not define it.
fn names(line: &str, name: &str) -> bool {
    !line.trim_start().starts_with("//") && has_word(line, name) && !has_word(line, &format!("fn {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_must_be_named_outside_its_definition() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/testkit/src/conformance.rs", "// forgotten\ncases! { claims: [listed] }\n"),
            file(
                "crates/testkit/src/conformance/claims.rs",
                "pub async fn listed() {}\npub async fn forgotten() {}\n",
            ),
            file("crates/core/src/lib.rs", "forgotten();\n"),
        ];
        let holders =
            ["listed", "forgotten"].map(|name| format!("crates/testkit/src/conformance/claims.rs::{name}"));
        let elsewhere = "crates/core/src/lib.rs::other".to_owned();
        let problems = unlisted(&files, holders.iter().chain([&elsewhere]));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("claims.rs::forgotten holds ids but never runs"));
    }
}
