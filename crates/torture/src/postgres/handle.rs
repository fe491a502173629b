//! `pg-handle`: takes in messages with rows of its own, and handles them in transactions, until it is killed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::postgres::Tx;
use oncebox::{Backoff, Context, Failure as Refusal, Growth, Jitter, Message, Oncebox, State};
use oncebox_testkit::SplitMix;
use sqlx::{Executor, PgPool};
use tokio::time::sleep;

use super::door;
use super::log::Log;
use super::run_process;
use crate::Failure;

/// Messages that one process takes in.
const MESSAGES: u64 = 150;
const HANDLERS: usize = 6;
/// Each handler has a connection, and somebody has to settle, extend and send.
const CONNECTIONS_MAX: u32 = 10;
/// What a process held when it was killed comes again so soon.
const LEASE: Duration = Duration::from_secs(1);
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// A process with handlers: where it writes what they do, from which seed, and what else it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handler {
    pub(crate) urls: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    pub(crate) way: Way,
}

/// What it does beside handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing.
    Handles,
    /// It takes in messages.
    Sends,
    /// The same, and its handlers write beside their transactions: the campaign must notice.
    Strays,
}

/// What all handlers of a process share.
#[derive(Clone)]
struct Desk {
    log: Arc<Log>,
    rng: Arc<Mutex<SplitMix>>,
    /// Where handlers write that do not use their transaction.
    beside: Option<PgPool>,
}

impl Desk {
    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }

    async fn pause(&self, longest_ms: u64) {
        sleep(Duration::from_millis(self.below(longest_ms))).await;
    }
}

pub(crate) fn run(handler: &Handler) -> Result<(), Failure> {
    run_process(async {
        let pool = door::pool(&std::fs::read_to_string(&handler.urls)?, CONNECTIONS_MAX)?;
        let oncebox = Oncebox::builder().on_postgres(door::store(pool.clone()))?;
        let (log, rng) = (Arc::new(Log::create(&handler.log)?), SplitMix::new(handler.seed));
        let beside = (handler.way == Way::Strays).then(|| pool.clone());
        let desk = Desk { log, rng: Arc::new(Mutex::new(rng)), beside };
        let soon = Duration::from_millis(30);
        let worker = oncebox::Worker::new(&oncebox)
            .with_state(desk.clone())
            .concurrency(HANDLERS)
            .lease(LEASE)
            .poll_interval(POLL.0, POLL.1)
            .backoff(Backoff::new(soon, soon, Growth::Fixed, Jitter::None)?)
            .on("payment", book);
        let mut worker = worker.start()?;
        desk.log.note("open")?;
        if handler.way != Way::Handles {
            send(handler.seed, &pool, &oncebox, &desk).await?;
        }
        worker.wait().await?;
        Err("the worker ended by itself".into())
    })
}

/// Takes in messages, each with an order of the application's.
async fn send(seed: u64, pool: &PgPool, oncebox: &Oncebox, desk: &Desk) -> Result<(), Failure> {
    for number in 0..MESSAGES {
        let id = format!("{seed:x}-{number}");
        // Somebody cuts connections off.
        let Ok(mut tx) = pool.begin().await else { continue };
        let order = sqlx::query("insert into orders (id) values ($1)").bind(id.clone());
        let message = Message::new("payment", "shop", id).text("7 EUR");
        let sent = async {
            tx.execute(order).await?;
            let (_, wake) = oncebox.inbox().enqueue_in(&mut tx, message).await?;
            desk.pause(4).await;
            tx.commit().await?;
            wake.fire();
            Ok::<_, Failure>(())
        };
        if sent.await.is_err() {
            desk.log.note("cut")?;
        }
    }
    Ok(())
}

/// Books a payment, and sometimes fails after it has written.
async fn book(mut tx: Tx, State(desk): State<Desk>, context: Context) -> Result<(), Refusal> {
    desk.pause(4).await;
    let uid = context.uid();
    let insert = sqlx::query("insert into payments (uid, id) values ($1::uuid, $2)");
    let insert = insert.bind(uid.to_string()).bind(context.id().to_owned());
    let inserted = match &desk.beside {
        Some(pool) => pool.execute(insert).await,
        None => (**tx).execute(insert).await,
    };
    if let Err(error) = inserted {
        let is_known = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
        desk.log.note(&format!("{} {uid}", if is_known { "twice" } else { "cut" }))?;
        return Err(error.into());
    }
    match desk.below(100) {
        0..10 => return Err(Refusal::retry("not yet")),
        10..12 => return Err(Refusal::dead("never")),
        _ => {}
    }
    desk.log.note(&format!("wrote {uid}"))?;
    desk.pause(16).await;
    Ok(())
}
