//! `oncebox demo`: webhooks come in, some twice, while a worker crashes and the server is killed; nothing is lost.

mod closing;
mod event;
mod letters;
mod random;
mod screen;
mod script;
mod sender;
mod server;
mod stage;
mod story;
mod worker;
mod world;

use std::path::Path;
use std::sync::Arc;

use crate::life;
use crate::trouble::Trouble;
use screen::Screen;
use script::{ARRIVALS_MAX, ARRIVALS_MIN, Script};
use stage::Stage;
use story::{Story, Tone};
use world::World;

/// Runs a server, sends it made-up webhooks, handles them with three workers, crashes one of them, kills the server, and
/// checks that nothing is lost.
///
/// The server is a process of its own, in a temporary directory; both are gone at the end.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many calls come in; a fifth of them are duplicates.
    #[arg(long, value_name = "N", default_value_t = 40,
        value_parser = clap::value_parser!(u64).range(ARRIVALS_MIN..=ARRIVALS_MAX))]
    messages: u64,
    /// The same seed makes up the same messages.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Plain lines as things happen, as on a pipe or with `NO_COLOR` set, instead of a table.
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Trouble> {
    let directory = tempfile::Builder::new().prefix("oncebox-demo-").tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        let place = place.display();
        Trouble::failed(format!("cannot write in {place} ({error}): set TMPDIR to a place with some room"))
    })?;
    let ended = life::of_its_own(async {
        tokio::select! {
            ended = show(arguments, directory.path()) => ended,
            () = hung_up() => Err(Trouble::Interrupted),
        }
    });
    let place = directory.path().display().to_string();
    let removed = directory.close().map_err(|error| {
        Trouble::failed(format!("{place} could not be removed ({error}): remove it by hand"))
    });
    ended.and(removed)
}

/// The demo from beginning to end.
async fn show(arguments: &Arguments, home: &Path) -> Result<(), Trouble> {
    let calls = usize::try_from(arguments.messages).unwrap_or(usize::MAX);
    let world = Arc::new(World::new(Script::write(calls, arguments.seed)));
    let mut screen = Screen::choose(arguments.plain)?;
    let mut stage = Stage::set(home, &world).await?;
    stage.play(&mut screen).await?;
    let (took, client) = (stage.started.elapsed(), stage.client.clone());
    let explained = stage.explained.take();
    let (story, server) = stage.clear().await?;
    let mut faults = closing::check(&client, &story).await?;
    screen.close(&closing::summary(&story, took))?;
    if let Some(message) = &explained {
        screen.close(&closing::explained(message))?;
    }
    let code = server.stop().await?;
    if code != Some(0) {
        faults.push(format!("the server was told to stop, and ended with {code:?} instead of 0"));
    }
    if !faults.is_empty() {
        let faults = faults.join("\n  ");
        return Err(Trouble::failed(format!("the check failed, please report this:\n  {faults}")));
    }
    Ok(screen.close(&verdict(&story))?)
}

/// What was found to be true.
fn verdict(story: &Story) -> [(Tone, String); 4] {
    let story::Tally { accepted, done, .. } = story.tally;
    [
        (Tone::Plain, String::new()),
        (Tone::Good, "The server agrees; told to stop, it ended with 0.".to_owned()),
        (Tone::Good, format!("Checked: {accepted} accepted = {done} handled + 0 left.")),
        (Tone::Good, "None lost, none after its acknowledgement.".to_owned()),
    ]
}

/// Ready when the terminal is closed: the server must not stay.
async fn hung_up() {
    use tokio::signal::unix::{SignalKind, signal};
    if let Ok(mut hangup) = signal(SignalKind::hangup()) {
        hangup.recv().await;
    } else {
        std::future::pending::<()>().await;
    }
}
