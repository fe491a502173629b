//! Senders: they send new messages, repeat old ones, contradict themselves, and try again when they hear nothing.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{Error, Inbox, Message, Oncebox, Outcome};
use tokio::time::{sleep, timeout};

use crate::chance::Dice;
use crate::event::What;
use crate::time::at;
use crate::world::World;

/// The source of all messages.
pub(crate) const SOURCE: &str = "sim";
/// The topics that workers handle. Of `narrow` few at once, of `rated` few per second, of `number` only numbers.
pub(crate) const TOPICS: [&str; 5] = ["plain", "other", "narrow", "rated", "number"];
/// The topic that nobody handles.
pub(crate) const ORPHAN: &str = "orphan";
/// A payload of `number` that is none.
const GARBAGE: &str = "garbage";

const TRIES_MAX: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(5);

/// A message that a handler sends; a number, so that any topic takes it.
pub(crate) fn follow_up(key: &str) -> Message {
    Message::new("plain", SOURCE, key).text("0")
}

/// Sends, and tells what came back.
pub(crate) async fn enqueue(world: &World, inbox: &Inbox, messages: Vec<Message>) -> Result<(), Error> {
    let keys: Vec<_> = messages.iter().map(|message| message.id().to_owned()).collect();
    for key in &keys {
        world.know(key);
    }
    match inbox.enqueue_all(messages).await {
        Ok(receipts) => {
            for (key, receipt) in keys.into_iter().zip(receipts) {
                let receipt = receipt?;
                let outcome = match receipt.outcome {
                    Outcome::Accepted => "accepted",
                    Outcome::Duplicate => "duplicate",
                    Outcome::Replaced => "replaced",
                    _ => "unknown",
                };
                world.journal.tell(What::Answered { key, outcome, uid: receipt.uid.to_string() });
            }
            Ok(())
        }
        Err(error) => {
            for key in keys {
                world.journal.tell(What::Unanswered { key });
            }
            Err(error)
        }
    }
}

pub(crate) struct Sender {
    world: Arc<World>,
    inbox: Inbox,
    dice: Dice,
    name: u64,
    /// How many messages of its own it has sent.
    sent: u64,
    /// The latest of what it has sent under each key.
    latest: Vec<Message>,
}

impl Sender {
    pub(crate) fn new(world: Arc<World>, oncebox: &Oncebox, name: u64) -> Self {
        let dice = Dice::new(world.seed, &format!("sender {name}"));
        Self { world, inbox: oncebox.inbox(), dice, name, sent: 0, latest: Vec::new() }
    }

    /// Sends until the world is calm.
    pub(crate) async fn run(mut self, messages_max: u64) {
        while self.sent < messages_max {
            let pause = self.dice.millis(0, 1_500);
            tokio::select! {
                biased;
                () = self.world.calmed() => return,
                () = sleep(pause) => {}
            }
            let count = if self.dice.percent(20) { self.dice.between(2, 6) } else { 1 };
            let messages = (0..count).map(|_| self.next()).collect();
            self.send(messages).await;
        }
    }

    async fn send(&mut self, messages: Vec<Message>) {
        for _ in 0..TRIES_MAX {
            let sent = enqueue(&self.world, &self.inbox, messages.clone());
            if let Ok(Ok(())) = timeout(PATIENCE, sent).await {
                return;
            }
            let pause = self.dice.millis(10, 1_000);
            sleep(pause).await;
        }
    }

    fn next(&mut self) -> Message {
        let known = !self.latest.is_empty() && self.dice.percent(25);
        if !known {
            self.sent += 1;
            let key = format!("{}-{}", self.name, self.sent);
            let message = self.message(&key);
            self.latest.push(message.clone());
            return message;
        }
        let place = usize::try_from(self.dice.between(0, self.latest.len() as u64 - 1)).unwrap_or_default();
        if self.dice.percent(50) {
            let key = self.latest[place].id().to_owned();
            self.latest[place] = self.message(&key);
        }
        self.latest[place].clone()
    }

    fn message(&mut self, key: &str) -> Message {
        let topic = if self.dice.percent(3) { ORPHAN } else { self.dice.pick(&TOPICS) };
        let payload = self.dice.between(1, 1_000_000).to_string();
        let garbage = topic == "number" && self.dice.percent(15);
        let payload = if garbage { format!("{GARBAGE} {payload}") } else { payload };
        let mut message = Message::new(topic, SOURCE, key).text(payload);
        let now = self.world.journal.clock.store_ms();
        if self.dice.percent(30) {
            message = message.partition(format!("p{}", self.dice.between(1, 3)));
        }
        if self.dice.percent(15) {
            message = if self.dice.percent(50) {
                message.due_in(self.dice.millis(0, 20_000))
            } else {
                message.due_at(at(now + self.dice.between(0, 20_000)))
            };
        }
        if self.dice.percent(10) {
            message = if self.dice.percent(50) {
                message.expires_in(self.dice.millis(100, 30_000))
            } else {
                message.expires_at(at(now + self.dice.between(0, 30_000)))
            };
        }
        message
    }
}
