//! The handlers of the demo. They do what their messages' fates say.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::{Backoff, Context, Error, Failure, Growth, Jitter, Json, Oncebox, State, Worker};

use super::letters::{CHANGES, Change, ORDERS, Order, PAYMENTS, Payment};
use super::observe::Observe;
use super::script::{Fate, Script};

/// Short, so that the take-over after a crash is seen. The usual 30 s suit real work better.
pub(super) const LEASE: Duration = Duration::from_secs(2);
/// How many deliveries may end badly.
pub(super) const ATTEMPTS_MAX: u32 = 4;
/// What the handler asks for that is told to come later.
const BUSY: Duration = Duration::from_millis(900);
/// How a panic of the demo's begins, so that it can be told from one of the program's.
pub(super) const PANIC: &str = "made on purpose: ";

/// What the handlers share.
pub(super) struct World {
    pub(super) script: Script,
    effects: Mutex<Effects>,
    /// Also if the first delivery was cut off by the crash, one panics.
    panicked: AtomicBool,
}

/// What handlers did to the world. A second run changes nothing.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) done: HashSet<String>,
    /// Cents that were booked.
    pub(super) cents: u64,
}

impl World {
    pub(super) fn new(script: Script) -> Self {
        Self { script, effects: Mutex::default(), panicked: AtomicBool::new(false) }
    }

    pub(super) fn effects(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Idempotent: the message's own key tells whether it was done before.
    fn once(&self, context: &Context, cents: u64) {
        let mut effects = self.effects();
        if effects.done.insert(context.id().to_owned()) {
            effects.cents += cents;
        }
    }

    async fn perform(&self, context: &Context) -> Result<(), Failure> {
        let Some(part) = self.script.find(context.id()) else {
            return Err(Failure::dead("not in the script"));
        };
        let part = &self.script.parts[part];
        let delivery = context.delivery();
        if part.fate == Fate::Crash && delivery == 1 {
            // Still here when the worker dies.
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(part.takes).await;
        match part.fate {
            Fate::Flaky(failures) if delivery <= failures => Err(Failure::retry("connection reset by peer")),
            Fate::Busy if delivery == 1 => Err(Failure::retry_after(BUSY, "429: come again in 0.9 s")),
            Fate::Refused => Err(Failure::dead(refusal(part.source))),
            Fate::Stubborn => Err(Failure::retry(format!("503: {}", silent(part.source)))),
            Fate::Panics if !self.panicked.swap(true, Ordering::Relaxed) => {
                panic!("{PANIC}index out of bounds")
            }
            _ => Ok(()),
        }
    }
}

fn refusal(source: &str) -> &'static str {
    match source {
        "stripe" => "the customer's account is closed",
        "github" => "the repository is archived",
        _ => "the product is not sold any more",
    }
}

fn silent(source: &str) -> &'static str {
    match source {
        "stripe" => "the accounting does not answer",
        "github" => "the build server does not answer",
        _ => "the warehouse does not answer",
    }
}

async fn paid(
    State(world): State<Arc<World>>,
    Json(payment): Json<Payment>,
    context: Context,
) -> Result<(), Failure> {
    world.perform(&context).await?;
    world.once(&context, payment.cents);
    Ok(())
}

async fn changed(
    State(world): State<Arc<World>>,
    Json(_): Json<Change>,
    context: Context,
) -> Result<(), Failure> {
    world.perform(&context).await?;
    world.once(&context, 0);
    Ok(())
}

async fn ordered(
    State(world): State<Arc<World>>,
    Json(order): Json<Order>,
    context: Context,
) -> Result<(), Failure> {
    world.perform(&context).await?;
    world.once(&context, order.cents);
    Ok(())
}

/// A worker for all topics of the demo: with three hands, or more if there is much to do.
pub(super) fn worker(
    oncebox: &Oncebox,
    world: Arc<World>,
    observe: Observe,
) -> Result<Worker<Arc<World>>, Error> {
    let (first, max) = (Duration::from_millis(250), Duration::from_secs(2));
    let backoff = Backoff::new(first, max, Growth::Exponential, Jitter::None)?;
    let hands = (world.script.arrivals.len() / 20).max(3);
    let mut worker = Worker::new(oncebox)
        .with_state(world)
        .layer(observe)
        .concurrency(hands)
        .lease(LEASE)
        .backoff(backoff)
        // What a worker holds is what is seen in its hands.
        .without_look_ahead();
    for topic in PAYMENTS {
        worker = worker.on(topic, paid);
    }
    for topic in CHANGES {
        worker = worker.on(topic, changed);
    }
    for topic in ORDERS {
        worker = worker.on(topic, ordered);
    }
    Ok(worker)
}
