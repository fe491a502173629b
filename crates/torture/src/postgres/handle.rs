//! `pg-handle`: enqueues messages together with application rows, and handles them in transactions, until killed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::postgres::Tx;
use oncebox::{
    Backoff, Context, Failure as HandlerFailure, Message, Oncebox, State,
    worker::{Growth, Jitter},
};
use oncebox_testkit::SplitMix;
use sqlx::{Executor, PgPool};
use tokio::time::sleep;

use super::log::Log;
use super::run_process;
use super::store_handle;
use crate::Failure;

/// Messages that one process enqueues.
const MESSAGES: u64 = 150;
const HANDLERS: usize = 6;
/// One connection per handler, and four to settle, extend and send.
const CONNECTIONS_MAX: u32 = 10;
/// Deliveries of a killed process become ready again after this.
const LEASE: Duration = Duration::from_secs(1);
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));

/// The arguments of a process with handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handler {
    pub(crate) url_file: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    pub(crate) mode: HandlerMode,
}

/// What the process does besides handling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandlerMode {
    /// Only handles.
    Handle,
    /// Also enqueues messages.
    Send,
    /// As `Send`, but its handlers write outside their transactions: the campaign must detect it.
    WriteOutside,
}

/// State shared by all handlers of a process.
#[derive(Clone)]
struct HandlerState {
    log: Arc<Log>,
    rng: Arc<Mutex<SplitMix>>,
    /// Set if handlers write here and not in their transaction.
    outside: Option<PgPool>,
}

impl HandlerState {
    fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).below(bound)
    }

    async fn pause(&self, longest_ms: u64) {
        sleep(Duration::from_millis(self.below(longest_ms))).await;
    }
}

pub(crate) fn run(handler: &Handler) -> Result<(), Failure> {
    run_process(async {
        let pool = store_handle::pool(&std::fs::read_to_string(&handler.url_file)?, CONNECTIONS_MAX)?;
        let oncebox = Oncebox::builder().on_postgres(store_handle::store(pool.clone()))?;
        let (log, rng) = (Arc::new(Log::create(&handler.log)?), SplitMix::new(handler.seed));
        let outside = (handler.mode == HandlerMode::WriteOutside).then(|| pool.clone());
        let state = HandlerState { log, rng: Arc::new(Mutex::new(rng)), outside };
        let soon = Duration::from_millis(30);
        let worker = oncebox::Worker::new(&oncebox)
            .with_state(state.clone())
            .concurrency(HANDLERS)
            .lease(LEASE)
            .poll_interval(POLL.0, POLL.1)
            .backoff(Backoff::new(soon, soon, Growth::Fixed, Jitter::None)?)
            .on("payment", book_payment);
        let mut worker = worker.start()?;
        state.log.write("open")?;
        if handler.mode != HandlerMode::Handle {
            send(handler.seed, &pool, &oncebox, &state).await?;
        }
        worker.wait().await?;
        Err("the worker exited on its own".into())
    })
}

/// Enqueues messages, each in one transaction with a row of the application.
async fn send(seed: u64, pool: &PgPool, oncebox: &Oncebox, state: &HandlerState) -> Result<(), Failure> {
    for number in 0..MESSAGES {
        let id = format!("{seed:x}-{number}");
        // The campaign terminates connections.
        let Ok(mut tx) = pool.begin().await else { continue };
        let order = sqlx::query("insert into orders (id) values ($1)").bind(id.clone());
        let message = Message::new("payment", "shop", id).text("7 EUR");
        let sent = async {
            tx.execute(order).await?;
            let (_, wake) = oncebox.inbox().enqueue_in(&mut tx, message).await?;
            state.pause(4).await;
            tx.commit().await?;
            wake.fire();
            Ok::<_, Failure>(())
        };
        if sent.await.is_err() {
            state.log.write("interrupted")?;
        }
    }
    Ok(())
}

/// Books a payment; sometimes fails after the write.
async fn book_payment(
    mut tx: Tx,
    State(state): State<HandlerState>,
    context: Context,
) -> Result<(), HandlerFailure> {
    state.pause(4).await;
    let uid = context.uid();
    let insert = sqlx::query("insert into payments (uid, id) values ($1::uuid, $2)");
    let insert = insert.bind(uid.to_string()).bind(context.id().to_owned());
    let inserted = match &state.outside {
        Some(pool) => pool.execute(insert).await,
        None => (**tx).execute(insert).await,
    };
    if let Err(error) = inserted {
        let is_known = error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation);
        state.log.write(&format!("{} {uid}", if is_known { "duplicate" } else { "interrupted" }))?;
        return Err(error.into());
    }
    match state.below(100) {
        0..10 => return Err(HandlerFailure::retry("not yet")),
        10..12 => return Err(HandlerFailure::dead("never")),
        _ => {}
    }
    state.log.write(&format!("wrote {uid}"))?;
    state.pause(16).await;
    Ok(())
}
