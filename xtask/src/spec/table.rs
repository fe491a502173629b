//! Requirements with their tests: problems of the claims, the generated lines about tests, and the counts.

use std::collections::{BTreeMap, BTreeSet};

use super::ids::Id;
use super::page::Requirements;
use super::requirement::Status;
use super::stores::Stores;

/// The tests that hold each id, with the stores that they run on.
pub(super) type Holders = BTreeMap<Id, BTreeMap<String, Stores>>;

/// Path from the pages to the root of the workspace.
const ROOT: &str = "../../../";

/// All requirements and their tests.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) holders: Holders,
    pub(super) requirements: Requirements,
}

/// Number of ids by status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    held: usize,
    changed: usize,
    partly: usize,
    open: usize,
    not_testable: usize,
}

impl Table {
    /// Entries that are missing or incomplete, and claims that no test supports, one line each.
    pub(super) fn problems(&self) -> Vec<String> {
        Id::all()
            .filter_map(|id| self.problem(id).map(|problem| format!("{}.md: {id} {problem}", id.page())))
            .collect()
    }

    fn problem(&self, id: Id) -> Option<String> {
        let Some(entry) = self.requirements.get(&id) else {
            return Some("has no entry: write its text and its status".to_owned());
        };
        if let Some(problem) = entry.problem() {
            return Some(problem.to_owned());
        }
        let status = entry.status.as_ref()?;
        match (status.is_claimed(), self.holders.contains_key(&id)) {
            (false, false) => return None,
            (false, true) => {
                return Some("is named by tests: set its status to held, changed or partly".to_owned());
            }
            (true, false) => {
                return Some("is claimed, but no test names it: write one or change the status".to_owned());
            }
            (true, true) => {}
        }
        let run = self.stores(id);
        let missing: Vec<String> =
            status.claimed_stores().difference(&run).map(ToString::to_string).collect();
        (!missing.is_empty()).then(|| format!("is claimed, but no test of it runs on {}", missing.join(", ")))
    }

    /// The stores that some test of the id runs on.
    fn stores(&self, id: Id) -> Stores {
        self.holders.get(&id).into_iter().flat_map(BTreeMap::values).flatten().copied().collect()
    }

    /// The tests of an id, a line for each set of stores.
    pub(super) fn tests(&self, id: Id) -> Vec<String> {
        let mut by_stores: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (holder, stores) in self.holders.get(&id).into_iter().flatten() {
            by_stores.entry(listed(stores)).or_default().insert(linked(holder));
        }
        let line = |(stores, links): (String, BTreeSet<String>)| {
            format!("({stores}): {}", links.into_iter().collect::<Vec<_>>().join(", "))
        };
        by_stores.into_iter().map(line).collect()
    }

    /// The counts of each page and the totals, as a table.
    pub(super) fn summary(&self) -> String {
        let mut text =
            "| page | held | changed | partly | open | not testable |\n|---|--:|--:|--:|--:|--:|\n"
                .to_owned();
        let mut pages: Vec<&str> = Id::all().map(Id::page).collect();
        pages.dedup();
        for page in pages {
            let link = format!("[{page}]({page}.md)");
            text += &self.counts(|id| id.page() == page).row(&link);
        }
        text + &self.counts(|_| true).row("all")
    }

    /// The totals in one line.
    pub(super) fn totals(&self) -> String {
        let Counts { held, changed, partly, open, not_testable } = self.counts(|_| true);
        let total = held + changed + partly + open + not_testable;
        format!(
            "{total} ids: {held} held, {changed} changed, {partly} partly, {open} open, {not_testable} not testable"
        )
    }

    fn counts(&self, counted: impl Fn(Id) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (_, entry) in self.requirements.iter().filter(|(id, _)| counted(**id)) {
            match entry.status {
                Some(Status::Held(_)) => counts.held += 1,
                Some(Status::Changed(_)) => counts.changed += 1,
                Some(Status::Partly(_)) => counts.partly += 1,
                Some(Status::NotTestable) => counts.not_testable += 1,
                Some(Status::Open) | None => counts.open += 1,
            }
        }
        counts
    }
}

impl Counts {
    fn row(self, title: &str) -> String {
        let Self { held, changed, partly, open, not_testable } = self;
        format!("| {title} | {held} | {changed} | {partly} | {open} | {not_testable} |\n")
    }
}

/// The name of a test, linked to its file.
fn linked(holder: &str) -> String {
    let (path, name) = holder.rsplit_once("::").unwrap_or((holder, holder));
    format!("[`{name}`]({ROOT}{path})")
}

fn listed(stores: &Stores) -> String {
    if stores.is_empty() {
        return "no store".to_owned();
    }
    stores.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::requirement::Requirement;
    use super::super::stores::{EVERY, Store};
    use super::*;

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    fn entry(status: Status) -> Requirement {
        let text = |wanted: bool| wanted.then(|| "A reason.".to_owned());
        let differs = matches!(status, Status::Changed(_) | Status::NotTestable);
        Requirement {
            text: "It works.".to_owned(),
            missing: text(matches!(status, Status::Partly(_) | Status::Open)),
            instead: text(differs),
            why: text(differs),
            status: Some(status),
        }
    }

    fn table() -> Table {
        let test = |name: &str, stores: &[Store]| (name.to_owned(), stores.iter().copied().collect());
        let holders = [
            (id("IBX-001"), [test("b.rs::two", &EVERY), test("a.rs::one", &[])].into()),
            (id("IBX-004"), [test("a.rs::one", &[Store::Memory])].into()),
        ];
        let mut requirements: Requirements = Id::all().map(|id| (id, entry(Status::Open))).collect();
        requirements.insert(id("IBX-001"), entry(Status::Changed(EVERY.into())));
        requirements.insert(id("IBX-003"), entry(Status::NotTestable));
        requirements.insert(id("IBX-004"), entry(Status::Partly(EVERY.into())));
        Table { holders: holders.into(), requirements }
    }

    /// The problems if the id has this status.
    fn claimed(text: &str, status: Status) -> String {
        let mut table = table();
        table.requirements.insert(id(text), entry(status));
        table.problems().join("\n")
    }

    #[test]
    fn tests_are_linked_by_stores() {
        let lines = [
            "(memory, embedded, postgres): [`two`](../../../b.rs)".to_owned(),
            "(no store): [`one`](../../../a.rs)".to_owned(),
        ];
        assert_eq!(table().tests(id("IBX-001")), lines);
        assert_eq!(table().tests(id("IBX-002")), [""; 0]);
    }

    #[test]
    fn ids_are_counted_by_page() {
        let summary = table().summary();
        for line in [
            "| [inbox](inbox.md) | 0 | 1 | 1 | 127 | 1 |",
            "| [mailbox](mailbox.md) | 0 | 0 | 0 | 48 | 0 |",
            "| all | 0 | 1 | 1 | 240 | 1 |",
        ] {
            assert!(summary.lines().any(|found| found == line), "{line}\n{summary}");
        }
        assert_eq!(table().totals(), "243 ids: 0 held, 1 changed, 1 partly, 240 open, 1 not testable");
    }

    #[test]
    fn every_id_has_an_entry_with_a_text_and_a_status() {
        assert_eq!(table().problems(), [""; 0]);
        let mut table = table();
        table.requirements.remove(&id("IBX-004"));
        table.requirements.remove(&id("RULE-32"));
        table.requirements.insert(id("CMD-01"), Requirement::default());
        let without_status = Requirement { text: "It works.".to_owned(), ..Requirement::default() };
        table.requirements.insert(id("CMD-02"), without_status);
        let problems = table.problems();
        let expected = [
            "inbox.md: IBX-004 has no entry",
            "commands.md: CMD-01 has no text",
            "commands.md: CMD-02 has no status",
            "rules.md: RULE-32 has no entry",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        assert!(
            problems.iter().zip(expected).all(|(problem, start)| problem.starts_with(start)),
            "{problems:?}"
        );
    }

    /// Holds: RULE-30.
    #[test]
    fn a_claim_needs_a_test_on_every_store_it_names() {
        assert_eq!(claimed("IBX-004", Status::Held([Store::Memory].into())), "");
        assert_eq!(claimed("IBX-004", Status::Held([].into())), "");
        for every in [Status::Held(EVERY.into()), Status::Changed(EVERY.into())] {
            assert!(claimed("IBX-004", every).ends_with("no test of it runs on embedded, postgres"));
        }
        for untested in [Status::Held([].into()), Status::Changed([].into()), Status::Partly([].into())] {
            assert!(claimed("IBX-002", untested).contains("IBX-002 is claimed, but no test names it"));
        }
    }

    #[test]
    fn ids_named_by_tests_must_be_claimed() {
        for unclaimed in [Status::Open, Status::NotTestable] {
            assert!(claimed("IBX-004", unclaimed).contains("IBX-004 is named by tests"));
        }
    }
}
