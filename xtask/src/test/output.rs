//! Reading the output of test binaries: which tests ended how, in which binary, and how long each took.

use std::io::{self, BufRead, BufReader, Read, Write};

/// How the supervisor closes the output of a binary: this, its name, `: ` and the seconds.
const CLOSING: &str = "test binary ";

/// What was seen of one call of `cargo test`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) binaries: Vec<Binary>,
    /// What came after the last binary closed, or all if no supervisor was there.
    pub(super) rest: Binary,
    /// Whether cargo itself was content.
    pub(super) success: bool,
}

/// The tests of one binary.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Binary {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    /// The names of failed tests.
    pub(super) failures: Vec<String>,
    /// The tests with their seconds, where the binary told.
    pub(super) timed: Vec<(String, f64)>,
}

/// How a test ended, as its line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Passed,
    Failed,
    Skipped,
}

/// The closing line of a binary.
pub(super) fn closing_line(binary: &str, seconds: f64) -> String {
    format!("{CLOSING}{binary}: {seconds:.1} s")
}

/// Copies `from` to `to`, line by line as they come, and notes the tests.
pub(super) fn pass_through(from: impl Read, mut to: impl Write) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut from = BufReader::new(from);
    // Bytes, not text: a test may print anything.
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        seen.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(seen)
}

impl Seen {
    fn add(&mut self, line: &str) {
        if let Some((name, seconds)) = closing(line) {
            let ended = std::mem::take(&mut self.rest);
            self.binaries.push(Binary { name: name.to_owned(), seconds, ..ended });
        } else if let Some((name, ended, seconds)) = test_line(line) {
            self.rest.timed.extend(seconds.map(|seconds| (name.to_owned(), seconds)));
            match ended {
                Ended::Passed => self.rest.passed += 1,
                Ended::Skipped => self.rest.skipped += 1,
                Ended::Failed => {
                    self.rest.failed += 1;
                    self.rest.failures.push(name.to_owned());
                }
            }
        }
    }
}

fn closing(line: &str) -> Option<(&str, f64)> {
    let (name, seconds) = line.trim_end().strip_prefix(CLOSING)?.rsplit_once(": ")?;
    Some((name, seconds.strip_suffix(" s")?.parse().ok()?))
}

/// Reads `test a::b ... ok`, perhaps followed by ` <1.234s>`.
pub(super) fn test_line(line: &str) -> Option<(&str, Ended, Option<f64>)> {
    let (name, end) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let seconds = end.rsplit_once(" <").and_then(|(_, seconds)| seconds.strip_suffix("s>")?.parse().ok());
    let ended = match end.split([' ', ',']).next()? {
        "ok" => Ended::Passed,
        "FAILED" => Ended::Failed,
        "ignored" => Ended::Skipped,
        _ => return None,
    };
    Some((name, ended, seconds))
}

/// Reads `test a::b has been running for over 60 seconds`.
pub(super) fn running_line(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("test ")?.split_once(" has been running for over ").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_binary_and_all_lines_pass() {
        let output = "running 4 tests\n\
            test a::b ... ok <1.250s>\n\
            test a::c ... FAILED <0.500s>\n\
            test a::d ... ignored, needs a name\n\
            test a::e - should panic ... ok\n\
            test binary oncebox-core unit tests: 2.5 s\n\
            test README.md - (line 3) ... ok\n\
            12 passed, said a test\n";
        let mut copy = Vec::new();
        let seen = pass_through(output.as_bytes(), &mut copy).unwrap();
        let [binary] = &seen.binaries[..] else { panic!("{seen:?}") };
        assert_eq!(binary.name, "oncebox-core unit tests");
        assert_eq!((binary.passed, binary.failed, binary.skipped), (2, 1, 1));
        assert_eq!(binary.failures, ["a::c"]);
        assert_eq!(binary.timed, [("a::b".to_owned(), 1.25), ("a::c".to_owned(), 0.5)]);
        assert_eq!(closing_line(&binary.name, binary.seconds), "test binary oncebox-core unit tests: 2.5 s");
        assert_eq!(seen.rest.passed, 1);
        assert_eq!(copy, output.as_bytes());
    }

    #[test]
    fn bytes_that_are_no_text_pass_too() {
        let mut copy = Vec::new();
        assert_eq!(pass_through(&b"\xff\n\xfe"[..], &mut copy).unwrap(), Seen::default());
        assert_eq!(copy, b"\xff\n\xfe");
    }

    #[test]
    fn a_test_that_runs_long_is_named() {
        assert_eq!(running_line("test a::b has been running for over 60 seconds\n"), Some("a::b"));
        assert_eq!(running_line("test a::b ... ok\n"), None);
    }
}
