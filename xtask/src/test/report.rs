//! The report of a test run: times, the slowest tests, and failures by name.

use std::collections::BTreeMap;
use std::fmt;

use super::output::{Binary, CallResult};
use crate::failure::{Failure, Result};

/// Number of slowest tests shown.
const SLOWEST: usize = 15;
/// Time limit for a complete run, build included.
const TOTAL_SECONDS_MAX: f64 = 1_200.0;

/// Totals over all rounds.
#[derive(Debug, Default)]
pub(super) struct Report {
    rounds: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
    /// A call failed without a failed test: a build failed or a process died.
    broken: bool,
    phases: Vec<(&'static str, f64)>,
    /// Binaries with their seconds, summed over the rounds.
    binaries: BTreeMap<String, f64>,
    /// Tests with their seconds in the slowest round.
    tests: BTreeMap<String, f64>,
    /// Tests with the number of rounds in which they failed.
    failures: BTreeMap<String, u64>,
}

impl Report {
    pub(super) fn phase(&mut self, name: &'static str, seconds: f64) {
        self.phases.push((name, seconds));
    }

    pub(super) fn round(&mut self, result: CallResult) {
        self.rounds += 1;
        self.docs(result);
    }

    /// Adds tests that run once and not in every round.
    pub(super) fn docs(&mut self, result: CallResult) {
        let before = self.failed;
        for binary in result.binaries.into_iter().chain([result.rest]) {
            self.add(binary);
        }
        self.broken |= !result.success && self.failed == before;
    }

    fn add(&mut self, binary: Binary) {
        self.passed += binary.passed;
        self.failed += binary.failed;
        self.skipped += binary.skipped;
        let full = |test: &str| [&*binary.name, test].join(" ").trim_start().to_owned();
        for test in &binary.failures {
            *self.failures.entry(full(test)).or_default() += 1;
        }
        for (test, seconds) in &binary.timed {
            let longest = self.tests.entry(full(test)).or_default();
            *longest = longest.max(*seconds);
        }
        if !binary.name.is_empty() {
            *self.binaries.entry(binary.name).or_default() += binary.seconds;
        }
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The summary line, or why the run failed.
    pub(super) fn verdict(&self) -> Result<String> {
        let Self { rounds, passed, failed, skipped, .. } = self;
        let times = if *rounds > 1 { format!(" in {rounds} rounds") } else { String::new() };
        let totals = format!("{passed} passed, {failed} failed, {skipped} skipped{times}");
        if *failed > 0 {
            println!("{totals}");
            return Err(Failure::new("tests failed: see above for their names and messages"));
        }
        if self.broken {
            println!("{totals}");
            return Err(Failure::new("a test binary did not build or did not finish: see above"));
        }
        Ok(totals)
    }
}

/// The entries with the largest numbers, largest first.
fn largest<'a>(entries: impl Iterator<Item = (&'a String, &'a f64)>, count: usize) -> Vec<(&'a String, f64)> {
    let mut sorted: Vec<_> = entries.map(|(name, number)| (name, *number)).collect();
    sorted.sort_by(|one, other| other.1.total_cmp(&one.1));
    sorted.truncate(count);
    sorted
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "\nslowest tests (seconds, in their slowest round):")?;
        for (name, seconds) in largest(self.tests.iter(), SLOWEST) {
            writeln!(formatter, "{seconds:>9.1}  {name}")?;
        }
        writeln!(formatter, "\ntest binaries (seconds, all rounds):")?;
        for (name, seconds) in largest(self.binaries.iter(), usize::MAX) {
            writeln!(formatter, "{seconds:>9.1}  {name}")?;
        }
        writeln!(formatter)?;
        for (name, seconds) in &self.phases {
            writeln!(formatter, "{seconds:>9.1}  {name}")?;
            if *name == "total" && self.rounds == 1 && *seconds > TOTAL_SECONDS_MAX {
                writeln!(formatter, "           over the limit of {TOTAL_SECONDS_MAX} s for a run")?;
            }
        }
        if !self.failures.is_empty() {
            writeln!(formatter, "\nfailed (rounds of {}):", self.rounds)?;
            for (name, rounds) in &self.failures {
                writeln!(formatter, "{rounds:>9}  {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(failures: &[&str], success: bool) -> CallResult {
        let failures: Vec<String> = failures.iter().map(|name| (*name).to_owned()).collect();
        let failed = failures.len() as u64;
        let timed = vec![("fast".to_owned(), 0.1), ("slow".to_owned(), 7.0)];
        let binary =
            Binary { name: "a it".to_owned(), seconds: 9.0, passed: 2, failed, skipped: 1, failures, timed };
        CallResult { binaries: vec![binary], rest: Binary::default(), success }
    }

    #[test]
    fn rounds_add_up_and_failures_are_counted_by_name() {
        let mut report = Report::default();
        report.round(result(&["slow"], false));
        report.round(result(&[], true));
        report.round(result(&["slow"], false));
        report.phase("total", 30.0);
        let text = report.to_string();
        for line in ["      7.0  a it slow", "     27.0  a it", "     30.0  total", "        2  a it slow"] {
            assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
        }
        assert!(text.find("a it slow").unwrap() < text.find("a it fast").unwrap());
        report.verdict().unwrap_err();
    }

    #[test]
    fn a_call_that_fails_without_a_failed_test_is_a_failure() {
        let mut report = Report::default();
        report.round(result(&[], true));
        assert_eq!(report.verdict().unwrap(), "2 passed, 0 failed, 1 skipped");
        report.round(result(&[], false));
        assert!(report.verdict().unwrap_err().to_string().contains("did not finish"));
    }

    #[test]
    fn a_run_over_the_time_limit_is_reported() {
        let mut report = Report::default();
        report.round(result(&[], true));
        report.phase("total", 1_201.0);
        assert!(report.to_string().contains("over the limit of 1200 s"));
    }
}
