//! Reads the output of test binaries: the result and the time of each test.

use std::io::{self, BufRead, BufReader, Read, Write};

/// Start of the line that the supervisor prints after a binary, followed by its name, `: ` and the seconds.
const SUMMARY: &str = "test binary ";

/// The result of a call of `cargo test`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CallResult {
    pub(super) binaries: Vec<Binary>,
    /// The tests after the last summary line; all tests if there is no supervisor.
    pub(super) rest: Binary,
    /// Whether cargo succeeded.
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
    /// The tests with their seconds, if the binary reports them.
    pub(super) timed: Vec<(String, f64)>,
}

/// The status in the line of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestStatus {
    Passed,
    Failed,
    Skipped,
}

/// The summary line of a binary.
pub(super) fn summary_line(binary: &str, seconds: f64) -> String {
    format!("{SUMMARY}{binary}: {seconds:.1} s")
}

/// Copies `from` to `to` line by line, and collects the tests.
pub(super) fn pass_through(from: impl Read, mut to: impl Write) -> io::Result<CallResult> {
    let mut result = CallResult::default();
    let mut from = BufReader::new(from);
    // Bytes, not text: a test may print invalid UTF-8.
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        result.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(result)
}

impl CallResult {
    fn add(&mut self, line: &str) {
        if let Some((name, seconds)) = parse_summary(line) {
            let ended = std::mem::take(&mut self.rest);
            self.binaries.push(Binary { name: name.to_owned(), seconds, ..ended });
        } else if let Some((name, ended, seconds)) = test_line(line) {
            self.rest.timed.extend(seconds.map(|seconds| (name.to_owned(), seconds)));
            match ended {
                TestStatus::Passed => self.rest.passed += 1,
                TestStatus::Skipped => self.rest.skipped += 1,
                TestStatus::Failed => {
                    self.rest.failed += 1;
                    self.rest.failures.push(name.to_owned());
                }
            }
        }
    }
}

fn parse_summary(line: &str) -> Option<(&str, f64)> {
    let (name, seconds) = line.trim_end().strip_prefix(SUMMARY)?.rsplit_once(": ")?;
    Some((name, seconds.strip_suffix(" s")?.parse().ok()?))
}

/// Parses `test a::b ... ok`, optionally followed by ` <1.234s>`.
pub(super) fn test_line(line: &str) -> Option<(&str, TestStatus, Option<f64>)> {
    let (name, end) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let seconds = end.rsplit_once(" <").and_then(|(_, seconds)| seconds.strip_suffix("s>")?.parse().ok());
    let ended = match end.split([' ', ',']).next()? {
        "ok" => TestStatus::Passed,
        "FAILED" => TestStatus::Failed,
        "ignored" => TestStatus::Skipped,
        _ => return None,
    };
    Some((name, ended, seconds))
}

/// Parses `test a::b has been running for over 60 seconds`.
pub(super) fn running_line(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("test ")?.split_once(" has been running for over ").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_binary_and_all_lines_copied() {
        let output = "running 4 tests\n\
            test a::b ... ok <1.250s>\n\
            test a::c ... FAILED <0.500s>\n\
            test a::d ... ignored, needs a name\n\
            test a::e - should panic ... ok\n\
            test binary oncebox-core unit tests: 2.5 s\n\
            test README.md - (line 3) ... ok\n\
            12 passed, said a test\n";
        let mut copy = Vec::new();
        let result = pass_through(output.as_bytes(), &mut copy).unwrap();
        let [binary] = &result.binaries[..] else { panic!("{result:?}") };
        assert_eq!(binary.name, "oncebox-core unit tests");
        assert_eq!((binary.passed, binary.failed, binary.skipped), (2, 1, 1));
        assert_eq!(binary.failures, ["a::c"]);
        assert_eq!(binary.timed, [("a::b".to_owned(), 1.25), ("a::c".to_owned(), 0.5)]);
        assert_eq!(summary_line(&binary.name, binary.seconds), "test binary oncebox-core unit tests: 2.5 s");
        assert_eq!(result.rest.passed, 1);
        assert_eq!(copy, output.as_bytes());
    }

    #[test]
    fn invalid_utf8_is_copied() {
        let mut copy = Vec::new();
        assert_eq!(pass_through(&b"\xff\n\xfe"[..], &mut copy).unwrap(), CallResult::default());
        assert_eq!(copy, b"\xff\n\xfe");
    }

    #[test]
    fn parses_lines_of_slow_tests() {
        assert_eq!(running_line("test a::b has been running for over 60 seconds\n"), Some("a::b"));
        assert_eq!(running_line("test a::b ... ok\n"), None);
    }
}
