//! The handlers of the simulation: they succeed, fail, panic, hang, take long, or send another message.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{Context, Failure, Json, State};
use tokio::time::sleep;

use crate::event::{EventKind, SimContent};
use crate::random::RandomStream;
use crate::sender;
use crate::time::since_start;
use crate::world::World;

/// State shared by the handlers of a worker.
#[derive(Clone)]
pub(crate) struct HandlerState {
    pub(crate) world: Arc<World>,
    pub(crate) worker: u64,
    pub(crate) lease: Duration,
    pub(crate) timeout: Option<Duration>,
}

/// How a handler behaves.
#[derive(Debug, Clone, Copy)]
enum Behavior {
    Succeed(Duration),
    Retry(Duration),
    RetryAfter(Duration),
    Dead,
    Panic,
    Hang,
    /// Sends another message, then succeeds.
    Follow,
}

pub(crate) async fn handle(State(state): State<HandlerState>, context: Context) -> Result<(), Failure> {
    state.run(context).await
}

/// As `handle`, for payloads that must be numbers.
pub(crate) async fn handle_number(
    State(state): State<HandlerState>,
    Json(_): Json<u64>,
    context: Context,
) -> Result<(), Failure> {
    state.run(context).await
}

impl HandlerState {
    /// The behavior depends only on the seed, the message and the number of the delivery.
    fn behavior(&self, context: &Context) -> Behavior {
        let mut random =
            RandomStream::new(self.world.seed, &format!("handler {} {}", context.id(), context.delivery()));
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        let quick = random.millis(0, 60);
        if self.world.fast_handlers && random.percent(75) {
            return Behavior::Succeed(quick);
        }
        let hang = if self.world.faults_ended() && self.timeout.is_none() {
            Behavior::Retry(quick)
        } else {
            Behavior::Hang
        };
        match random.between(0, 99) {
            0..30 => Behavior::Succeed(quick),
            30..40 => Behavior::Succeed(random.millis(100, 1_000)),
            40..60 => Behavior::Succeed(random.millis(lease_ms / 2, lease_ms * 5 / 2)),
            60..72 => Behavior::Retry(random.millis(0, 500)),
            72..79 => Behavior::RetryAfter(random.millis(1, 4_000)),
            79..82 => Behavior::Dead,
            82..87 => Behavior::Panic,
            87..93 => hang,
            _ => Behavior::Follow,
        }
    }

    async fn run(self, context: Context) -> Result<(), Failure> {
        let behavior = self.behavior(&context);
        let mut guard = HandlerGuard::begin(&self, &context);
        match behavior {
            Behavior::Succeed(time) => sleep(time).await,
            Behavior::Retry(time) => {
                sleep(time).await;
                return guard.end("retry", Err(Failure::retry("not this time")));
            }
            Behavior::RetryAfter(delay) => {
                return guard.end("retry", Err(Failure::retry_after(delay, "later")));
            }
            Behavior::Dead => return guard.end("dead", Err(Failure::dead("never"))),
            Behavior::Panic => {
                guard.end("panic", ());
                // Unlike `panic!`, this prints nothing.
                std::panic::resume_unwind(Box::new("planned"));
            }
            Behavior::Hang => {
                self.world.until_faults_end().await;
                return guard.end("retry", Err(Failure::retry("hung until the faults ended")));
            }
            Behavior::Follow => {
                let key = format!("{}+", context.id());
                let message = sender::follow_up(&key);
                if let Err(error) = sender::enqueue(&self.world, &context.inbox(), vec![message]).await {
                    return guard.end("retry", Err(Failure::retry(error)));
                }
            }
        }
        guard.end("ok", Ok(()))
    }
}

/// A running handler. Records its end in every case, also when it is dropped.
struct HandlerGuard {
    world: Arc<World>,
    worker: u64,
    uid: String,
    delivery: u32,
    ended: bool,
}

impl HandlerGuard {
    fn begin(state: &HandlerState, context: &Context) -> Self {
        let guard = Self {
            world: state.world.clone(),
            worker: state.worker,
            uid: context.uid().to_string(),
            delivery: context.delivery(),
            ended: false,
        };
        let message = context.message();
        guard.world.journal.record(EventKind::HandlerStarted {
            worker: guard.worker,
            uid: guard.uid.clone(),
            delivery: guard.delivery,
            content: SimContent {
                topic: message.topic().to_owned(),
                payload: String::from_utf8_lossy(message.payload()).into_owned(),
                partition: message.partition_key().map(str::to_owned),
                due: message.due().map(since_start),
                expires: message.expires().map(since_start),
            },
        });
        guard
    }

    fn end<T>(&mut self, how: &'static str, result: T) -> T {
        self.ended = true;
        self.record_end(how);
        result
    }

    fn record_end(&self, how: &'static str) {
        let (worker, uid, delivery) = (self.worker, self.uid.clone(), self.delivery);
        self.world.journal.record(EventKind::HandlerEnded { worker, uid, delivery, how });
    }
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        if !self.ended {
            self.record_end("dropped");
        }
    }
}
