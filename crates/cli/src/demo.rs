//! `oncebox demo`: webhooks come in, some twice; two workers handle them, one crashes; nothing is lost.

mod closing;
mod event;
mod handlers;
mod letters;
mod observe;
mod random;
mod screen;
mod script;
mod story;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox::{Inbox, LastError, MessageState, Namespace, Oncebox, Operator, Query, Stopped};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::life;
use crate::trouble::Trouble;
use event::Event;
use handlers::World;
use observe::Observe;
use screen::Screen;
use script::{ARRIVALS_MAX, ARRIVALS_MIN, Fate, Script};
use story::{Line, Story};

/// How often the screen is drawn and the store is asked.
const TICK: Duration = Duration::from_millis(80);
/// So long the worker that is going to crash is seen at work.
const BEFORE_CRASH: Duration = Duration::from_millis(350);
/// Nothing takes so long, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes in made-up webhooks, handles them with two workers, crashes one of them, and checks that nothing is lost.
///
/// Everything happens in an embedded inbox in a temporary directory, which is removed at the end.
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
    keep_quiet_about_our_panics();
    let directory = tempfile::Builder::new().prefix("oncebox-demo-").tempdir().map_err(|error| {
        let place = std::env::temp_dir();
        let place = place.display();
        Trouble::failed(format!("cannot write in {place} ({error}): set TMPDIR to a place with some room"))
    })?;
    let ended = show(arguments, directory.path());
    let place = directory.path().display().to_string();
    let removed = directory.close().map_err(|error| {
        Trouble::failed(format!("{place} could not be removed ({error}): remove it by hand"))
    });
    ended.and(removed)
}

/// The demo from beginning to end.
fn show(arguments: &Arguments, directory: &Path) -> Result<(), Trouble> {
    let calls = usize::try_from(arguments.messages).unwrap_or(usize::MAX);
    let world = Arc::new(World::new(Script::write(calls, arguments.seed)?));
    let mut screen = Screen::choose(arguments.plain)?;
    let (story, took) = life::of_its_own(play(directory, &world, &mut screen))?;
    // What counts is what a restart finds.
    let faults = life::of_its_own(async {
        let oncebox = open(directory).await?;
        let faults = closing::check(&oncebox, &story).await?;
        oncebox.close().await?;
        Ok(faults)
    })?;
    screen.close(&closing::summary(&story, took))?;
    if !faults.is_empty() {
        let faults = faults.join("\n  ");
        return Err(Trouble::failed(format!("the check failed, please report this:\n  {faults}")));
    }
    let story::Tally { accepted, done, dead, .. } = story.tally;
    let text =
        format!("Checked after a restart: {accepted} accepted = {done} done + {dead} dead. None lost.");
    screen.close(&[(story::Tone::Good, text)])?;
    Ok(())
}

/// Everything until the last message has come to its end.
async fn play(
    directory: &Path,
    world: &Arc<World>,
    screen: &mut Screen,
) -> Result<(Story, Duration), Trouble> {
    let oncebox = open(directory).await?;
    let mut stage = Stage::set(&oncebox, world)?;
    stage.run(screen).await?;
    let took = stage.started.elapsed();
    let story = stage.clear().await?;
    oncebox.close().await?;
    Ok((story, took))
}

async fn open(directory: &Path) -> Result<Oncebox, Trouble> {
    let url = format!("embedded:{}", directory.display());
    Ok(Oncebox::builder().attempts_max(handlers::ATTEMPTS_MAX).open(&url).await?)
}

/// Everything that is under way.
struct Stage {
    story: Story,
    started: Instant,
    operator: Operator,
    events: UnboundedReceiver<Event>,
    sender: JoinHandle<Result<(), oncebox::Error>>,
    workers: Vec<Hand>,
    /// Who crashes, and when.
    crash: Option<(&'static str, Instant)>,
}

/// A worker of the demo.
struct Hand {
    name: &'static str,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Stopped, oncebox::Error>>,
}

impl Stage {
    fn set(oncebox: &Oncebox, world: &Arc<World>) -> Result<Self, Trouble> {
        let started = Instant::now();
        let (events, receiver) = mpsc::unbounded_channel();
        let mut workers = Vec::new();
        for name in ["worker A", "worker B"] {
            let observe = Observe { worker: name, world: world.clone(), events: events.clone() };
            let worker = handlers::worker(oncebox, world.clone(), observe)?;
            let (stop, stopped) = oneshot::channel::<()>();
            let task = tokio::spawn(worker.run(async { drop(stopped.await) }));
            workers.push(Hand { name, stop, task });
        }
        let sender = tokio::spawn(send(oncebox.inbox(), world.clone(), started, events));
        let (story, operator) = (Story::new(world.clone()), oncebox.operator("demo"));
        Ok(Self { story, started, operator, events: receiver, sender, workers, crash: None })
    }

    /// Until everything that was sent is Done or Dead.
    async fn run(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.tell(screen, event)?,
                _ = ticks.tick() => {
                    self.crash_if_time(screen)?;
                    self.look(screen).await?;
                    screen.draw(&self.story, self.started.elapsed())?;
                    if self.sender.is_finished() && self.events.is_empty() && self.story.is_over() {
                        return Ok(());
                    }
                    if self.started.elapsed() > PATIENCE {
                        let text = "some messages have come to no end after a minute: run it again on an idle machine";
                        return Err(Trouble::failed(text));
                    }
                }
            }
        }
    }

    /// Stops whoever is still there, gracefully.
    async fn clear(self) -> Result<Story, Trouble> {
        let ended = |error| Trouble::failed(format!("a task of the demo has failed: {error}"));
        self.sender.await.map_err(ended)??;
        for Hand { name, stop, task } in self.workers {
            if self.story.crashed != Some(name) {
                drop(stop);
                task.await.map_err(ended)??;
            }
        }
        Ok(self.story)
    }

    fn tell(&mut self, screen: &mut Screen, event: Event) -> Result<(), Trouble> {
        if let Event::Started { part, worker, delivery: 1 } = event
            && self.story.world.script.parts[part].fate == Fate::Crash
        {
            self.crash = Some((worker, Instant::now() + BEFORE_CRASH));
        }
        let lines: Vec<Line> = self.story.tell(self.started.elapsed(), event);
        Ok(screen.tell(&self.story, &lines)?)
    }

    /// Kills the worker as a power cut would: nothing is released, nothing is said.
    fn crash_if_time(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let Some((worker, at)) = self.crash else { return Ok(()) };
        if Instant::now() < at {
            return Ok(());
        }
        self.crash = None;
        self.tell(screen, Event::Crashed { worker })?;
        for hand in self.workers.iter().filter(|hand| hand.name == worker) {
            hand.task.abort();
        }
        Ok(())
    }

    /// Asks the store how the messages stand.
    async fn look(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let page = self.operator.page(&Query::all(Namespace::Inbox)).await?;
        // What handlers did before the store answered is told first.
        while let Ok(event) = self.events.try_recv() {
            self.tell(screen, event)?;
        }
        for message in page.messages {
            let Some(part) = self.story.world.script.find(message.key.id.as_str()) else { continue };
            let due = message.content.as_ref().and_then(|content| content.due);
            self.story.expect(part, message.lease().map(|lease| lease.until).or(message.retry_at).or(due));
            let error = message.last_error.as_ref().map(LastError::as_str).unwrap_or_default();
            match (message.state, message.dead) {
                (MessageState::Done, _) => self.tell(screen, Event::Done { part })?,
                (MessageState::Dead, Some(reason)) => {
                    self.tell(screen, Event::Dead { part, reason, error: error.to_owned() })?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Makes the calls of the script, each at its time.
async fn send(
    inbox: Inbox,
    world: Arc<World>,
    started: Instant,
    events: UnboundedSender<Event>,
) -> Result<(), oncebox::Error> {
    for arrival in &world.script.arrivals {
        tokio::time::sleep_until(started + arrival.at).await;
        let receipt = inbox.enqueue(arrival.message.clone()).await?;
        let (part, outcome, accepted_at) = (arrival.part, receipt.outcome, receipt.accepted_at);
        // Nobody listens any more when the demo is over.
        let _ = events.send(Event::Arrived { part, outcome, accepted_at });
    }
    Ok(())
}

/// A handler's panic is part of the demo; any other is told as usual.
fn keep_quiet_about_our_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let ours = panic.payload_as_str().is_some_and(|text| text.starts_with(handlers::PANIC));
        if !ours {
            usual(panic);
        }
    }));
}
