//! Senders. They send new messages, repeat old ones, replace their content, and retry when no answer arrives.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{EnqueueOutcome, Error, Inbox, Message, Oncebox};
use tokio::time::{sleep, timeout};

use crate::event::EventKind;
use crate::random::RandomStream;
use crate::time::at;
use crate::world::World;

/// The source of all messages.
pub(crate) const SOURCE: &str = "sim";
/// The topics with handlers: `narrow` limits concurrency, `rated` limits the rate, `number` accepts only numbers.
pub(crate) const TOPICS: [&str; 5] = ["plain", "other", "narrow", "rated", "number"];
/// The topic without a handler.
pub(crate) const ORPHAN: &str = "orphan";
/// An invalid payload for `number`.
const GARBAGE: &str = "garbage";

const ATTEMPTS_MAX: u32 = 4;
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A message that a handler sends. Its payload is a number, which any topic accepts.
pub(crate) fn follow_up(key: &str) -> Message {
    Message::new("plain", SOURCE, key).text("0")
}

/// Sends messages and records the answers.
pub(crate) async fn enqueue(world: &World, inbox: &Inbox, messages: Vec<Message>) -> Result<(), Error> {
    let keys: Vec<_> = messages.iter().map(|message| message.id().to_owned()).collect();
    for key in &keys {
        world.record_key(key);
    }
    match inbox.enqueue_all(messages).await {
        Ok(receipts) => {
            for (key, receipt) in keys.into_iter().zip(receipts) {
                let receipt = receipt?;
                let outcome = match receipt.outcome {
                    EnqueueOutcome::Accepted => "accepted",
                    EnqueueOutcome::Duplicate => "duplicate",
                    EnqueueOutcome::Replaced => "replaced",
                    _ => "unknown",
                };
                world.journal.record(EventKind::Answered { key, outcome, uid: receipt.uid.to_string() });
            }
            Ok(())
        }
        Err(error) => {
            for key in keys {
                world.journal.record(EventKind::Unanswered { key });
            }
            Err(error)
        }
    }
}

pub(crate) struct Sender {
    world: Arc<World>,
    inbox: Inbox,
    random: RandomStream,
    name: u64,
    /// Number of new messages sent so far.
    sent: u64,
    /// The latest message for each key.
    latest: Vec<Message>,
}

impl Sender {
    pub(crate) fn new(world: Arc<World>, oncebox: &Oncebox, name: u64) -> Self {
        let random = RandomStream::new(world.seed, &format!("sender {name}"));
        Self { world, inbox: oncebox.inbox(), random, name, sent: 0, latest: Vec::new() }
    }

    /// Sends until the faults end.
    pub(crate) async fn run(mut self, messages_max: u64) {
        while self.sent < messages_max {
            let pause = self.random.millis(0, 1_500);
            tokio::select! {
                biased;
                () = self.world.until_faults_end() => return,
                () = sleep(pause) => {}
            }
            let count = if self.random.percent(20) { self.random.between(2, 6) } else { 1 };
            let messages = (0..count).map(|_| self.next()).collect();
            self.send(messages).await;
        }
    }

    async fn send(&mut self, messages: Vec<Message>) {
        for _ in 0..ATTEMPTS_MAX {
            let sent = enqueue(&self.world, &self.inbox, messages.clone());
            if let Ok(Ok(())) = timeout(SEND_TIMEOUT, sent).await {
                return;
            }
            let pause = self.random.millis(10, 1_000);
            sleep(pause).await;
        }
    }

    fn next(&mut self) -> Message {
        let known = !self.latest.is_empty() && self.random.percent(25);
        if !known {
            self.sent += 1;
            let key = format!("{}-{}", self.name, self.sent);
            let message = self.message(&key);
            self.latest.push(message.clone());
            return message;
        }
        let index = usize::try_from(self.random.between(0, self.latest.len() as u64 - 1)).unwrap_or_default();
        if self.random.percent(50) {
            let key = self.latest[index].id().to_owned();
            self.latest[index] = self.message(&key);
        }
        self.latest[index].clone()
    }

    fn message(&mut self, key: &str) -> Message {
        let orphan = self.random.percent(3) && !self.world.pauses_topics;
        let topic = if orphan { ORPHAN } else { self.random.pick(&TOPICS) };
        let payload = self.random.between(1, 1_000_000).to_string();
        let garbage = topic == "number" && self.random.percent(15);
        let payload = if garbage { format!("{GARBAGE} {payload}") } else { payload };
        let mut message = Message::new(topic, SOURCE, key).text(payload);
        let now = self.world.journal.clock.store_ms();
        if self.random.percent(30) {
            message = message.partition(format!("p{}", self.random.between(1, 3)));
        }
        if self.random.percent(15) {
            message = if self.random.percent(50) {
                message.due_in(self.random.millis(0, 20_000))
            } else {
                message.due_at(at(now + self.random.between(0, 20_000)))
            };
        }
        if self.random.percent(10) {
            message = if self.random.percent(50) {
                message.expires_in(self.random.millis(100, 30_000))
            } else {
                message.expires_at(at(now + self.random.between(0, 30_000)))
            };
        }
        message
    }
}
