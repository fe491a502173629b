//! What handlers do with messages: succeed, fail, panic, hang, take long, send what follows.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{Context, Failure, Json, State};
use tokio::time::sleep;

use crate::chance::Dice;
use crate::event::{Content, What};
use crate::sender;
use crate::time::since_beginning;
use crate::world::World;

/// What every handler of one worker knows.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) world: Arc<World>,
    pub(crate) worker: u64,
    pub(crate) lease: Duration,
    pub(crate) timeout: Option<Duration>,
}

/// How one run of a handler goes.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Succeed(Duration),
    Retry(Duration),
    RetryAfter(Duration),
    Dead,
    Panic,
    Hang,
    /// Sends another message, then succeeds.
    Follow,
}

pub(crate) async fn handle(State(bench): State<Bench>, context: Context) -> Result<(), Failure> {
    bench.run(context).await
}

/// The same for payloads that must be numbers.
pub(crate) async fn handle_number(
    State(bench): State<Bench>,
    Json(_): Json<u64>,
    context: Context,
) -> Result<(), Failure> {
    bench.run(context).await
}

impl Bench {
    /// What becomes of a delivery depends on nothing but the seed, the message and which delivery it is.
    fn fate(&self, context: &Context) -> Fate {
        let mut dice =
            Dice::new(self.world.seed, &format!("handler {} {}", context.id(), context.delivery()));
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let quick = dice.millis(0, 60);
        if self.world.brisk && dice.percent(75) {
            return Fate::Succeed(quick);
        }
        let hang =
            if self.world.is_calm() && self.timeout.is_none() { Fate::Retry(quick) } else { Fate::Hang };
        match dice.between(0, 99) {
            0..30 => Fate::Succeed(quick),
            30..40 => Fate::Succeed(dice.millis(100, 1_000)),
            40..60 => Fate::Succeed(dice.millis(lease_ms / 2, lease_ms * 5 / 2)),
            60..72 => Fate::Retry(dice.millis(0, 500)),
            72..79 => Fate::RetryAfter(dice.millis(1, 4_000)),
            79..82 => Fate::Dead,
            82..87 => Fate::Panic,
            87..93 => hang,
            _ => Fate::Follow,
        }
    }

    async fn run(self, context: Context) -> Result<(), Failure> {
        let fate = self.fate(&context);
        let mut shift = Shift::begin(&self, &context);
        match fate {
            Fate::Succeed(time) => sleep(time).await,
            Fate::Retry(time) => {
                sleep(time).await;
                return shift.end("retry", Err(Failure::retry("not this time")));
            }
            Fate::RetryAfter(delay) => {
                return shift.end("retry", Err(Failure::retry_after(delay, "later")));
            }
            Fate::Dead => return shift.end("dead", Err(Failure::dead("never"))),
            Fate::Panic => {
                shift.end("panic", ());
                // Unlike `panic!`, this prints nothing.
                std::panic::resume_unwind(Box::new("planned"));
            }
            Fate::Hang => {
                self.world.calmed().await;
                return shift.end("retry", Err(Failure::retry("has waited for nothing")));
            }
            Fate::Follow => {
                let key = format!("{}+", context.id());
                let message = sender::follow_up(&key);
                if let Err(error) = sender::enqueue(&self.world, &context.inbox(), vec![message]).await {
                    return shift.end("retry", Err(Failure::retry(error)));
                }
            }
        }
        shift.end("ok", Ok(()))
    }
}

/// A handler at work, which tells when it ends, however it ends.
struct Shift {
    world: Arc<World>,
    worker: u64,
    uid: String,
    delivery: u32,
    ended: bool,
}

impl Shift {
    fn begin(bench: &Bench, context: &Context) -> Self {
        let shift = Self {
            world: bench.world.clone(),
            worker: bench.worker,
            uid: context.uid().to_string(),
            delivery: context.delivery(),
            ended: false,
        };
        let message = context.message();
        shift.world.journal.tell(What::Began {
            worker: shift.worker,
            uid: shift.uid.clone(),
            delivery: shift.delivery,
            content: Content {
                topic: message.topic().to_owned(),
                payload: String::from_utf8_lossy(message.payload()).into_owned(),
                partition: message.partition_key().map(str::to_owned),
                due: message.due().map(since_beginning),
                expires: message.expires().map(since_beginning),
            },
        });
        shift
    }

    fn end<T>(&mut self, how: &'static str, result: T) -> T {
        self.ended = true;
        self.tell(how);
        result
    }

    fn tell(&self, how: &'static str) {
        let (worker, uid, delivery) = (self.worker, self.uid.clone(), self.delivery);
        self.world.journal.tell(What::Ended { worker, uid, delivery, how });
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if !self.ended {
            self.tell("dropped");
        }
    }
}
