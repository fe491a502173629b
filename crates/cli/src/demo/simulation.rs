//! The running demo: the server process, the senders, the workers, and a task that watches for dead letters.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::operator::{ListDeadRequest, MessageDetails, RedriveRequest};
use oncebox_client::{Client, ClientError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::context::{Context, TOPIC};
use super::event::Event;
use super::scenario::SOURCES;
use super::screen::Screen;
use super::sender::Sender;
use super::server::{Server, until_ready};
use super::tracker::{Line, Tone, Tracker};
use super::worker::Worker;
use crate::error::CliError;
use crate::value;

/// How often the screen is redrawn.
const REDRAW_INTERVAL: Duration = Duration::from_millis(80);
/// How often dead letters are listed.
const DEAD_LETTER_POLL: Duration = Duration::from_millis(150);
/// How long the server stays down after it was killed.
const DOWNTIME: Duration = Duration::from_millis(350);
/// Time limit of the whole run and of each call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// In effect unlimited: a call is retried until its timeout.
const RETRIES: u32 = 1_000;
/// One page holds every dead letter that a demo can have.
const DEAD_MAX: u32 = 1_000;

pub(super) struct Simulation {
    pub(super) tracker: Tracker,
    pub(super) started: Instant,
    pub(super) client: Client,
    /// A dead letter as it was before it was redriven.
    pub(super) explained: Option<MessageDetails>,
    context: Arc<Context>,
    server: Server,
    server_phase: ServerPhase,
    events: UnboundedReceiver<Event>,
    /// Cloned for tasks that start later.
    event_sender: UnboundedSender<Event>,
    senders: JoinSet<Result<(), ClientError>>,
    background: JoinSet<Result<(), ClientError>>,
}

/// The state of the server process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerPhase {
    /// Running; it will be killed.
    BeforeKill,
    /// Killed; it is restarted at this time.
    Down(Instant),
    /// Running again; it is not killed a second time.
    Restarted,
}

impl Simulation {
    /// Starts the server, the senders, the workers and the dead-letter watcher.
    pub(super) async fn start(directory: &Path, context: &Arc<Context>) -> Result<Self, CliError> {
        let server = Server::start(directory).await?;
        let client =
            Client::builder(&server.address()).retries(RETRIES).timeout(TIMEOUT).actor("demo").build()?;
        let started = Instant::now();
        let (event_sender, events) = mpsc::unbounded_channel();
        let (mut senders, mut background) = (JoinSet::new(), JoinSet::new());
        for source in SOURCES {
            let (client, context, events) = (client.clone(), context.clone(), event_sender.clone());
            senders.spawn(Sender { source, client, context, events }.send(started));
        }
        for name in ["worker A", "worker B", "worker C"] {
            let (client, context, events) = (client.clone(), context.clone(), event_sender.clone());
            background.spawn(Worker { name, client, context, events }.work());
        }
        background.spawn(watch_dead_letters(client.clone(), context.clone(), event_sender.clone()));
        let (tracker, context) = (Tracker::new(context.clone()), context.clone());
        let explained = None;
        Ok(Self {
            tracker,
            started,
            client,
            explained,
            context,
            server,
            server_phase: ServerPhase::BeforeKill,
            events,
            event_sender,
            senders,
            background,
        })
    }

    /// Runs until every message that was sent is handled; dead letters are redriven after the bug is fixed.
    pub(super) async fn run(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        loop {
            self.run_until_settled(screen).await?;
            if self.tracker.dead() == 0 {
                return Ok(());
            }
            self.redrive(screen).await?;
        }
    }

    /// Runs until all calls are answered and every message is acknowledged or a dead letter.
    async fn run_until_settled(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        let mut ticks = interval(REDRAW_INTERVAL);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.record(screen, event)?,
                _ = ticks.tick() => {
                    self.supervise(screen)?;
                    screen.draw(&self.tracker, self.started.elapsed())?;
                    if self.senders.is_empty() && self.server_phase == ServerPhase::Restarted && self.events.is_empty() && self.tracker.is_settled() {
                        return Ok(());
                    }
                    if self.started.elapsed() > TIMEOUT {
                        let text = "some messages are still unfinished after 60 s: run the demo again on an idle machine";
                        return Err(CliError::failed(text));
                    }
                }
            }
        }
    }

    /// Checks the tasks and the server; kills the server once half of the calls are answered, and restarts it.
    fn supervise(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        let task_failed = |error| CliError::failed(format!("a demo task failed: {error}"));
        while let Some(task) = self.senders.try_join_next().or_else(|| self.background.try_join_next()) {
            task.map_err(task_failed)??;
        }
        match self.server_phase {
            ServerPhase::BeforeKill
                if self.tracker.totals.calls() * 2 >= self.context.scenario.calls.len() =>
            {
                self.server.kill()?;
                self.server_phase = ServerPhase::Down(Instant::now() + DOWNTIME);
                self.record(screen, Event::Killed)
            }
            ServerPhase::Down(until) if Instant::now() >= until => {
                self.server.restart()?;
                self.server_phase = ServerPhase::Restarted;
                let (client, events) = (self.client.clone(), self.event_sender.clone());
                tokio::spawn(async move {
                    // If the server does not become ready, pending calls fail and report it.
                    if until_ready(client).await.is_ok() {
                        let _ = events.send(Event::Ready);
                    }
                });
                self.record(screen, Event::Restarted)
            }
            ServerPhase::BeforeKill | ServerPhase::Restarted => self.server.check_running(),
            ServerPhase::Down(_) => Ok(()),
        }
    }

    /// Shows the dead letters, fixes the bug, and redrives them.
    async fn redrive(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        let dead = dead_letters(&self.client).await?;
        for message in &dead {
            let reason = message.reason.map_or("dead".to_owned(), value::wire_name);
            let error = message.last_error.as_deref().unwrap_or_default();
            let index = self.context.scenario.find(&message.id);
            self.print_operator(screen, Tone::Bad, "inspected", index, format!("{reason}: {error}"))?;
        }
        if let Some(message) = dead.first() {
            self.explained.get_or_insert_with(|| message.clone());
        }
        self.context.fixed.set();
        self.print_operator(
            screen,
            Tone::Good,
            "fixed",
            None,
            "the bug: handlers can read v2 now".to_owned(),
        )?;
        let ids: Vec<_> = dead.iter().map(|message| message.msg_id.clone()).collect();
        // Recorded before the call: a worker may receive a message before the call returns.
        let indexes: Vec<_> =
            dead.iter().filter_map(|message| self.context.scenario.find(&message.id)).collect();
        for index in indexes {
            self.record(screen, Event::Redriven { index })?;
        }
        let (requested, limit) = (ids.len(), u32::try_from(ids.len()).ok());
        let swept = self
            .client
            .redrive_dead_letters(&RedriveRequest { ids, limit, ..RedriveRequest::default() })
            .await?;
        if usize::try_from(swept.changed) != Ok(requested) {
            let text = format!("{requested} dead letters were to be redriven, but {} were", swept.changed);
            self.record(screen, Event::Violation(text))?;
        }
        Ok(())
    }

    /// Stops the workers and the watcher; the server keeps running.
    pub(super) async fn finish(mut self) -> Result<(Tracker, Server), CliError> {
        let task_failed = |error| CliError::failed(format!("a demo task failed: {error}"));
        self.context.finished.set();
        while let Some(task) = self.background.join_next().await {
            task.map_err(task_failed)??;
        }
        while let Ok(event) = self.events.try_recv() {
            // These events are not printed, but they can be violations.
            self.tracker.record(self.started.elapsed(), event);
        }
        Ok((self.tracker, self.server))
    }

    fn record(&mut self, screen: &mut Screen, event: Event) -> Result<(), CliError> {
        let lines = self.tracker.record(self.started.elapsed(), event);
        Ok(screen.print(&self.tracker, &lines)?)
    }

    /// Prints a line about the operator.
    fn print_operator(
        &self,
        screen: &mut Screen,
        tone: Tone,
        action: &'static str,
        index: Option<usize>,
        detail: String,
    ) -> Result<(), CliError> {
        let line = Line { at: self.started.elapsed(), tone, actor: "operator", action, index, detail };
        Ok(screen.print(&self.tracker, &[line])?)
    }
}

/// Emits an event for every listed dead letter until the demo is finished.
async fn watch_dead_letters(
    client: Client,
    context: Arc<Context>,
    events: UnboundedSender<Event>,
) -> Result<(), ClientError> {
    while !context.finished.is_set() {
        for message in dead_letters(&client).await? {
            let Some(index) = context.scenario.find(&message.id) else { continue };
            let (error, at) =
                (message.last_error.unwrap_or_default(), message.finished_at.unwrap_or_default());
            let _ = events.send(Event::Dead { index, reason: message.reason, error, at });
        }
        sleep(DEAD_LETTER_POLL).await;
    }
    Ok(())
}

async fn dead_letters(client: &Client) -> Result<Vec<MessageDetails>, ClientError> {
    let list = ListDeadRequest {
        topic: Some(TOPIC.to_owned()),
        limit: Some(DEAD_MAX),
        ..ListDeadRequest::default()
    };
    Ok(client.dlq(&list).await?.messages)
}
