//! Runs a test binary on behalf of cargo, with a deadline, so that a test that hangs is reported by name, and with a
//! summary line that contains its time.
//!
//! Cargo starts it as the `runner` of test binaries, so that packages, directories and variables are as usual.

use std::collections::BTreeSet;
use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::output;
use crate::failure::{Failure, Result};
use crate::stopwatch::Stopwatch;

/// The xtask command that cargo calls.
pub(crate) const COMMAND: &str = "run-test-binary";
/// Makes the test runner report the time of each test. On stable Rust, the option needs the variable [`BOOTSTRAP`].
const REPORT_TIME: [&str; 3] = ["-Z", "unstable-options", "--report-time"];
const BOOTSTRAP: &str = "RUSTC_BOOTSTRAP";
/// Maximum number of tests named if it is unknown which of them hang.
const NAMED_MAX: usize = 20;

/// A binary and its arguments from cargo, and its time limit in seconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Supervised {
    pub(crate) seconds: u64,
    pub(crate) binary: String,
    pub(crate) arguments: Vec<String>,
}

/// The cargo setting that starts test binaries through `xtask`, the path of this program.
pub(super) fn cargo_config(xtask: &Path, seconds: u64) -> Result<String> {
    let xtask = xtask.to_str().ok_or_else(|| Failure::new("the workspace's path is not UTF-8: move it"))?;
    // TOML has no escapes in single quotes.
    Ok(format!("target.'cfg(all())'.runner=['{xtask}','{COMMAND}','{seconds}']"))
}

/// Runs the binary to its end or its deadline, and returns its exit code.
pub(crate) fn run(supervised: &Supervised) -> ExitCode {
    let watch = Stopwatch::start();
    let name = name(&supervised.binary, env::var("CARGO_PKG_NAME").ok().as_deref());
    let mut child = match start(supervised) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("cannot start {} ({error})", supervised.binary);
            return ExitCode::FAILURE;
        }
    };
    let mut tests = Tests::default();
    let in_time = match child.stdout.take() {
        Some(output) => {
            tests.follow(&lines(output), &mut io::stdout(), &watch, Duration::from_secs(supervised.seconds))
        }
        None => true,
    };
    if !in_time {
        let _ = child.kill();
        report_hanging(supervised, &tests);
    }
    let code = child.wait().ok().and_then(|status| status.code());
    if in_time && code.is_none() {
        println!("test {name} ... FAILED\nthe binary was killed by a signal; unfinished tests:");
        for test in unfinished(supervised, &tests) {
            println!("    {test}");
        }
    }
    println!("{}", output::summary_line(&name, watch.seconds()));
    match code {
        Some(code) if in_time => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        _ => ExitCode::FAILURE,
    }
}

fn start(supervised: &Supervised) -> io::Result<Child> {
    let mut command = Command::new(&supervised.binary);
    command.args(&supervised.arguments).args(REPORT_TIME).env(BOOTSTRAP, "1").stdout(Stdio::piped());
    command.spawn()
}

/// The lines of the output. Read in a thread, as child processes of the binary may keep the pipe open after its end.
fn lines(output: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The tests in the lines so far.
#[derive(Debug, Default)]
struct Tests {
    ended: BTreeSet<String>,
    /// Tests that the binary reported as slow.
    slow: BTreeSet<String>,
}

impl Tests {
    /// Copies the lines until they end. Returns false if that takes longer than the limit.
    fn follow(
        &mut self,
        lines: &Receiver<Vec<u8>>,
        to: &mut impl Write,
        watch: &Stopwatch,
        limit: Duration,
    ) -> bool {
        loop {
            match lines.recv_timeout(limit.saturating_sub(watch.elapsed())) {
                Ok(line) => {
                    // The reader may be gone; the tests continue.
                    let _ = to.write_all(&line).and_then(|()| to.flush());
                    self.read_line(&String::from_utf8_lossy(&line));
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn read_line(&mut self, line: &str) {
        if let Some((test, _, _)) = output::test_line(line) {
            self.ended.insert(test.to_owned());
        } else if let Some(test) = output::running_line(line) {
            self.slow.insert(test.to_owned());
        }
    }

    /// The tests that are known to be running, else those that have not ended.
    fn suspects(&self, all: Vec<String>) -> Vec<String> {
        let running: Vec<String> = self.slow.difference(&self.ended).cloned().collect();
        if !running.is_empty() {
            return running;
        }
        all.into_iter().filter(|test| !self.ended.contains(test)).take(NAMED_MAX).collect()
    }
}

/// Reports the tests that hang as failed.
fn report_hanging(supervised: &Supervised, tests: &Tests) {
    for test in unfinished(supervised, tests) {
        println!("test {test} ... FAILED");
        println!("    {test} was not finished within the binary's limit of {} s", supervised.seconds);
    }
}

fn unfinished(supervised: &Supervised, tests: &Tests) -> Vec<String> {
    let mut command = Command::new(&supervised.binary);
    command.args(&supervised.arguments).args(["--list", "--format", "terse"]);
    let listed = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let listed = listed.unwrap_or_default();
    let all = listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned);
    let suspects = tests.suspects(all.collect());
    if suspects.is_empty() { vec![format!("({})", supervised.binary)] } else { suspects }
}

/// The package and the target: `oncebox-cli it` for `…/deps/it-0123456789abcdef`.
fn name(binary: &str, package: Option<&str>) -> String {
    let file = Path::new(binary).file_stem().and_then(|stem| stem.to_str()).unwrap_or(binary);
    let target = file.rsplit_once('-').map_or(file, |(target, _)| target);
    match package {
        Some(package) if package.replace('-', "_") == target => format!("{package} unit tests"),
        Some(package) => format!("{package} {target}"),
        None => target.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_named_by_its_package_and_target() {
        assert_eq!(name("target/debug/deps/it-0123", Some("oncebox-cli")), "oncebox-cli it");
        assert_eq!(name("deps/oncebox_core-0123", Some("oncebox-core")), "oncebox-core unit tests");
        assert_eq!(name("deps/it-0123", None), "it");
    }

    #[test]
    fn the_runner_is_one_cargo_setting() {
        let config = cargo_config(Path::new("/a b/xtask"), 9).unwrap();
        assert_eq!(config, "target.'cfg(all())'.runner=['/a b/xtask','run-test-binary','9']");
        config.parse::<toml::Table>().unwrap();
    }

    #[test]
    fn running_tests_are_suspected_before_unfinished_ones() {
        let mut tests = Tests::default();
        tests.read_line("test a ... ok\n");
        let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(tests.suspects(all()), ["b", "c"]);
        tests.read_line("test a has been running for over 60 seconds\n");
        tests.read_line("test c has been running for over 60 seconds\n");
        assert_eq!(tests.suspects(all()), ["c"]);
    }

    /// A binary that prints nothing is killed at its deadline.
    #[test]
    fn a_silent_binary_has_a_deadline() {
        let (sender, lines) = channel();
        sender.send(b"test a ... ok\n".to_vec()).unwrap();
        let mut tests = Tests::default();
        let mut passed = Vec::new();
        assert!(!tests.follow(&lines, &mut passed, &Stopwatch::start(), Duration::from_millis(1)));
        drop(sender);
        assert!(tests.follow(&lines, &mut passed, &Stopwatch::start(), Duration::from_secs(600)));
        assert_eq!(passed, b"test a ... ok\n");
        assert_eq!(tests.ended.len(), 1);
    }
}
