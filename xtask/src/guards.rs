//! `cargo xtask guards`: takes each guard of the heart, of the journal and of the library out, one at a time, and expects a test to fail.
//!
//! Works on a copy below `target/`, so that the workspace itself is never changed but for the report.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use toml::Table;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

const LIST: &str = "xtask/guards.toml";
const REPORT: &str = "docs/reference/guards.md";
const COPY: &str = "target/guards/workspace";

/// Where guards stand, and the tests that shall miss them.
struct Suite {
    folder: &'static str,
    arguments: &'static [&'static str],
    /// Seconds. Stops a test that a missing guard sends round in circles.
    limit: &'static str,
}

const SUITES: [Suite; 4] = [
    Suite {
        folder: "crates/core/src/",
        arguments: &[
            "test",
            "--no-fail-fast",
            "--lib",
            "--tests",
            "-p",
            "oncebox-core",
            "-p",
            "oncebox-store-memory",
            "--quiet",
        ],
        limit: "150",
    },
    Suite {
        folder: "crates/store-embedded/src/",
        arguments: &[
            "test",
            "-p",
            "oncebox-store-embedded",
            "--test",
            "it",
            "--quiet",
            "--",
            "crash::",
            "restarts::",
            "faults::",
            "reclaim::",
        ],
        limit: "400",
    },
    Suite {
        folder: "crates/oncebox/src/",
        arguments: &["test", "-p", "oncebox", "--test", "it", "--quiet"],
        limit: "900",
    },
    Suite {
        folder: "crates/server/src/",
        arguments: &["test", "--no-fail-fast", "--lib", "--tests", "-p", "oncebox-server", "--quiet"],
        limit: "300",
    },
];

struct Guard {
    name: String,
    suite: &'static Suite,
    path: String,
    from: String,
    to: String,
}

/// Takes out every guard whose name contains `part`; writes the report if that is all of them.
pub(crate) fn run(workspace: &Workspace, part: &str) -> Result<String> {
    let mut guards = read(&workspace.read(LIST)?)?;
    let all = guards.len();
    guards.retain(|guard| guard.name.contains(part));
    let copy = copy(workspace)?;
    for suite in SUITES.iter().filter(|suite| guards.iter().any(|guard| std::ptr::eq(guard.suite, *suite))) {
        if let Some(failed) = failures(&copy, suite)? {
            let text = format!("tests fail with every guard in place: {failed:?}; mend them first");
            return Err(Failure::new(text));
        }
    }
    let mut rows = String::new();
    let mut survivors = Vec::new();
    for guard in &guards {
        let original = copy.read(&guard.path)?;
        copy.write(&guard.path, &without(guard, &original)?)?;
        let failed = failures(&copy, guard.suite)?;
        copy.write(&guard.path, &original)?;
        let caught =
            failed.as_ref().map_or_else(|| "**nothing**".to_owned(), |failed| summary(failed, guard.suite));
        println!("{}: {caught}", guard.name);
        let file = guard.path.trim_start_matches("crates/").replace("/src/", "/");
        let _ = writeln!(rows, "| {} | `{file}` | {caught} |", guard.name);
        if failed.is_none() {
            survivors.push(guard.name.clone());
        }
    }
    if !survivors.is_empty() {
        return Err(Failure::new(format!("no test misses these guards, write one for each: {survivors:?}")));
    }
    if guards.len() == all {
        workspace.write(REPORT, &report(&rows))?;
    }
    Ok(format!(
        "guards: {} of {all} taken out one at a time, each missed by a test; see {REPORT}",
        guards.len()
    ))
}

fn report(rows: &str) -> String {
    format!(
        "# Guards\n\nWritten by `cargo xtask guards`, which takes each guard out of a copy of the sources and runs the tests; how, stands in \
         `{LIST}`. A guard that no test misses fails the command.\n\n| guard | file | without it, these fail |\n|---|---|---|\n{rows}"
    )
}

fn read(text: &str) -> Result<Vec<Guard>> {
    let wrong = |what: &str| Failure::new(format!("{LIST}: {what}"));
    let table: Table = text.parse().map_err(|error| wrong(&format!("is not TOML ({error})")))?;
    let guards =
        table.get("guard").and_then(|guards| guards.as_array()).ok_or_else(|| wrong("lists no guards"))?;
    let field = |guard: &toml::Value, name: &str| {
        let value = guard.get(name).and_then(|value| value.as_str());
        value.map(str::to_owned).ok_or_else(|| wrong(&format!("a guard lacks `{name}`")))
    };
    let guard = |value| {
        let file = field(value, "file")?;
        let path = format!("crates/{file}");
        let suite = SUITES.iter().find(|suite| path.starts_with(suite.folder));
        let suite = suite.ok_or_else(|| wrong(&format!("no tests are known for `{file}`")))?;
        let (name, from, to) = (field(value, "name")?, field(value, "from")?, field(value, "to")?);
        Ok(Guard { name, suite, path, from, to })
    };
    guards.iter().map(guard).collect()
}

/// The file's text with the guard taken out.
fn without(guard: &Guard, text: &str) -> Result<String> {
    if text.matches(&guard.from).count() != 1 {
        let Guard { name, path, .. } = guard;
        return Err(Failure::new(format!(
            "{LIST}: `{name}`: its `from` must stand in {path} exactly once; mend the list"
        )));
    }
    Ok(text.replacen(&guard.from, &guard.to, 1))
}

/// A copy of the workspace's text files; what is unchanged since the last copy is left alone, so that it builds fast.
fn copy(workspace: &Workspace) -> Result<Workspace> {
    let root: PathBuf = workspace.root().join(COPY);
    let copy = Workspace::at(root);
    for file in workspace.files()? {
        let path = copy.root().join(&file.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == file.text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            let failed = |error| Failure::new(format!("{}: cannot be made ({error})", folder.display()));
            fs::create_dir_all(folder).map_err(failed)?;
        }
        copy.write(&file.path, &file.text)?;
    }
    Ok(copy)
}

/// The tests that fail in the copy; none if all pass.
fn failures(copy: &Workspace, suite: &Suite) -> Result<Option<Vec<String>>> {
    let environment = [
        ("CARGO_TARGET_DIR", "../build"),
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
        ("RUSTFLAGS", "-A warnings"),
        ("RUST_BACKTRACE", "0"),
    ];
    let call = Call { environment: &environment, arguments: suite.arguments };
    let output = call.limited(copy, suite.limit)?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = failed_tests(&text);
    if failed.is_empty() && !text.contains("running ") {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("a guard's `to` does not build; mend {LIST}:\n{error}")));
    }
    Ok(Some(failed))
}

/// The names in the runner's closing lists of failures.
fn failed_tests(output: &str) -> Vec<String> {
    let mut listing = false;
    let mut names = Vec::new();
    for line in output.lines() {
        listing = line == "failures:" || (listing && (line.is_empty() || line.starts_with("    ")));
        if let (true, Some(name)) = (listing, line.strip_prefix("    ").filter(|name| !name.contains(' '))) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

/// The first few names, and how many there are.
fn summary(failed: &[String], suite: &Suite) -> String {
    const SHOWN: usize = 3;
    if failed.is_empty() {
        return format!("the run does not end within {} s", suite.limit);
    }
    // A fact with a name says more than a random history.
    let mut names: Vec<_> = failed.iter().collect();
    names.sort_by_key(|name| name.contains("random_comparison") || name.contains("machine::tests"));
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_guard_stands_in_its_file_once() {
        let workspace = Workspace::locate().unwrap();
        let guards = read(&workspace.read(LIST).unwrap()).unwrap();
        assert!(guards.len() >= 15);
        for guard in guards {
            let text = workspace.read(&guard.path).unwrap();
            assert_ne!(without(&guard, &text).unwrap(), text, "{}", guard.name);
        }
    }

    #[test]
    fn failed_tests_are_read_from_the_closing_lists() {
        let output = "running 2 tests\nfailures:\n\n---- a::b stdout ----\npanicked\n\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        assert_eq!(failed_tests(output), ["a::b", "c"]);
        let failed = ["random_comparison".to_owned(), "c".to_owned()];
        assert_eq!(summary(&failed, &SUITES[0]), "`c`, `random_comparison`");
    }
}
