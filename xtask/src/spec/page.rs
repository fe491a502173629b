//! A requirement page. Each entry has an id as its heading, the text of the requirement and a list of fields, all
//! written by hand; the lines about tests below the list are generated.

use std::collections::BTreeMap;

use super::ids::Id;
use super::requirement::Requirement;

pub(super) type Requirements = BTreeMap<Id, Requirement>;

/// Start of the heading of an entry.
const HEADING: &str = "### ";
/// Start of a generated line.
const TESTS: &str = "- **Tests**";
/// Start of a field.
const FIELD: &str = "- **";

/// Parses the entries of the page with this name. The errors name the lines.
pub(super) fn parse(name: &str, text: &str) -> Result<Requirements, Vec<String>> {
    let mut requirements = Requirements::new();
    let mut problems = Vec::new();
    let mut current = None;
    for (index, line) in text.lines().enumerate() {
        let mut problem = |text: String| problems.push(format!("{name}.md:{}: {text}", index + 1));
        if let Some(heading) = line.strip_prefix(HEADING) {
            current = Id::parse(heading).filter(|id| id.page() == name);
            match current {
                None => problem(format!("`{heading}` is not an id of this page")),
                Some(id) if requirements.contains_key(&id) => {
                    problem(format!("{id} has two entries: merge them"));
                }
                Some(id) => drop(requirements.insert(id, Requirement::default())),
            }
        } else if line.starts_with('#') {
            current = None;
        } else if let Some(entry) = current.and_then(|id| requirements.get_mut(&id)) {
            read(entry, line).unwrap_or_else(problem);
        }
    }
    if problems.is_empty() { Ok(requirements) } else { Err(problems) }
}

fn read(entry: &mut Requirement, line: &str) -> Result<(), String> {
    if line.starts_with(TESTS) {
        return Ok(());
    }
    if let Some((name, text)) = line.strip_prefix(FIELD).and_then(|field| field.split_once(":**")) {
        return entry.field(name, text.trim());
    }
    entry.text.push_str(line);
    Ok(())
}

/// The page with its lines about tests replaced.
pub(super) fn fill(text: &str, tests: impl Fn(Id) -> Vec<String>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut current = None;
    for line in text.lines().filter(|line| !line.starts_with(TESTS)) {
        if line.starts_with('#') {
            finish(&mut lines, current.take(), &tests);
            current = line.strip_prefix(HEADING).and_then(Id::parse);
        }
        lines.push(line.to_owned());
    }
    finish(&mut lines, current, &tests);
    format!("{}\n", lines.join("\n").trim_end())
}

/// Ends an entry with its tests and an empty line.
fn finish(lines: &mut Vec<String>, id: Option<Id>, tests: impl Fn(Id) -> Vec<String>) {
    let Some(id) = id else { return };
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.extend(tests(id).into_iter().map(|line| format!("{TESTS} {line}")));
    lines.push(String::new());
}

#[cfg(test)]
mod tests {
    use super::super::requirement::Status;
    use super::*;

    const PAGE: &str = "# Inbox\n\nWords.\n\n## First\n\n### IBX-001\n\nIt counts.\n\n- **Status:** open\n\
        - **Tests** (memory): stale\n\n## Second\n\n### IBX-003\n\nIt adds.\n\n- **Status:** not testable\n- **Why:** So.\n";

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    #[test]
    fn parses_entries() {
        let entries = parse("inbox", PAGE).unwrap();
        assert_eq!(entries.len(), 2);
        let (first, second) = (&entries[&id("IBX-001")], &entries[&id("IBX-003")]);
        assert_eq!((first.text.as_str(), &first.status), ("It counts.", &Some(Status::Open)));
        assert_eq!((second.text.as_str(), second.why.as_deref()), ("It adds.", Some("So.")));
    }

    #[test]
    fn problems_name_their_lines() {
        for (text, words) in [
            ("### CMD-01\n", "inbox.md:1: `CMD-01` is not an id of this page"),
            ("### IBX-1\n", "inbox.md:1: `IBX-1` is not an id"),
            ("### IBX-001\n\n### IBX-001\n", "inbox.md:3: IBX-001 has two entries"),
            ("### IBX-001\n\nA.\n\n- **Status:** maybe\n", "inbox.md:5: `maybe` is not a status"),
        ] {
            let problems = parse("inbox", text).unwrap_err();
            assert!(problems[0].starts_with(words), "{problems:?}");
        }
    }

    #[test]
    fn tests_are_written_below_the_claims() {
        let tests =
            |found: Id| if found == id("IBX-001") { vec!["(memory): new".to_owned()] } else { vec![] };
        let filled = fill(PAGE, tests);
        assert_eq!(filled, PAGE.replace("stale", "new"));
        assert_eq!(fill(&filled, tests), filled);
    }
}
