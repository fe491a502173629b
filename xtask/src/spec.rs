//! `cargo xtask spec`: the requirement pages, and the tests that hold each requirement, from the tests' doc comments.

mod cases;
mod holds;
mod ids;
mod page;
mod requirement;
mod stores;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use crate::failure::{Failure, Result};
use crate::workspace::{File, Workspace};
use page::Requirements;
use stores::Code;
use table::{Holders, Table};

/// The folder of the pages.
const FOLDER: &str = "docs/reference/requirements";
const PAGES: [&str; 5] = ["inbox", "commands", "ledger", "mailbox", "rules"];
/// The overview page.
const OVERVIEW: &str = "README";
/// The overview below this line is generated.
const MARKER: &str = "<!-- Written by `cargo xtask spec` from here on. -->";
/// The folders that contain tests.
const FOLDERS: [&str; 3] = ["crates", "xtask", "examples"];

/// The pages, and the requirements with their tests.
struct Spec {
    /// Paths and texts, the overview last.
    pages: Vec<(String, String)>,
    table: Table,
}

/// Regenerates the generated parts of the pages.
pub(crate) fn write(workspace: &Workspace) -> Result<String> {
    let spec = Spec::read(workspace)?;
    for (path, _, generated) in spec.generate()? {
        workspace.write(&path, &generated)?;
    }
    Ok(format!("spec: {}", spec.table.totals()))
}

/// Fails if an id has no text or no status, if a claim has no test, or if a page is stale.
pub(crate) fn check(workspace: &Workspace) -> Result<String> {
    Spec::read(workspace)?.check()
}

impl Spec {
    fn read(workspace: &Workspace) -> Result<Self> {
        let (mut pages, mut requirements, mut problems) = (Vec::new(), Requirements::new(), Vec::new());
        for name in PAGES {
            let path = format!("{FOLDER}/{name}.md");
            let text = workspace.read(&path)?;
            match page::parse(name, &text) {
                Ok(found) => requirements.extend(found),
                Err(found) => problems.extend(found),
            }
            pages.push((path, text));
        }
        let overview = format!("{FOLDER}/{OVERVIEW}.md");
        let text = workspace.read(&overview)?;
        pages.push((overview, text));
        let holders = holders(&workspace.files()?, &mut problems);
        if problems.is_empty() {
            Ok(Self { pages, table: Table { holders, requirements } })
        } else {
            Err(Failure::new(problems.join("\n")))
        }
    }

    fn check(&self) -> Result<String> {
        let problems = self.table.problems();
        if !problems.is_empty() {
            return Err(Failure::new(format!("{FOLDER}:\n{}", problems.join("\n"))));
        }
        let stale = self.generate()?.into_iter().find(|(_, found, generated)| found != generated);
        if let Some((path, ..)) = stale {
            return Err(Failure::new(format!("{path} is stale: run `cargo xtask spec` and commit it")));
        }
        Ok(format!("spec: {}", self.table.totals()))
    }

    /// For every page: its path, its text, and its regenerated text.
    fn generate(&self) -> Result<Vec<(String, String, String)>> {
        let mut generated = Vec::new();
        for (path, text) in &self.pages {
            let filled = if path.ends_with(&format!("{OVERVIEW}.md")) {
                let (by_hand, _) = text
                    .split_once(MARKER)
                    .ok_or_else(|| Failure::new(format!("{path} has no line `{MARKER}`: restore it")))?;
                format!("{by_hand}{MARKER}\n\n{}", self.table.summary())
            } else {
                page::fill(text, |id| self.table.tests(id))
            };
            generated.push((path.clone(), text.clone(), filled));
        }
        Ok(generated)
    }
}

/// The tests that hold ids. Adds their problems to `problems`.
fn holders(files: &[File], problems: &mut Vec<String>) -> Holders {
    let mut holders = Holders::new();
    let code = Code::read(files);
    for file in files {
        if !FOLDERS.iter().any(|folder| Path::new(&file.path).starts_with(folder)) {
            continue;
        }
        let claims = holds::scan(file);
        problems.extend(claims.problems);
        for (id, holder) in claims.held {
            let stores = code.of(&holder);
            holders.entry(id).or_default().insert(holder, stores);
        }
    }
    problems.extend(cases::unlisted(files, holders.values().flat_map(BTreeMap::keys)));
    holders
}

#[cfg(test)]
mod tests {
    use super::ids::Id;
    use super::*;

    /// Checks complete and current pages on which every id is open, with one replacement.
    fn check_with(path: &str, from: &str, to: &str) -> std::result::Result<String, String> {
        let page = |name: &str| {
            let entries = Id::all().filter(|id| id.page() == name);
            let entries = entries
                .map(|id| format!("### {id}\n\nIt works.\n\n- **Status:** open\n- **Missing:** All.\n"));
            (name.to_owned(), entries.collect::<Vec<_>>().join("\n"))
        };
        let mut pages: Vec<_> = PAGES.into_iter().map(page).collect();
        let counts = "| page | held | changed | partly | open | not testable |\n|---|--:|--:|--:|--:|--:|\n\
            | [inbox](inbox.md) | 0 | 0 | 0 | 130 | 0 |\n| [commands](commands.md) | 0 | 0 | 0 | 20 | 0 |\n\
            | [ledger](ledger.md) | 0 | 0 | 0 | 13 | 0 |\n| [mailbox](mailbox.md) | 0 | 0 | 0 | 48 | 0 |\n\
            | [rules](rules.md) | 0 | 0 | 0 | 32 | 0 |\n| all | 0 | 0 | 0 | 243 | 0 |\n";
        pages.push((format!("{OVERVIEW}.md"), format!("# Title\n\n{MARKER}\n\n{counts}")));
        let mut requirements = Requirements::new();
        for (found, text) in &mut pages {
            if found == path {
                assert!(text.contains(from), "{text}");
                *text = text.replacen(from, to, 1);
            }
            if PAGES.contains(&found.as_str()) {
                requirements.extend(page::parse(found, text).map_err(|problems| problems.join("\n"))?);
            }
        }
        let spec = Spec { pages, table: Table { holders: Holders::new(), requirements } };
        spec.check().map_err(|failure| failure.to_string())
    }

    #[test]
    fn complete_and_current_pages_pass() {
        let totals = check_with("none", "", "").unwrap();
        assert_eq!(totals, "spec: 243 ids: 0 held, 0 changed, 0 partly, 243 open, 0 not testable");
    }

    #[test]
    fn incomplete_or_stale_pages_fail() {
        for (path, from, to, words) in [
            (
                "inbox",
                "### IBX-046\n\nIt works.\n\n- **Status:** open\n- **Missing:** All.\n\n",
                "",
                "IBX-046 has no entry",
            ),
            ("inbox", "### IBX-046\n\nIt works.\n\n", "### IBX-046\n\n", "IBX-046 has no text"),
            ("rules", "- **Status:** open\n", "", "RULE-01 has no status"),
            (
                "rules",
                "open\n- **Missing:** All.",
                "held (no store)",
                "RULE-01 is claimed, but no test names it",
            ),
            ("ledger", "All.\n", "All.\n- **Tests** (memory): `gone`\n", "ledger is stale"),
            ("README.md", "| 243 |", "| 242 |", "README.md is stale"),
            ("README.md", MARKER, "", "README.md has no line"),
        ] {
            let error = check_with(path, from, to).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
