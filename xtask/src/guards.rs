//! `cargo xtask guards`: removes the guards one at a time, and expects a test to fail without each.
//!
//! Works on copies below `target/`, as many at the same time as there are cores. In the workspace itself, only the report
//! is changed.

mod suite;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use toml::Table;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use suite::{Ran, Suite};

const LIST: &str = "xtask/guards.toml";
const REPORT: &str = "docs/internals/guards.md";
/// Each copy has its build directory beside it.
const COPIES: &str = "target/guards";
/// Maximum number of copies.
const COPIES_MAX: usize = 4;

struct Guard {
    name: String,
    suite: Suite,
    path: String,
    from: String,
    to: String,
}

impl Guard {
    /// The guard's row in the report.
    fn row(&self, caught_by: &str) -> String {
        let file = self.path.trim_start_matches("crates/").replace("/src/", "/");
        format!("| {} | `{file}` | {caught_by} |", self.name)
    }
}

/// Which guards to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    All,
    /// Those whose name or file contains the text; `loom` selects those of `cargo xtask loom`.
    Part(String),
    /// Those without a row in the report, to continue a run that was interrupted.
    Missing,
}

impl Selection {
    fn contains(&self, guard: &Guard, report: &Report) -> bool {
        match self {
            Self::All => true,
            Self::Part(part) => {
                guard.name.contains(part)
                    || guard.path.contains(part)
                    || part == "loom" && guard.suite == Suite::loom()
            }
            Self::Missing => !report.caught_by.contains_key(&guard.name),
        }
    }
}

/// Removes the selected guards, one at a time in each of several copies, and writes the tests that fail to the report,
/// after each of them: a run of all guards takes hours.
pub(crate) fn run(workspace: &Workspace, selection: &Selection) -> Result<String> {
    let guards = read(&workspace.read(LIST)?)?;
    let report = match selection {
        Selection::All => Report::default(),
        Selection::Part(_) | Selection::Missing => Report::parse(&workspace.read(REPORT)?),
    };
    let selected: Vec<&Guard> = guards.iter().filter(|guard| selection.contains(guard, &report)).collect();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let copies = (0..cores.min(COPIES_MAX).min(selected.len()))
        .map(|number| copy(workspace, number))
        .collect::<Result<Vec<_>>>()?;
    let mut suites: Vec<(&Suite, &str)> = Vec::new();
    for Guard { name, suite, .. } in &selected {
        if !suites.iter().any(|(known, _)| known == &suite) {
            suites.push((suite, name));
        }
    }
    let limit_factor = copies.len() as u64;
    for_each(&copies, &suites, |copy, (suite, name)| check_with_guards(copy, suite, name, limit_factor))?;
    let (report, problems) = (Mutex::new(report), Mutex::new(Vec::new()));
    for_each(&copies, &selected, |copy, guard| {
        let problem = match without(copy, guard, limit_factor)? {
            Ran::Failed(tests) => {
                let tests = guard.suite.summary(&tests);
                println!("{}: {tests}", guard.name);
                let mut report = lock(&report);
                report.caught_by.insert(guard.name.clone(), tests);
                return workspace.write(REPORT, &report.print(&guards));
            }
            Ran::Passed(_) => "no test fails without this guard: write one".to_owned(),
            Ran::NotCompiled(error) => format!("its `to` does not compile: correct {LIST}\n{error}"),
        };
        println!("{}: {problem}", guard.name);
        lock(&problems).push(format!("{}: {problem}", guard.name));
        Ok(())
    })?;
    let problems = lock(&problems);
    if !problems.is_empty() {
        return Err(Failure::new(problems.join("\n")));
    }
    let (removed, all) = (selected.len(), guards.len());
    Ok(format!("guards: {removed} of {all} removed one at a time, tests failed without each; see {REPORT}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the work for each item, in order, with as many at the same time as there are copies. Stops at the first failure.
fn for_each<T: Sync>(
    copies: &[Workspace],
    items: &[T],
    work: impl Fn(&Workspace, &T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work_in = |copy: &Workspace| -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(failure) = work(copy, item) {
                next.store(items.len(), Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = copies.iter().map(|copy| scope.spawn(|| work_in(copy))).collect();
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        results.collect()
    })
}

/// Runs the tests of a guard in the copy, without the guard.
fn without(copy: &Workspace, guard: &Guard, limit_factor: u64) -> Result<Ran> {
    let original = copy.read(&guard.path)?;
    copy.write(&guard.path, &remove_guard(guard, &original)?)?;
    let ran = guard.suite.run(copy, limit_factor);
    copy.write(&guard.path, &original)?;
    ran
}

/// Checks that all tests of a suite pass with every guard in place, and that it is not empty.
fn check_with_guards(copy: &Workspace, suite: &Suite, name: &str, limit_factor: u64) -> Result<()> {
    match suite.run(copy, limit_factor)? {
        Ran::Passed(0) => Err(Failure::new(format!("{LIST}: `{name}` names a test that does not exist"))),
        Ran::Passed(_) => Ok(()),
        Ran::Failed(tests) => {
            let tests = suite.summary(&tests);
            Err(Failure::new(format!("with every guard in place: {tests}; correct that first")))
        }
        Ran::NotCompiled(error) => Err(Failure::new(error)),
    }
}

/// What fails without each guard, by its name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    caught_by: BTreeMap<String, String>,
}

impl Report {
    const HEAD: &str = "| guard | file | without it, these fail |\n|---|---|---|\n";

    fn parse(text: &str) -> Self {
        let (_, rows) = text.split_once(Self::HEAD).unwrap_or_default();
        let read = |row: &str| {
            let mut cells = row.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
            let (name, _, caught_by) = (cells.next()?, cells.next()?, cells.next()?);
            Some((name.to_owned(), caught_by.to_owned()))
        };
        Self { caught_by: rows.lines().filter_map(read).collect() }
    }

    /// The page: the guards of the list in its order, in the files where they are now. Guards that are no longer listed
    /// are left out.
    fn print(&self, guards: &[Guard]) -> String {
        let row = |guard: &Guard| self.caught_by.get(&guard.name).map(|caught_by| guard.row(caught_by));
        let rows: Vec<String> = guards.iter().filter_map(row).collect();
        let missing = match guards.len() - rows.len() {
            0 => String::new(),
            missing => format!(
                "{missing} guards of the list have not been run yet (`cargo xtask guards --missing`).\n\n"
            ),
        };
        format!(
            "# Guards\n\nWritten by `cargo xtask guards`, which removes each guard in `{LIST}` from a copy of the sources and\n\
             runs the tests. The command fails if no test fails.\n\n{missing}{}{}\n",
            Self::HEAD,
            rows.join("\n")
        )
    }
}

fn read(text: &str) -> Result<Vec<Guard>> {
    let invalid = |what: &str| Failure::new(format!("{LIST}: {what}"));
    let table: Table = text.parse().map_err(|error| invalid(&format!("is not TOML ({error})")))?;
    let guards =
        table.get("guard").and_then(|guards| guards.as_array()).ok_or_else(|| invalid("lists no guards"))?;
    let field = |guard: &toml::Value, name: &str| {
        let value = guard.get(name).and_then(|value| value.as_str());
        value.map(str::to_owned).ok_or_else(|| invalid(&format!("a guard lacks `{name}`")))
    };
    let guard = |value| {
        let file = field(value, "file")?;
        let path = format!("crates/{file}");
        let suite = Suite::of(&path, |name| field(value, name).ok()).map_err(|error| invalid(&error))?;
        let (name, from, to) = (field(value, "name")?, field(value, "from")?, field(value, "to")?);
        Ok(Guard { name, suite, path, from, to })
    };
    guards.iter().map(guard).collect()
}

/// The text of the file without the guard.
fn remove_guard(guard: &Guard, text: &str) -> Result<String> {
    if text.matches(&guard.from).count() != 1 {
        let Guard { name, path, .. } = guard;
        return Err(Failure::new(format!(
            "{LIST}: `{name}`: its `from` must occur in {path} exactly once; fix the list"
        )));
    }
    Ok(text.replacen(&guard.from, &guard.to, 1))
}

/// Copies the text files of the workspace. Does not touch unchanged files, so that incremental builds stay fast.
fn copy(workspace: &Workspace, number: usize) -> Result<Workspace> {
    let root: PathBuf = workspace.root().join(COPIES).join(number.to_string()).join("workspace");
    let copy = Workspace::at(root);
    for file in workspace.files()? {
        let path = copy.root().join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            let failed = |error| Failure::new(format!("cannot create {} ({error})", folder.display()));
            fs::create_dir_all(folder).map_err(failed)?;
        }
        copy.write(&file.path, &file.text)?;
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_listed_guard_occurs_in_its_file_once() {
        let workspace = Workspace::locate().unwrap();
        let guards = read(&workspace.read(LIST).unwrap()).unwrap();
        assert!(guards.len() >= 15);
        let names: BTreeSet<_> = guards.iter().map(|guard| &guard.name).collect();
        assert_eq!(names.len(), guards.len(), "each has its own name: the report has one row for each");
        for guard in guards {
            let text = workspace.read(&guard.path).unwrap();
            assert_ne!(remove_guard(&guard, &text).unwrap(), text, "{}", guard.name);
        }
    }

    fn guard(name: &str) -> Guard {
        let path = "crates/core/src/machine.rs".to_owned();
        let suite = Suite::of(&path, |_| None).unwrap();
        Guard { name: name.to_owned(), suite, path, from: String::new(), to: String::new() }
    }

    #[test]
    fn a_report_is_in_the_order_of_the_list_and_says_what_is_missing() {
        let guards = ["c", "ab", "a"].map(guard);
        let mut report = Report::default();
        for (name, by) in [("a", "`x`"), ("ab", "`y`"), ("gone", "`z`")] {
            report.caught_by.insert(name.to_owned(), by.to_owned());
        }
        let page = report.print(&guards);
        assert!(
            page.ends_with(
                "|---|---|---|\n| ab | `core/machine.rs` | `y` |\n| a | `core/machine.rs` | `x` |\n"
            )
        );
        assert!(page.contains("1 guards of the list have not been run yet"), "{page}");
        report.caught_by.remove("gone");
        assert_eq!(Report::parse(&page), report);
        report.caught_by.insert("c".to_owned(), "`w`".to_owned());
        assert!(!report.print(&guards).contains("have not been run"));
    }

    #[test]
    fn guards_are_selected_by_name_file_or_missing_row() {
        let report = Report::parse(
            &Report { caught_by: [("a".to_owned(), "`x`".to_owned())].into() }.print(&[guard("a")]),
        );
        let selected =
            |selection: Selection| ["a", "fence"].map(|name| selection.contains(&guard(name), &report));
        assert_eq!(selected(Selection::All), [true, true]);
        assert_eq!(selected(Selection::Missing), [false, true]);
        assert_eq!(selected(Selection::Part("fence".to_owned())), [false, true]);
        assert_eq!(selected(Selection::Part("core/".to_owned())), [true, true]);
        assert_eq!(selected(Selection::Part("loom".to_owned())), [false, false]);
    }
}
