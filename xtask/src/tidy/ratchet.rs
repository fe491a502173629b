//! Counts that may only decrease. `xtask/ratchet.toml` contains the current numbers. A higher count is an error, and so
//! is a lower one until `cargo xtask tidy --bless` has updated the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use super::{Finding, Severity};
use crate::failure::{Failure, Result};

pub(super) const PATH: &str = "xtask/ratchet.toml";
const HEADER: &str = "\
# What `cargo xtask tidy` still tolerates, and how much of it. No number may grow; the goal is an empty file.
# Lowered by `cargo xtask tidy --bless`. The words and what to write in their place: xtask/words.toml.
";
/// A finding with more locations than this lists none.
const LOCATIONS_MAX: usize = 12;

/// Counted names of one kind.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// The locations of each name, as `path:line`.
    pub(super) found: BTreeMap<String, Vec<String>>,
    /// What to do about a new occurrence.
    pub(super) advice: BTreeMap<String, String>,
    pub(super) advice_default: &'static str,
    /// The severity of a number that is higher than the current count.
    pub(super) stale: Severity,
}

/// Title, name, number.
type Numbers = BTreeMap<String, BTreeMap<String, usize>>;

pub(super) fn check(text: &str, sections: &[Section]) -> Result<Vec<Finding>> {
    let numbers: Numbers = toml::from_str(text).map_err(|error| Failure::new(format!("{PATH}: {error}")))?;
    let none = BTreeMap::new();
    let known = |title: &String| sections.iter().any(|section| section.title == *title);
    let unknown = numbers.keys().filter(|title| !known(title));
    let mut findings: Vec<Finding> =
        unknown.map(|title| Finding::at(PATH, 1, format!("unknown section `{title}`: remove it"))).collect();
    for section in sections {
        findings.extend(compare(section, numbers.get(section.title).unwrap_or(&none)));
    }
    Ok(findings)
}

fn compare(section: &Section, tolerated: &BTreeMap<String, usize>) -> Vec<Finding> {
    let names: BTreeSet<&String> = section.found.keys().chain(tolerated.keys()).collect();
    names.into_iter().filter_map(|name| compare_one(section, name, tolerated.get(name).copied())).collect()
}

fn compare_one(section: &Section, name: &str, tolerated: Option<usize>) -> Option<Finding> {
    let tolerated = tolerated.unwrap_or_default();
    let locations = section.found.get(name).map_or(&[][..], Vec::as_slice);
    let count = locations.len();
    let start = format!("{}: `{name}` occurs {count} times, {tolerated} are tolerated", section.title);
    if count > tolerated {
        let advice = section.advice.get(name).map_or(section.advice_default, String::as_str);
        let locations = match count {
            ..=LOCATIONS_MAX => locations.join(", "),
            _ => "`git diff` shows what is new".to_owned(),
        };
        return Some(Finding::at(PATH, 1, format!("{start}: {advice} ({locations})")));
    }
    let stale = || Finding::at(PATH, 1, format!("{start}: lower the number with `cargo xtask tidy --bless`"));
    (count < tolerated).then(|| Finding { severity: section.stale, ..stale() })
}

/// The contents of the file with the current counts.
pub(super) fn text(sections: &[Section]) -> String {
    let mut text = HEADER.to_owned();
    for section in sections {
        let _ = write!(text, "\n[{}]\n", section.title);
        for (name, locations) in &section.found {
            let bare = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
            let quote = if bare { "" } else { "\"" };
            let _ = writeln!(text, "{quote}{name}{quote} = {}", locations.len());
        }
    }
    text
}

impl fmt::Display for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.found.values().map(Vec::len).sum::<usize>(), self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(counts: &[(&str, usize)]) -> Section {
        let locations = |count| (0..count).map(|line| format!("a.rs:{line}")).collect();
        Section {
            title: "code",
            found: counts.iter().map(|(name, count)| ((*name).to_owned(), locations(*count))).collect(),
            advice: BTreeMap::from([("red".to_owned(), "write `blue`".to_owned())]),
            advice_default: "change it",
            stale: Severity::Error,
        }
    }

    fn texts(file: &str, section: Section) -> Vec<String> {
        check(file, &[section]).unwrap().into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn current_numbers_pass() {
        let file = text(&[section(&[("red", 2), ("so red", 1)])]);
        assert!(file.ends_with("\n[code]\nred = 2\n\"so red\" = 1\n"), "{file}");
        assert_eq!(texts(&file, section(&[("red", 2), ("so red", 1)])), [""; 0]);
    }

    #[test]
    fn a_higher_count_is_reported_with_advice_and_locations() {
        assert_eq!(
            texts("[code]\nred = 1\n", section(&[("red", 2)])),
            ["code: `red` occurs 2 times, 1 are tolerated: write `blue` (a.rs:0, a.rs:1)"]
        );
        assert_eq!(
            texts("", section(&[("green", 13)])),
            ["code: `green` occurs 13 times, 0 are tolerated: change it (`git diff` shows what is new)"]
        );
    }

    #[test]
    fn a_lower_count_must_be_written() {
        let expected =
            "code: `red` occurs 1 times, 2 are tolerated: lower the number with `cargo xtask tidy --bless`";
        assert_eq!(texts("[code]\nred = 2\n", section(&[("red", 1)])), [expected]);
        assert_eq!(texts("[code]\nred = 2\n", section(&[])).len(), 1);
        let lenient = Section { stale: Severity::Warning, ..section(&[]) };
        assert_eq!(check("[code]\nred = 2\n", &[lenient]).unwrap()[0].severity, Severity::Warning);
    }

    #[test]
    fn unknown_sections_and_invalid_files_are_reported() {
        assert_eq!(texts("[cod]\nred = 2\n", section(&[])), ["unknown section `cod`: remove it"]);
        check("[code", &[]).unwrap_err();
    }
}
