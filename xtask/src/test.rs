//! `cargo xtask test`: every test and doc test of the workspace, summed up in one closing line.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::programs;
use crate::workspace::Workspace;

/// Without target flags cargo tests libraries, binaries and integration tests, builds the examples, and then
/// runs the doc tests; benchmarks stay out.
const CALL: Call<'_> = Call { environment: &[], arguments: &["test", "--workspace", "--no-fail-fast"] };

/// The sums over all test binaries of a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    programs::provide()?;
    totals(workspace, &CALL).map(|totals| totals.to_string())
}

/// Runs a call of `cargo test` with its output in sight and adds up its result lines. A failure prints the
/// sums before it is returned.
pub(crate) fn totals(workspace: &Workspace, call: &Call<'_>) -> Result<Totals> {
    let mut child =
        call.command(workspace).stdout(Stdio::piped()).spawn().map_err(|error| call.cannot_start(&error))?;
    let mut totals = Totals::default();
    if let Some(output) = child.stdout.take() {
        totals = pass_through(output, io::stdout())
            .map_err(|error| Failure::new(format!("the tests' output was lost ({error}); run `{call}`")))?;
    }
    let status = child.wait().map_err(|error| call.cannot_start(&error))?;
    if status.success() && totals.failed == 0 {
        return Ok(totals);
    }
    println!("{totals}");
    Err(Failure::new(if totals.failed > 0 {
        "tests failed: their names and messages stand above"
    } else {
        "a test binary was not built or did not finish: see above"
    }))
}

/// Copies `from` to `to`, line by line as they come, and adds up the result lines.
fn pass_through(from: impl Read, mut to: impl Write) -> io::Result<Totals> {
    let mut totals = Totals::default();
    let mut from = BufReader::new(from);
    // Bytes, not text: a test may print anything.
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        totals.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(totals)
}

impl Totals {
    /// Adds the counts of a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for count in counts.split(';') {
            let mut words = count.split_whitespace().rev();
            let (what, number) = (words.next(), words.next().and_then(|number| number.parse::<u64>().ok()));
            match (what, number) {
                (Some("passed"), Some(number)) => self.passed += number,
                (Some("failed"), Some(number)) => self.failed += number,
                (Some("ignored"), Some(number)) => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_add_up_and_all_lines_pass() {
        let output = "running 4 tests\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
            test result: \u{1b}[31mFAILED\u{1b}[0m. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n\
            12 passed, said a test\n";
        let mut copy = Vec::new();
        let totals = pass_through(output.as_bytes(), &mut copy).unwrap();
        assert_eq!(totals, Totals { passed: 13, failed: 2, skipped: 1 });
        assert_eq!(totals.to_string(), "13 passed, 2 failed, 1 skipped");
        assert_eq!(copy, output.as_bytes());
    }

    #[test]
    fn bytes_that_are_no_text_pass_too() {
        let mut copy = Vec::new();
        assert_eq!(pass_through(&b"\xff\n\xfe"[..], &mut copy).unwrap(), Totals::default());
        assert_eq!(copy, b"\xff\n\xfe");
    }
}
