//! Checks the names of Rust files and their module documentation.

use super::Finding;
use crate::workspace::File;

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.is_rust() {
        return findings;
    }
    if file.path.rsplit('/').next() == Some("mod.rs") {
        findings.push(Finding::error(
            file,
            1,
            "mod.rs: name the file after its module and move it next to the folder",
        ));
    }
    if !file.text.starts_with("//!") {
        findings.push(Finding::error(file, 1, "the file has no module documentation: start it with `//!`"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn a_file_starts_with_documentation_and_is_not_named_mod() {
        assert_eq!(count("crates/a/src/lease.rs", "//! Leases.\n"), 0);
        assert_eq!(count("crates/a/build.rs", "fn main() {}\n"), 1);
        assert_eq!(count("crates/a/src/lease/mod.rs", "//! Leases.\n"), 1);
        assert_eq!(count("crates/a/src/lease/mod.rs", ""), 2);
        assert_eq!(count("crates/a/src/mod.sql", ""), 0);
    }
}
