//! Counts that may go down and never up. `xtask/ratchet.toml` has today's numbers: more of something is an error, and so is
//! fewer until `cargo xtask tidy --bless` has lowered the number, so that the file is always true.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use super::{Finding, Weight};
use crate::failure::{Failure, Result};

pub(super) const PATH: &str = "xtask/ratchet.toml";
const HEADER: &str = "\
# What `cargo xtask tidy` still tolerates, and how much of it. No number may grow; the goal is an empty file.
# Lowered by `cargo xtask tidy --bless`. The words and what to write in their place: xtask/words.toml.
";
/// With more places than this, a finding lists none.
const PLACES_MAX: usize = 12;

/// Things of one kind that are counted, by name.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// Where each is found today, as `path:line`.
    pub(super) found: BTreeMap<String, Vec<String>>,
    /// What to do about one that is new.
    pub(super) advice: BTreeMap<String, String>,
    pub(super) advice_default: &'static str,
    /// How a number that is larger than today's is reported.
    pub(super) stale: Weight,
}

/// Title, name, number.
type Numbers = BTreeMap<String, BTreeMap<String, usize>>;

pub(super) fn check(text: &str, sections: &[Section]) -> Result<Vec<Finding>> {
    let numbers: Numbers = toml::from_str(text).map_err(|error| Failure::new(format!("{PATH}: {error}")))?;
    let none = BTreeMap::new();
    let known = |title: &String| sections.iter().any(|section| section.title == *title);
    let unknown = numbers.keys().filter(|title| !known(title));
    let mut findings: Vec<Finding> = unknown
        .map(|title| Finding::at(PATH, 1, format!("nothing is counted as `{title}`: remove it")))
        .collect();
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
    let places = section.found.get(name).map_or(&[][..], Vec::as_slice);
    let today = places.len();
    let start = format!("{}: `{name}` occurs {today} times, tolerated are {tolerated}", section.title);
    if today > tolerated {
        let advice = section.advice.get(name).map_or(section.advice_default, String::as_str);
        let places = match today {
            ..=PLACES_MAX => places.join(", "),
            _ => "`git diff` shows what is new".to_owned(),
        };
        return Some(Finding::at(PATH, 1, format!("{start}: {advice} ({places})")));
    }
    let stale = || Finding::at(PATH, 1, format!("{start}: lower the number with `cargo xtask tidy --bless`"));
    (today < tolerated).then(|| Finding { weight: section.stale, ..stale() })
}

/// The file with today's numbers.
pub(super) fn text(sections: &[Section]) -> String {
    let mut text = HEADER.to_owned();
    for section in sections {
        let _ = write!(text, "\n[{}]\n", section.title);
        for (name, places) in &section.found {
            let bare = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
            let quote = if bare { "" } else { "\"" };
            let _ = writeln!(text, "{quote}{name}{quote} = {}", places.len());
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
        let places = |count| (0..count).map(|line| format!("a.rs:{line}")).collect();
        Section {
            title: "code",
            found: counts.iter().map(|(name, count)| ((*name).to_owned(), places(*count))).collect(),
            advice: BTreeMap::from([("red".to_owned(), "write `blue`".to_owned())]),
            advice_default: "change it",
            stale: Weight::Error,
        }
    }

    fn texts(file: &str, section: Section) -> Vec<String> {
        check(file, &[section]).unwrap().into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn today_s_numbers_pass() {
        let file = text(&[section(&[("red", 2), ("so red", 1)])]);
        assert!(file.ends_with("\n[code]\nred = 2\n\"so red\" = 1\n"), "{file}");
        assert_eq!(texts(&file, section(&[("red", 2), ("so red", 1)])), [""; 0]);
    }

    #[test]
    fn one_more_is_named_with_what_to_do_and_where() {
        assert_eq!(
            texts("[code]\nred = 1\n", section(&[("red", 2)])),
            ["code: `red` occurs 2 times, tolerated are 1: write `blue` (a.rs:0, a.rs:1)"]
        );
        assert_eq!(
            texts("", section(&[("green", 13)])),
            ["code: `green` occurs 13 times, tolerated are 0: change it (`git diff` shows what is new)"]
        );
    }

    #[test]
    fn one_fewer_wants_the_number_lowered() {
        let expected =
            "code: `red` occurs 1 times, tolerated are 2: lower the number with `cargo xtask tidy --bless`";
        assert_eq!(texts("[code]\nred = 2\n", section(&[("red", 1)])), [expected]);
        assert_eq!(texts("[code]\nred = 2\n", section(&[])).len(), 1);
        let lenient = Section { stale: Weight::Warning, ..section(&[]) };
        assert_eq!(check("[code]\nred = 2\n", &[lenient]).unwrap()[0].weight, Weight::Warning);
    }

    #[test]
    fn an_unknown_heading_and_a_broken_file_are_named() {
        assert_eq!(texts("[cod]\nred = 2\n", section(&[])), ["nothing is counted as `cod`: remove it"]);
        check("[code", &[]).unwrap_err();
    }
}
