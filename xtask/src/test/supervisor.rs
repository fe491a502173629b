//! Runs one test binary in cargo's place: with a deadline, so that a test that hangs is a failure with a name, and with
//! a closing line that says how long it took.
//!
//! Cargo starts it as the `runner` of its test binaries, so that packages, directories and variables are as always.

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

/// The command of ours that cargo calls.
pub(crate) const COMMAND: &str = "run-test-binary";
/// Makes the runner of tests say how long each took. Its stable form hides the option behind this variable.
const TIMED: [&str; 3] = ["-Z", "unstable-options", "--report-time"];
const UNSTABLE: &str = "RUSTC_BOOTSTRAP";
/// How many tests are named when it is not known which of them hang.
const NAMED_MAX: usize = 20;

/// A binary and its arguments as cargo gives them, and the seconds that it has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Supervised {
    pub(crate) seconds: u64,
    pub(crate) binary: String,
    pub(crate) arguments: Vec<String>,
}

/// The setting that makes cargo start test binaries through `own`, the program that runs now.
pub(super) fn cargo_config(own: &Path, seconds: u64) -> Result<String> {
    let own = own.to_str().ok_or_else(|| Failure::new("the workspace's path is not UTF-8: move it"))?;
    // In single quotes TOML takes everything as it is.
    Ok(format!("target.'cfg(all())'.runner=['{own}','{COMMAND}','{seconds}']"))
}

/// Runs it to its end or to its deadline; the exit code is its own.
pub(crate) fn run(supervised: &Supervised) -> ExitCode {
    let watch = Stopwatch::start();
    let name = name(&supervised.binary, env::var("CARGO_PKG_NAME").ok().as_deref());
    let mut child = match start(supervised) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{}: cannot be started ({error})", supervised.binary);
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
        accuse(supervised, &tests);
    }
    let code = child.wait().ok().and_then(|status| status.code());
    if in_time && code.is_none() {
        println!("test {name} ... FAILED\nthe binary was ended by a signal; tests that had not ended:");
        for test in unfinished(supervised, &tests) {
            println!("    {test}");
        }
    }
    println!("{}", output::closing_line(&name, watch.seconds()));
    match code {
        Some(code) if in_time => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        _ => ExitCode::FAILURE,
    }
}

fn start(supervised: &Supervised) -> io::Result<Child> {
    let mut command = Command::new(&supervised.binary);
    command.args(&supervised.arguments).args(TIMED).env(UNSTABLE, "1").stdout(Stdio::piped());
    command.spawn()
}

/// The lines as they come. A thread reads them: what the binary started may hold the pipe open after its end.
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

/// What the lines have said so far.
#[derive(Debug, Default)]
struct Tests {
    ended: BTreeSet<String>,
    /// Tests that the binary itself called slow.
    slow: BTreeSet<String>,
}

impl Tests {
    /// Passes the lines on until they end; false if that takes longer than the limit.
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
                    // Whoever reads us may have gone; the tests go on.
                    let _ = to.write_all(&line).and_then(|()| to.flush());
                    self.note(&String::from_utf8_lossy(&line));
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }

    fn note(&mut self, line: &str) {
        if let Some((test, _, _)) = output::test_line(line) {
            self.ended.insert(test.to_owned());
        } else if let Some(test) = output::running_line(line) {
            self.slow.insert(test.to_owned());
        }
    }

    /// Those that are known to run, or else those that have not ended.
    fn suspects(&self, all: Vec<String>) -> Vec<String> {
        let running: Vec<String> = self.slow.difference(&self.ended).cloned().collect();
        if !running.is_empty() {
            return running;
        }
        all.into_iter().filter(|test| !self.ended.contains(test)).take(NAMED_MAX).collect()
    }
}

/// Says which tests hang, in the form of a failed test.
fn accuse(supervised: &Supervised, tests: &Tests) {
    for test in unfinished(supervised, tests) {
        println!("test {test} ... FAILED");
        println!("    {test} had not ended when the binary's {} s were over", supervised.seconds);
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

/// The package, and which of its binaries: `oncebox-cli it` from `…/deps/it-0123456789abcdef`.
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
    fn a_binary_is_called_by_its_package_and_target() {
        assert_eq!(name("target/debug/deps/it-0123", Some("oncebox-cli")), "oncebox-cli it");
        assert_eq!(name("deps/oncebox_core-0123", Some("oncebox-core")), "oncebox-core unit tests");
        assert_eq!(name("deps/it-0123", None), "it");
    }

    #[test]
    fn cargo_is_told_in_one_setting() {
        let config = cargo_config(Path::new("/a b/xtask"), 9).unwrap();
        assert_eq!(config, "target.'cfg(all())'.runner=['/a b/xtask','run-test-binary','9']");
        config.parse::<toml::Table>().unwrap();
    }

    #[test]
    fn those_that_run_are_suspected_before_those_that_have_not_ended() {
        let mut tests = Tests::default();
        tests.note("test a ... ok\n");
        let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(tests.suspects(all()), ["b", "c"]);
        tests.note("test a has been running for over 60 seconds\n");
        tests.note("test c has been running for over 60 seconds\n");
        assert_eq!(tests.suspects(all()), ["c"]);
    }

    /// A binary that says nothing more is ended at its deadline.
    #[test]
    fn silence_has_an_end() {
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
