//! Which tests must fail without a guard, how to run them, and what their output says.

use crate::cargo::Call;
use crate::failure::Result;
use crate::loom;
use crate::workspace::Workspace;

/// The tests that must fail without a guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suite {
    environment: Vec<(&'static str, &'static str)>,
    /// The arguments of `cargo test`.
    arguments: Vec<String>,
    /// Time limit of the tests in seconds: without its guard, a test may loop forever.
    limit: u64,
}

/// How a run of a suite ended.
pub(super) enum Ran {
    /// The number of tests; all passed.
    Passed(u64),
    /// These tests failed; none if the time limit was reached.
    Failed(Vec<String>),
    /// The output of the compiler.
    NotCompiled(String),
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
const BY_FOLDER: [(&str, &str, u64); 4] = [
    ("crates/core/", "--no-fail-fast --lib --tests -p oncebox-core -p oncebox-store-memory", 150),
    (
        "crates/store-embedded/",
        "-p oncebox-store-embedded --test it -- crash:: restarts:: faults:: reclaim::",
        400,
    ),
    ("crates/oncebox/", "-p oncebox --test it", 900),
    ("crates/server/", "--no-fail-fast --lib --tests -p oncebox-server", 300),
];

impl Suite {
    fn new(arguments: &str, limit: u64) -> Self {
        let words = ["--quiet"].into_iter().chain(arguments.split_whitespace());
        Self { environment: PLAIN.to_vec(), arguments: words.map(str::to_owned).collect(), limit }
    }

    /// The tests of `cargo xtask loom`.
    pub(super) fn loom() -> Self {
        let mut environment = loom::CALL.environment.to_vec();
        environment.extend([("CARGO_TARGET_DIR", "../loom"), ("RUST_BACKTRACE", "0")]);
        // One thread, so that the last line names the test in which loom aborted the process.
        let words = loom::CALL.arguments.iter().skip(1).chain(&["--", "--test-threads", "1"]);
        Self { environment, arguments: words.map(|word| (*word).to_owned()).collect(), limit: 120 }
    }

    /// The tests that a guard names (`test`, optionally with `package`, or `suite = "loom"`), else those of its folder.
    pub(super) fn of(
        path: &str,
        named: impl Fn(&str) -> Option<String>,
    ) -> std::result::Result<Self, String> {
        if let Some(suite) = named("suite") {
            return if suite == "loom" { Ok(Self::loom()) } else { Err(format!("unknown suite `{suite}`")) };
        }
        if let Some(test) = named("test") {
            let package = named("package").unwrap_or_else(|| package_of(path));
            return Ok(Self::new(&format!("--no-fail-fast --tests -p {package} -- {test}"), 600));
        }
        let found = BY_FOLDER.iter().find(|(folder, ..)| path.starts_with(folder));
        let found = found.map(|(_, arguments, limit)| Self::new(arguments, *limit));
        found.ok_or_else(|| format!("a guard of `{path}` must name its `test`"))
    }

    /// Compiles the tests in the copy, and runs them within the time limit. The limit is multiplied by the factor, because
    /// other suites run at the same time.
    pub(super) fn run(&self, copy: &Workspace, limit_factor: u64) -> Result<Ran> {
        let arguments = |first: &[&'static str]| -> Vec<&str> {
            first.iter().copied().chain(self.arguments.iter().map(String::as_str)).collect()
        };
        let (building, testing) = (arguments(&["test", "--no-run"]), arguments(&["test"]));
        let compiled = Call { environment: &self.environment, arguments: &building }.output(copy)?;
        if !compiled.status.success() {
            return Ok(Ran::NotCompiled(String::from_utf8_lossy(&compiled.stderr).into_owned()));
        }
        let limit = (self.limit * limit_factor).to_string();
        let output = Call { environment: &self.environment, arguments: &testing }.limited(copy, &limit)?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(Ran::Passed(passed(&text)));
        }
        let mut failed = failed_tests(&text);
        if output.status.code() != Some(TIMED_OUT) {
            failed.extend(died_in(&text));
        }
        Ok(Ran::Failed(failed))
    }

    /// The first failed tests, and the number of the others.
    pub(super) fn summary(&self, failed: &[String]) -> String {
        const SHOWN: usize = 3;
        if failed.is_empty() {
            return format!("the run does not end within {} s", self.limit);
        }
        // A test of a single fact says more than a random one.
        let mut names: Vec<_> = failed.iter().collect();
        names.sort_by_key(|name| name.contains("random_comparison") || name.contains("machine::tests"));
        let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = names.len().saturating_sub(SHOWN);
        if more == 0 { shown } else { format!("{shown} and {more} more") }
    }
}

/// The package that a file belongs to.
fn package_of(path: &str) -> String {
    match path.split('/').nth(1).unwrap_or_default() {
        "oncebox" => "oncebox".to_owned(),
        folder => format!("oncebox-{folder}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_from_the_final_lists() {
        let output = "running 2 tests\nfailures:\n\n---- a::b stdout ----\npanicked\n\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED.";
        assert_eq!(failed_tests(output), ["a::b", "c"]);
        let failed = ["random_comparison".to_owned(), "c".to_owned()];
        let suite = Suite::of("crates/core/src/machine.rs", |_| None).unwrap();
        assert_eq!(suite.summary(&failed), "`c`, `random_comparison`");
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
    fn passed_tests_are_counted() {
        let output = "test result: ok. 3 passed; 0 failed;\ntest result: FAILED. 9 passed;\ntest result: ok. 4 passed;\n";
        assert_eq!(passed(output), 7);
    }
}
