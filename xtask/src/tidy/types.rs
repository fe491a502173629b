//! Finds public types, traits and aliases that share a name across all crates.

use std::collections::BTreeMap;

use super::Finding;
use crate::workspace::File;

const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Every definition of a name after its first. Re-exports define nothing.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut first: BTreeMap<&str, String> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        for (number, line) in file.lines() {
            let Some(name) = defined(line) else { continue };
            if let Some(place) = first.get(name) {
                let text = format!("`{name}` is also the name of a type at {place}: rename one of them");
                findings.push(Finding::error(file, number, text));
            } else {
                first.insert(name, format!("{}:{number}", file.path));
            }
        }
    }
    findings
}

/// Whether the file is a source file of a crate, tests excluded.
fn is_source(file: &File) -> bool {
    let inside = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    let is_test = |path: &str| path.split('/').any(|part| part == "tests" || part == "tests.rs");
    file.is_rust() && inside.is_some_and(|(_, path)| path.starts_with("src/") && !is_test(path))
}

/// The public name that a line defines: `pub struct Name`, but not `pub(crate) struct Name`.
fn defined(line: &str) -> Option<&str> {
    let mut words =
        line.trim_start().strip_prefix("pub ")?.split_whitespace().skip_while(|word| *word == "unsafe");
    words.next().filter(|word| KEYWORDS.contains(word))?;
    let name = words.next()?;
    let end = name.find(|character: char| !character.is_alphanumeric() && character != '_');
    // In a macro the name may be `$name`.
    Some(&name[..end.unwrap_or(name.len())]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_defines_a_public_type_or_nothing() {
        for (line, expected) in [
            ("pub struct Lease {", Some("Lease")),
            ("    pub enum State<T> {", Some("State")),
            ("pub trait Store: Send {", Some("Store")),
            ("pub unsafe trait Zeroed {}", Some("Zeroed")),
            ("pub type Boxed<'a> = Pin<Box<A>>;", Some("Boxed")),
            ("pub struct Unit;", Some("Unit")),
            ("pub(crate) struct Lease {", None),
            ("struct Lease {", None),
            ("pub use core::Lease;", None),
            ("pub struct $name(u64);", None),
            ("pub fn lease() {}", None),
            ("/// pub struct Lease", None),
        ] {
            assert_eq!(defined(line), expected, "{line}");
        }
    }

    #[test]
    fn a_shared_name_is_listed_with_all_locations() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/src/lib.rs", "pub struct Lease;\npub struct Alone;\n"),
            file("crates/b/src/c.rs", "\npub enum Lease {}\n"),
            file("crates/b/src/c/tests.rs", "pub struct Alone;\n"),
            file("crates/b/tests/it/main.rs", "pub struct Alone;\n"),
            file("examples/a.rs", "pub struct Alone;\n"),
        ];
        let text = "`Lease` is also the name of a type at crates/a/src/lib.rs:1: rename one of them";
        assert_eq!(check(&files), [Finding::at("crates/b/src/c.rs", 2, text)]);
    }
}
