//! `oncebox demo`: sends webhooks, some of them twice, while a worker crashes and the server is killed, and checks that
//! nothing is lost.

mod context;
mod event;
mod random;
mod scenario;
mod screen;
mod sender;
mod server;
mod simulation;
mod summary;
mod tracker;
mod webhook;
mod worker;

use std::path::Path;
use std::sync::Arc;

use crate::error::CliError;
use crate::runtime;
use context::Context;
use scenario::{CALLS_MAX, CALLS_MIN, Scenario};
use screen::Screen;
use simulation::Simulation;
use tracker::{Tone, Tracker};

/// Run a scripted scenario: start a server, send it generated webhooks, handle them with three workers, crash one
/// worker, kill the server, and check that nothing is lost.
///
/// The server is a separate process with its data in a temporary directory; both are removed at the end.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of webhook calls; a fifth of them are duplicates.
    #[arg(long, value_name = "N", default_value_t = 40,
        value_parser = clap::value_parser!(u64).range(CALLS_MIN..=CALLS_MAX))]
    messages: u64,
    /// Seed for the generated messages; the same seed generates the same messages.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print one line per event instead of a live table; the default on a pipe or with `NO_COLOR` set.
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    let directory = tempfile::Builder::new().prefix("oncebox-demo-").tempdir().map_err(|error| {
        let directory = std::env::temp_dir();
        let directory = directory.display();
        CliError::failed(format!(
            "cannot write to {directory} ({error}): set TMPDIR to a writable directory with free space"
        ))
    })?;
    let result = runtime::block_on(async {
        tokio::select! {
            result = show(arguments, directory.path()) => result,
            () = terminal_closed() => Err(CliError::Interrupted),
        }
    });
    let path = directory.path().display().to_string();
    let removed = directory
        .close()
        .map_err(|error| CliError::failed(format!("cannot remove {path} ({error}): remove it manually")));
    result.and(removed)
}

/// Runs the demo from start to end.
async fn show(arguments: &Arguments, directory: &Path) -> Result<(), CliError> {
    let call_count = usize::try_from(arguments.messages).unwrap_or(usize::MAX);
    let context = Arc::new(Context::new(Scenario::generate(call_count, arguments.seed)));
    let mut screen = Screen::choose(arguments.plain)?;
    let mut simulation = Simulation::start(directory, &context).await?;
    simulation.run(&mut screen).await?;
    let (elapsed, client) = (simulation.started.elapsed(), simulation.client.clone());
    let explained = simulation.explained.take();
    let (tracker, server) = simulation.finish().await?;
    let mut violations = summary::check(&client, &tracker).await?;
    screen.print_summary(&summary::totals(&tracker, elapsed))?;
    if let Some(message) = &explained {
        screen.print_summary(&summary::dead_letter(message))?;
    }
    let code = server.stop().await?;
    if code != Some(0) {
        violations.push(format!("the server exited with {code:?} instead of 0 after SIGTERM"));
    }
    if !violations.is_empty() {
        let violations = violations.join("\n  ");
        return Err(CliError::failed(format!("the check failed, please report this:\n  {violations}")));
    }
    Ok(screen.print_summary(&verdict(&tracker))?)
}

/// The result of the checks.
fn verdict(tracker: &Tracker) -> [(Tone, String); 4] {
    let tracker::Totals { accepted, done, .. } = tracker.totals;
    [
        (Tone::Plain, String::new()),
        (Tone::Good, "The server's own counts agree, and it shut down cleanly (exit code 0).".to_owned()),
        (Tone::Good, format!("Checked: {accepted} accepted = {done} handled + 0 unfinished.")),
        (Tone::Good, "None lost, and none delivered again after its acknowledgement.".to_owned()),
    ]
}

/// Completes on SIGHUP, so that the server does not outlive the terminal.
async fn terminal_closed() {
    use tokio::signal::unix::{SignalKind, signal};
    if let Ok(mut hangup) = signal(SignalKind::hangup()) {
        hangup.recv().await;
    } else {
        std::future::pending::<()>().await;
    }
}
