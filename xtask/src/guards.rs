//! `cargo xtask guards`: removes the guards one at a time, and expects a test to fail without each.
//!
//! Works on a copy below `target/`. In the workspace itself, only the report is changed.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use toml::Table;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::loom;
use crate::workspace::Workspace;

const LIST: &str = "xtask/guards.toml";
const REPORT: &str = "docs/internals/guards.md";
const COPY: &str = "target/guards/workspace";

/// The tests that must fail without a guard, and how to run them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suite {
    environment: Vec<(&'static str, &'static str)>,
    arguments: Vec<String>,
    /// Time limit in seconds: without its guard, a test may loop forever.
    limit: &'static str,
}

/// The exit code of `timeout` after the time limit.
const TIMED_OUT: i32 = 124;

const PLAIN: [(&str, &str); 4] = [
    ("CARGO_TARGET_DIR", "../build"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("RUSTFLAGS", "-A warnings"),
    ("RUST_BACKTRACE", "0"),
];

/// The default tests by folder, for guards that name none.
const BY_FOLDER: [(&str, &str, &str); 4] = [
    ("crates/core/", "--no-fail-fast --lib --tests -p oncebox-core -p oncebox-store-memory", "150"),
    (
        "crates/store-embedded/",
        "-p oncebox-store-embedded --test it -- crash:: restarts:: faults:: reclaim::",
        "400",
    ),
    ("crates/oncebox/", "-p oncebox --test it", "900"),
    ("crates/server/", "--no-fail-fast --lib --tests -p oncebox-server", "300"),
];

impl Suite {
    fn new(arguments: &str, limit: &'static str) -> Self {
        let words = ["test", "--quiet"].into_iter().chain(arguments.split_whitespace());
        Self { environment: PLAIN.to_vec(), arguments: words.map(str::to_owned).collect(), limit }
    }

    /// The tests of `cargo xtask loom`; shares its build directory.
    fn loom() -> Self {
        let mut environment = loom::CALL.environment.to_vec();
        environment.extend([("CARGO_TARGET_DIR", "../../loom"), ("RUST_BACKTRACE", "0")]);
        // One thread, so that the last line names the test in which loom aborted the process.
        let words = loom::CALL.arguments.iter().chain(&["--", "--test-threads", "1"]);
        Self { environment, arguments: words.map(|word| (*word).to_owned()).collect(), limit: "120" }
    }

    /// The tests that a guard names (`test`, optionally with `package`, or `suite = "loom"`), else those of its folder.
    fn of(path: &str, named: impl Fn(&str) -> Option<String>) -> std::result::Result<Self, String> {
        if let Some(suite) = named("suite") {
            return if suite == "loom" { Ok(Self::loom()) } else { Err(format!("unknown suite `{suite}`")) };
        }
        if let Some(test) = named("test") {
            let package = named("package").unwrap_or_else(|| package_of(path));
            return Ok(Self::new(&format!("--no-fail-fast --tests -p {package} -- {test}"), "600"));
        }
        let found = BY_FOLDER.iter().find(|(folder, ..)| path.starts_with(folder));
        let found = found.map(|(_, arguments, limit)| Self::new(arguments, limit));
        found.ok_or_else(|| format!("a guard of `{path}` must name its `test`"))
    }
}

/// The package that a file belongs to.
fn package_of(path: &str) -> String {
    match path.split('/').nth(1).unwrap_or_default() {
        "oncebox" => "oncebox".to_owned(),
        folder => format!("oncebox-{folder}"),
    }
}

struct Guard {
    name: String,
    suite: Suite,
    path: String,
    from: String,
    to: String,
}

/// Removes every guard whose name contains `part`, one at a time, and writes the tests that fail to the report.
pub(crate) fn run(workspace: &Workspace, part: &str) -> Result<String> {
    let mut guards = read(&workspace.read(LIST)?)?;
    let all = guards.len();
    guards.retain(|guard| guard.name.contains(part) || part == "loom" && guard.suite == Suite::loom());
    let copy = copy(workspace)?;
    check_with_guards(&copy, &guards)?;
    let mut rows = String::new();
    let mut survivors = Vec::new();
    for guard in &guards {
        let original = copy.read(&guard.path)?;
        copy.write(&guard.path, &remove_guard(guard, &original)?)?;
        let failed = failures(&copy, &guard.suite)?;
        copy.write(&guard.path, &original)?;
        let caught =
            failed.as_ref().map_or_else(|| "**nothing**".to_owned(), |failed| summary(failed, &guard.suite));
        println!("{}: {caught}", guard.name);
        let file = guard.path.trim_start_matches("crates/").replace("/src/", "/");
        let _ = writeln!(rows, "| {} | `{file}` | {caught} |", guard.name);
        if failed.is_none() {
            survivors.push(guard.name.clone());
        }
    }
    if !survivors.is_empty() {
        return Err(Failure::new(format!(
            "no test fails without these guards; write one for each: {survivors:?}"
        )));
    }
    let report = if guards.len() == all { report(&rows) } else { merged(&workspace.read(REPORT)?, &rows) };
    workspace.write(REPORT, &report)?;
    Ok(format!(
        "guards: {} of {all} removed one at a time, tests failed without each; see {REPORT}",
        guards.len()
    ))
}

/// Checks that all tests pass with every guard in place, and that no suite is empty.
fn check_with_guards(copy: &Workspace, guards: &[Guard]) -> Result<()> {
    let mut checked: Vec<&Suite> = Vec::new();
    for Guard { name, suite, .. } in guards {
        if checked.contains(&suite) {
            continue;
        }
        let (failed, ran) = tests(copy, suite)?;
        if let Some(failed) = failed {
            let text = format!("tests fail with every guard in place: {failed:?}; fix them first");
            return Err(Failure::new(text));
        }
        if ran == 0 {
            return Err(Failure::new(format!("{LIST}: `{name}` names a test that does not exist")));
        }
        checked.push(suite);
    }
    Ok(())
}

/// The report with the rows of the same guards replaced, and new ones appended.
fn merged(report: &str, rows: &str) -> String {
    let mut lines: Vec<&str> = report.lines().collect();
    for row in rows.lines() {
        let guard = row.split(" | ").next().unwrap_or_default();
        let same = |line: &&str| line.split(" | ").next() == Some(guard);
        match lines.iter().position(same) {
            Some(index) => lines[index] = row,
            None => lines.push(row),
        }
    }
    lines.join("\n") + "\n"
}

fn report(rows: &str) -> String {
    format!(
        "# Guards\n\nWritten by `cargo xtask guards`, which removes each guard that `{LIST}` lists from a copy of the sources and runs the \
         tests. The command fails if no test notices.\n\n| guard | file | without it, these fail |\n|---|---|---|\n{rows}"
    )
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
fn copy(workspace: &Workspace) -> Result<Workspace> {
    let root: PathBuf = workspace.root().join(COPY);
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

/// The tests that fail in the copy; none if all pass.
fn failures(copy: &Workspace, suite: &Suite) -> Result<Option<Vec<String>>> {
    tests(copy, suite).map(|(failed, _)| failed)
}

/// The tests that fail in the copy, none if all pass, and how many passed.
fn tests(copy: &Workspace, suite: &Suite) -> Result<(Option<Vec<String>>, u64)> {
    let arguments: Vec<&str> = suite.arguments.iter().map(String::as_str).collect();
    let call = Call { environment: &suite.environment, arguments: &arguments };
    let output = call.limited(copy, suite.limit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok((None, passed(&text)));
    }
    let mut failed = failed_tests(&text);
    if output.status.code() != Some(TIMED_OUT) {
        failed.extend(died_in(&text));
    }
    if failed.is_empty() && !text.contains("running ") {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("a guard's `to` does not build; fix {LIST}:\n{error}")));
    }
    Ok((Some(failed), passed(&text)))
}

/// The test that was running when its process died: the last line, if it has no result.
fn died_in(output: &str) -> Option<String> {
    let mut named = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let (name, rest) = named.next_back()?;
    let ended = ["ok", "FAILED", "ignored"].iter().any(|result| rest.starts_with(result));
    (!ended).then(|| name.to_owned())
}

/// Number of passed tests, from the result lines.
fn passed(output: &str) -> u64 {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// The names in the test runner's final lists of failures.
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

/// The first names, and the number of the others.
fn summary(failed: &[String], suite: &Suite) -> String {
    const SHOWN: usize = 3;
    if failed.is_empty() {
        return format!("the run does not end within {} s", suite.limit);
    }
    // A test of a single fact says more than a random one.
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
    fn every_listed_guard_occurs_in_its_file_once() {
        let workspace = Workspace::locate().unwrap();
        let guards = read(&workspace.read(LIST).unwrap()).unwrap();
        assert!(guards.len() >= 15);
        for guard in guards {
            let text = workspace.read(&guard.path).unwrap();
            assert_ne!(remove_guard(&guard, &text).unwrap(), text, "{}", guard.name);
        }
    }

    #[test]
    fn failed_tests_are_read_from_the_final_lists() {
        let output = "running 2 tests\nfailures:\n\n---- a::b stdout ----\npanicked\n\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        assert_eq!(failed_tests(output), ["a::b", "c"]);
        let failed = ["random_comparison".to_owned(), "c".to_owned()];
        let suite = Suite::of("crates/core/src/machine.rs", |_| None).unwrap();
        assert_eq!(summary(&failed, &suite), "`c`, `random_comparison`");
    }

    #[test]
    fn a_guard_has_the_tests_it_names_or_those_of_its_folder() {
        let suite = |path: &str, named: &[(&str, &str)]| {
            let named = |name: &str| named.iter().find(|(known, _)| *known == name);
            Suite::of(path, |name| named(name).map(|(_, value)| (*value).to_owned()))
        };
        let line = |suite: std::result::Result<Suite, String>| suite.unwrap().arguments.join(" ");
        assert!(
            line(suite("crates/core/src/machine.rs", &[]))
                .ends_with("-p oncebox-core -p oncebox-store-memory")
        );
        let named = [("test", "races::")];
        let races = line(suite("crates/store-postgres/src/a.rs", &named));
        assert!(races.ends_with("-p oncebox-store-postgres -- races::"), "{races}");
        let elsewhere = [("test", "metrics"), ("package", "oncebox-cli")];
        assert!(line(suite("crates/oncebox/src/a.rs", &elsewhere)).contains("-p oncebox-cli -- metrics"));
        let loom = suite("crates/core/src/notifier.rs", &[("suite", "loom")]).unwrap();
        assert!(loom.environment.contains(&("RUSTFLAGS", "--cfg oncebox_loom")));
        suite("crates/store-postgres/src/a.rs", &[]).unwrap_err();
        suite("crates/oncebox/src/a.rs", &[("suite", "none")]).unwrap_err();
    }

    #[test]
    fn a_test_in_which_the_process_died_is_named() {
        assert_eq!(
            died_in("running 2 tests\ntest a ... ok\ntest b::c ... \n at x\n"),
            Some("b::c".to_owned())
        );
        assert_eq!(died_in("running 2 tests\ntest a ... ok\n"), None);
    }

    #[test]
    fn a_partial_run_replaces_only_its_own_rows() {
        let report =
            "# Guards\n\n| guard | file | x |\n|---|---|---|\n| a | `f` | old |\n| ab | `f` | old |\n";
        let merged = merged(report, "| a | `f` | new |\n| c | `f` | new |\n");
        assert!(
            merged.ends_with("|---|---|---|\n| a | `f` | new |\n| ab | `f` | old |\n| c | `f` | new |\n"),
            "{merged}"
        );
    }

    #[test]
    fn passed_tests_are_counted() {
        let output = "test result: ok. 3 passed; 0 failed;\ntest result: FAILED. 9 passed;\ntest result: ok. 4 passed;\n";
        assert_eq!(passed(output), 7);
    }
}
