//! `cargo xtask test`: runs all tests and doc tests of the workspace and reports the time of each test binary.
//! Optionally only some packages, repeatedly, or with all cores kept busy.

mod load;
mod options;
mod output;
mod report;
pub(crate) mod supervisor;

use std::env;
use std::io;
use std::process::Stdio;

use crate::cargo::Call;
use crate::failure::{Failure, Result};
use crate::programs;
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;
use load::Load;
pub(crate) use load::spin;
pub(crate) use options::Options;
use output::CallResult;
use report::Report;

/// Time limit of a test binary, in seconds.
const BINARY_SECONDS_MAX: u64 = 600;
/// The time limit is this many times longer under load.
const LOAD_FACTOR: u64 = 4;

/// Runs everything once, as in CI.
pub(crate) fn run_all(workspace: &Workspace) -> Result<String> {
    run(workspace, &Options::default())
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<String> {
    programs::ensure_installed()?;
    // Before the build, which may replace the file.
    let xtask = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find the xtask executable ({error})")))?;
    let total = Stopwatch::start();
    let mut report = Report::default();
    let packages = options.packages();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();

    let build = Stopwatch::start();
    Call { environment: &[], arguments: &[&["test", "--no-run"], &*packages].concat() }.run(workspace)?;
    report.phase("build", build.seconds());

    let seconds = if options.under_load { BINARY_SECONDS_MAX * LOAD_FACTOR } else { BINARY_SECONDS_MAX };
    let runner = supervisor::cargo_config(&xtask, seconds)?;
    let tests = [&["test", "--tests", "--no-fail-fast", "--config", runner.as_str()], &*packages].concat();
    let load = options.under_load.then(|| Load::start(&xtask)).transpose()?;
    for round in 1..=options.repeat {
        if options.repeat > 1 {
            println!("test: round {round} of {}", options.repeat);
        }
        report.round(run_call(workspace, &Call { environment: &[], arguments: &tests })?);
    }
    drop(load);
    if options.packages.is_empty() {
        let docs = Stopwatch::start();
        let arguments = ["test", "--workspace", "--doc", "--no-fail-fast"];
        report.docs(run_call(workspace, &Call { environment: &[], arguments: &arguments })?);
        report.phase("doc tests", docs.seconds());
    }
    report.phase("total", total.seconds());
    println!("{report}");
    report.verdict()
}

/// Runs `cargo test` with visible output and returns the number of passed tests. On failure, prints the totals.
pub(crate) fn passed(workspace: &Workspace, call: &Call<'_>) -> Result<u64> {
    let mut report = Report::default();
    report.round(run_call(workspace, call)?);
    let passed = report.passed();
    report.verdict().map(|_| passed)
}

/// Runs `cargo test` and returns its result, whether or not it succeeded.
fn run_call(workspace: &Workspace, call: &Call<'_>) -> Result<CallResult> {
    let mut child =
        call.command(workspace).stdout(Stdio::piped()).spawn().map_err(|error| call.cannot_start(&error))?;
    let mut result = CallResult::default();
    if let Some(output) = child.stdout.take() {
        result = output::pass_through(output, io::stdout()).map_err(|error| {
            Failure::new(format!("cannot read the output of the tests ({error}); run `{call}`"))
        })?;
    }
    let status = child.wait().map_err(|error| call.cannot_start(&error))?;
    result.success = status.success();
    Ok(result)
}
