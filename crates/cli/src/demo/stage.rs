//! Everything that is under way while the demo runs: the server, senders, workers, and somebody who looks at dead letters.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::operator::{ListDead, Message, Redrive};
use oncebox_client::{Client, Error};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::event::Event;
use super::screen::Screen;
use super::script::SOURCES;
use super::sender::Sender;
use super::server::{Server, until_ready};
use super::story::{Line, Story, Tone};
use super::worker::Worker;
use super::world::{TOPIC, World};
use crate::trouble::Trouble;
use crate::word;

/// How often the screen is drawn.
const TICK: Duration = Duration::from_millis(80);
/// How often dead letters are looked at.
const LOOK: Duration = Duration::from_millis(150);
/// So long there is no server after it was killed.
const DOWN: Duration = Duration::from_millis(350);
/// Nothing takes so long, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// A call is repeated until its time is over.
const RETRIES: u32 = 1_000;
/// One page shows every dead letter that a demo can have.
const DEAD_MAX: u32 = 1_000;

pub(super) struct Stage {
    pub(super) story: Story,
    pub(super) started: Instant,
    pub(super) client: Client,
    /// A dead letter, as it was before it got another chance.
    pub(super) explained: Option<Message>,
    world: Arc<World>,
    server: Server,
    power: Power,
    events: UnboundedReceiver<Event>,
    /// For those who come later.
    teller: UnboundedSender<Event>,
    senders: JoinSet<Result<(), Error>>,
    others: JoinSet<Result<(), Error>>,
}

/// How the server is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    /// It runs, and will be killed.
    On,
    /// It was killed, and starts again then.
    Off(Instant),
    /// It runs, and is left alone.
    Back,
}

impl Stage {
    /// Starts the server and everybody else.
    pub(super) async fn set(home: &Path, world: &Arc<World>) -> Result<Self, Trouble> {
        let server = Server::start(home).await?;
        let client =
            Client::builder(&server.address()).retries(RETRIES).timeout(PATIENCE).actor("demo").build()?;
        let started = Instant::now();
        let (teller, events) = mpsc::unbounded_channel();
        let (mut senders, mut others) = (JoinSet::new(), JoinSet::new());
        for source in SOURCES {
            let (client, world, events) = (client.clone(), world.clone(), teller.clone());
            senders.spawn(Sender { source, client, world, events }.send(started));
        }
        for name in ["worker A", "worker B", "worker C"] {
            let (client, world, events) = (client.clone(), world.clone(), teller.clone());
            others.spawn(Worker { name, client, world, events }.work());
        }
        others.spawn(look(client.clone(), world.clone(), teller.clone()));
        let (story, world) = (Story::new(world.clone()), world.clone());
        let explained = None;
        Ok(Self {
            story,
            started,
            client,
            explained,
            world,
            server,
            power: Power::On,
            events,
            teller,
            senders,
            others,
        })
    }

    /// Until everything that was sent is handled: those that were given up, after somebody looked at them.
    pub(super) async fn play(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        loop {
            self.until_over(screen).await?;
            if self.story.dead() == 0 {
                return Ok(());
            }
            self.redrive(screen).await?;
        }
    }

    /// Until all calls are answered, and every message is acknowledged or a dead letter.
    async fn until_over(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let mut ticks = interval(TICK);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.tell(screen, event)?,
                _ = ticks.tick() => {
                    self.tend(screen)?;
                    screen.draw(&self.story, self.started.elapsed())?;
                    if self.senders.is_empty() && self.power == Power::Back && self.events.is_empty() && self.story.is_over() {
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

    /// Looks after whoever is on the stage; kills the server when half of the calls are answered, and starts it again.
    fn tend(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let ended = |error| Trouble::failed(format!("a task of the demo has failed: {error}"));
        while let Some(task) = self.senders.try_join_next().or_else(|| self.others.try_join_next()) {
            task.map_err(ended)??;
        }
        match self.power {
            Power::On if self.story.tally.calls() * 2 >= self.world.script.arrivals.len() => {
                self.server.kill()?;
                self.power = Power::Off(Instant::now() + DOWN);
                self.tell(screen, Event::Killed)
            }
            Power::Off(until) if Instant::now() >= until => {
                self.server.start_again()?;
                self.power = Power::Back;
                let (client, events) = (self.client.clone(), self.teller.clone());
                tokio::spawn(async move {
                    // Who waits for the server in vain says so.
                    if until_ready(client).await.is_ok() {
                        let _ = events.send(Event::Back);
                    }
                });
                self.tell(screen, Event::Restarted)
            }
            Power::On | Power::Back => self.server.must_live(),
            Power::Off(_) => Ok(()),
        }
    }

    /// Shows the dead letters, fixes the bug, and gives them another chance.
    async fn redrive(&mut self, screen: &mut Screen) -> Result<(), Trouble> {
        let dead = dead_letters(&self.client).await?;
        for message in &dead {
            let reason = message.reason.map_or("dead".to_owned(), word::of);
            let error = message.last_error.as_deref().unwrap_or_default();
            let part = self.world.script.find(&message.id);
            self.say(screen, Tone::Bad, "dead letter", part, format!("{reason}: {error}"))?;
        }
        if let Some(message) = dead.first() {
            self.explained.get_or_insert_with(|| message.clone());
        }
        self.world.fixed.raise();
        self.say(screen, Tone::Good, "fixes", None, "the bug: handlers can read v2 now".to_owned())?;
        let ids: Vec<_> = dead.iter().map(|message| message.msg_id.clone()).collect();
        // Before the server is asked: workers may be faster than its answer.
        let parts: Vec<_> = dead.iter().filter_map(|message| self.world.script.find(&message.id)).collect();
        for part in parts {
            self.tell(screen, Event::Redriven { part })?;
        }
        let (asked, limit) = (ids.len(), u32::try_from(ids.len()).ok());
        let swept = self.client.redrive_dead_letters(&Redrive { ids, limit, ..Redrive::default() }).await?;
        if usize::try_from(swept.changed) != Ok(asked) {
            let text = format!("{asked} dead letters were to get another chance, {} did", swept.changed);
            self.tell(screen, Event::Fault(text))?;
        }
        Ok(())
    }

    /// Lets everybody go home, and the server run.
    pub(super) async fn clear(mut self) -> Result<(Story, Server), Trouble> {
        let ended = |error| Trouble::failed(format!("a task of the demo has failed: {error}"));
        self.world.over.raise();
        while let Some(task) = self.others.join_next().await {
            task.map_err(ended)??;
        }
        while let Ok(event) = self.events.try_recv() {
            // Nothing that is worth a line happens any more, but faults count.
            self.story.tell(self.started.elapsed(), event);
        }
        Ok((self.story, self.server))
    }

    fn tell(&mut self, screen: &mut Screen, event: Event) -> Result<(), Trouble> {
        let lines = self.story.tell(self.started.elapsed(), event);
        Ok(screen.tell(&self.story, &lines)?)
    }

    /// What the operator does.
    fn say(
        &self,
        screen: &mut Screen,
        tone: Tone,
        what: &'static str,
        part: Option<usize>,
        detail: String,
    ) -> Result<(), Trouble> {
        let line = Line { at: self.started.elapsed(), tone, who: "operator", what, part, detail };
        Ok(screen.tell(&self.story, &[line])?)
    }
}

/// Tells of dead letters as they come.
async fn look(client: Client, world: Arc<World>, events: UnboundedSender<Event>) -> Result<(), Error> {
    while !world.over.is_up() {
        for message in dead_letters(&client).await? {
            let Some(part) = world.script.find(&message.id) else { continue };
            let (error, at) =
                (message.last_error.unwrap_or_default(), message.finished_at.unwrap_or_default());
            let _ = events.send(Event::Dead { part, reason: message.reason, error, at });
        }
        sleep(LOOK).await;
    }
    Ok(())
}

async fn dead_letters(client: &Client) -> Result<Vec<Message>, Error> {
    let list = ListDead { topic: Some(TOPIC.to_owned()), limit: Some(DEAD_MAX), ..ListDead::default() };
    Ok(client.dlq(&list).await?.messages)
}
