//! `cargo xtask guards`: takes each guard out, one at a time, and expects a test to fail.
//!
//! Works on a copy below `target/`, so that the workspace itself is never changed but for the report.

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

/// The tests that shall miss a guard, and how they are run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suite {
    environment: Vec<(&'static str, &'static str)>,
    arguments: Vec<String>,
    /// Seconds. Stops a test that a missing guard sends round in circles.
    limit: &'static str,
}

/// How `timeout` says that time was up.
const TIMED_OUT: i32 = 124;

const PLAIN: [(&str, &str); 4] = [
    ("CARGO_TARGET_DIR", "../build"),
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("RUSTFLAGS", "-A warnings"),
    ("RUST_BACKTRACE", "0"),
];

/// The tests of a crate whose guards name none.
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

    /// What `cargo xtask loom` runs, with what it has built of others.
    fn loom() -> Self {
        let mut environment = loom::CALL.environment.to_vec();
        environment.extend([("CARGO_TARGET_DIR", "../../loom"), ("RUST_BACKTRACE", "0")]);
        // One thread, so that the last line names the test in which loom ended the process.
        let words = loom::CALL.arguments.iter().chain(&["--", "--test-threads", "1"]);
        Self { environment, arguments: words.map(|word| (*word).to_owned()).collect(), limit: "120" }
    }

    /// The tests that a guard names (`test`, perhaps of another `package`, or `suite = "loom"`), or else those of its folder.
    fn of(path: &str, named: impl Fn(&str) -> Option<String>) -> std::result::Result<Self, String> {
        if let Some(suite) = named("suite") {
            return if suite == "loom" {
                Ok(Self::loom())
            } else {
                Err(format!("there is no suite `{suite}`"))
            };
        }
        if let Some(test) = named("test") {
            let package = named("package").unwrap_or_else(|| package_of(path));
            return Ok(Self::new(&format!("--no-fail-fast --tests -p {package} -- {test}"), "600"));
        }
        let found = BY_FOLDER.iter().find(|(folder, ..)| path.starts_with(folder));
        let found = found.map(|(_, arguments, limit)| Self::new(arguments, limit));
        found.ok_or_else(|| format!("name the `test` that misses a guard of `{path}`"))
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

/// Takes out every guard whose name contains `part` and writes down which tests failed.
pub(crate) fn run(workspace: &Workspace, part: &str) -> Result<String> {
    let mut guards = read(&workspace.read(LIST)?)?;
    let all = guards.len();
    guards.retain(|guard| guard.name.contains(part) || part == "loom" && guard.suite == Suite::loom());
    let copy = copy(workspace)?;
    check_whole(&copy, &guards)?;
    let mut rows = String::new();
    let mut survivors = Vec::new();
    for guard in &guards {
        let original = copy.read(&guard.path)?;
        copy.write(&guard.path, &without(guard, &original)?)?;
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
        return Err(Failure::new(format!("no test misses these guards, write one for each: {survivors:?}")));
    }
    let report = if guards.len() == all { report(&rows) } else { merged(&workspace.read(REPORT)?, &rows) };
    workspace.write(REPORT, &report)?;
    Ok(format!(
        "guards: {} of {all} taken out one at a time, each missed by a test; see {REPORT}",
        guards.len()
    ))
}

/// With every guard in place all tests pass, and each suite has some.
fn check_whole(copy: &Workspace, guards: &[Guard]) -> Result<()> {
    let mut checked: Vec<&Suite> = Vec::new();
    for Guard { name, suite, .. } in guards {
        if checked.contains(&suite) {
            continue;
        }
        let (failed, ran) = tests(copy, suite)?;
        if let Some(failed) = failed {
            let text = format!("tests fail with every guard in place: {failed:?}; mend them first");
            return Err(Failure::new(text));
        }
        if ran == 0 {
            return Err(Failure::new(format!("{LIST}: `{name}` names a test that is not there")));
        }
        checked.push(suite);
    }
    Ok(())
}

/// The report with these rows in the places of those about the same guards, new ones at the end.
fn merged(report: &str, rows: &str) -> String {
    let mut lines: Vec<&str> = report.lines().collect();
    for row in rows.lines() {
        let guard = row.split(" | ").next().unwrap_or_default();
        let same = |line: &&str| line.split(" | ").next() == Some(guard);
        match lines.iter().position(same) {
            Some(place) => lines[place] = row,
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
        let suite = Suite::of(&path, |name| field(value, name).ok()).map_err(|error| wrong(&error))?;
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
    tests(copy, suite).map(|(failed, _)| failed)
}

/// The same, and how many passed.
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
        return Err(Failure::new(format!("a guard's `to` does not build; mend {LIST}:\n{error}")));
    }
    Ok((Some(failed), passed(&text)))
}

/// The test that had begun and not ended when its process died: the last that is named, without a result.
fn died_in(output: &str) -> Option<String> {
    let mut named = output.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let (name, rest) = named.next_back()?;
    let ended = ["ok", "FAILED", "ignored"].iter().any(|result| rest.starts_with(result));
    (!ended).then(|| name.to_owned())
}

/// How many tests the result lines say passed.
fn passed(output: &str) -> u64 {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
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
        let suite = Suite::of("crates/core/src/machine.rs", |_| None).unwrap();
        assert_eq!(summary(&failed, &suite), "`c`, `random_comparison`");
    }

    #[test]
    fn a_guard_names_its_tests_or_has_those_of_its_folder() {
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
        let loom = suite("crates/core/src/bell.rs", &[("suite", "loom")]).unwrap();
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
    fn a_part_of_the_guards_changes_its_own_rows() {
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
