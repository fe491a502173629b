//! `cargo xtask test`: every test and doc test of the workspace, with the time of each test binary; or some packages,
//! several times, with all cores kept busy by others.

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
use output::Seen;
use report::Report;

/// How long one test binary may run, in seconds.
const BINARY_SECONDS_MAX: u64 = 600;
/// How much longer under load.
const LOAD_FACTOR: u64 = 4;

/// Everything, once: what CI runs.
pub(crate) fn run_all(workspace: &Workspace) -> Result<String> {
    run(workspace, &Options::default())
}

pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<String> {
    programs::provide()?;
    // Asked for before the build, which may put a new file in its place.
    let own =
        env::current_exe().map_err(|error| Failure::new(format!("xtask does not find itself ({error})")))?;
    let total = Stopwatch::start();
    let mut report = Report::default();
    let packages = options.packages();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();

    let build = Stopwatch::start();
    Call { environment: &[], arguments: &[&["test", "--no-run"], &*packages].concat() }.run(workspace)?;
    report.phase("build", build.seconds());

    let seconds = if options.under_load { BINARY_SECONDS_MAX * LOAD_FACTOR } else { BINARY_SECONDS_MAX };
    let runner = supervisor::cargo_config(&own, seconds)?;
    let tests = [&["test", "--tests", "--no-fail-fast", "--config", runner.as_str()], &*packages].concat();
    let load = options.under_load.then(|| Load::start(&own)).transpose()?;
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

/// Runs a call of `cargo test` with its output in sight. A failure prints the sums before it is returned.
pub(crate) fn passed(workspace: &Workspace, call: &Call<'_>) -> Result<u64> {
    let mut report = Report::default();
    report.round(run_call(workspace, call)?);
    let passed = report.passed();
    report.verdict().map(|_| passed)
}

/// What was seen of a call of `cargo test`, whether or not it succeeded.
fn run_call(workspace: &Workspace, call: &Call<'_>) -> Result<Seen> {
    let mut child =
        call.command(workspace).stdout(Stdio::piped()).spawn().map_err(|error| call.cannot_start(&error))?;
    let mut seen = Seen::default();
    if let Some(output) = child.stdout.take() {
        seen = output::pass_through(output, io::stdout())
            .map_err(|error| Failure::new(format!("the tests' output was lost ({error}); run `{call}`")))?;
    }
    let status = child.wait().map_err(|error| call.cannot_start(&error))?;
    seen.success = status.success();
    Ok(seen)
}
