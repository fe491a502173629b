//! Whether the database answers. While it does not, calls fail immediately, and a probe finds out when it answers
//! again.
//!
//! A call that waits for longer than [`SUSPECT_AFTER`], or that loses its connection, starts the [probe](probe),
//! which opens its own connection. The database is *down* when the probe gets no answer and no call has got one in
//! the meantime: a probe that is slow on a busy machine fails nothing while calls are answered. Calls that are
//! waiting when the database goes down are abandoned, and only the probe decides when the database is up again. While
//! everything is answered there is no probe, and an idle store sends nothing.

mod connection;
mod probe;

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::Error;
use sqlx::PgPool;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::db_error;
use crate::reserve::Reserve;
use probe::Probe;

pub(crate) use connection::TrackedConnection;

/// A call that has waited this long without any answer starts the probe.
const SUSPECT_AFTER: Duration = Duration::from_millis(100);

/// What a process knows about its database; all handles of a store share it.
pub(crate) struct Availability {
    /// The store's name, for the log.
    name: Arc<str>,
    pool: PgPool,
    reserve: Arc<Reserve>,
    /// Since when the database is down, if it is.
    down: watch::Sender<Option<Instant>>,
    /// When the database last answered.
    answered: Mutex<Instant>,
    /// Wakes the probe.
    suspected: Arc<Notify>,
    probe: Mutex<Option<AbortHandle>>,
}

impl Availability {
    pub(crate) fn new(name: Arc<str>, pool: PgPool, reserve: Arc<Reserve>) -> Self {
        Self {
            name,
            pool,
            reserve,
            down: watch::Sender::new(None),
            answered: Mutex::new(Instant::now()),
            suspected: Arc::default(),
            probe: Mutex::default(),
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.borrow().is_some()
    }

    /// Makes a call unless the database is down; abandons it if the database goes down before it is answered.
    ///
    /// Dropping the call must be safe, and `Ok` must mean that the database has answered.
    pub(crate) async fn guard<T>(
        self: &Arc<Self>,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.is_down() {
            self.suspect();
            return Err(db_error::down());
        }
        // Pinned in place: moving the future once more would double its size.
        self.run_while_up(pin!(call)).await
    }

    /// Waits for a call while the database is up.
    pub(crate) async fn run_while_up<T>(
        self: &Arc<Self>,
        mut call: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        if let Ok(outcome) = timeout(SUSPECT_AFTER, call.as_mut()).await {
            return self.record(outcome);
        }
        let mut down = self.down.subscribe();
        loop {
            self.suspect();
            tokio::select! {
                biased;
                outcome = call.as_mut() => return self.record(outcome),
                _ = down.wait_for(Option::is_some) => return Err(db_error::went_down()),
                () = sleep(SUSPECT_AFTER) => {}
            }
        }
    }

    fn record<T>(self: &Arc<Self>, outcome: Result<T, Error>) -> Result<T, Error> {
        match &outcome {
            Ok(_) => *self.answered() = Instant::now(),
            Err(error) if db_error::is_connection_error(error) => self.suspect(),
            Err(_) => {}
        }
        outcome
    }

    /// Starts or wakes the probe, unless the database answered recently.
    fn suspect(self: &Arc<Self>) {
        if !self.is_down() && self.answered().elapsed() < SUSPECT_AFTER {
            return;
        }
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if probe.as_ref().is_some_and(|probe| !probe.is_finished()) {
            // A probe that is about to end may miss this; then the next suspicion starts another.
            return self.suspected.notify_one();
        }
        let new = Probe::new(Arc::downgrade(self), Arc::clone(&self.suspected));
        *probe = Some(tokio::spawn(new.run()).abort_handle());
    }

    /// Stops the probe, because the store is closed.
    pub(crate) fn end(&self) {
        if let Some(probe) = self.probe.lock().unwrap_or_else(PoisonError::into_inner).take() {
            probe.abort();
        }
    }

    /// Wraps a connection of a pool for one call.
    pub(crate) fn track(self: &Arc<Self>, connection: PoolConnection<sqlx::Postgres>) -> TrackedConnection {
        TrackedConnection::new(connection, Arc::clone(self))
    }

    fn answered(&self) -> MutexGuard<'_, Instant> {
        // No update can panic halfway.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current connect options of the pool.
    fn connect_options(&self) -> PgConnectOptions {
        self.pool.connect_options().as_ref().clone()
    }

    /// The probe got an answer.
    fn mark_up(&self) {
        *self.answered() = Instant::now();
        let mut since = None;
        self.down.send_if_modified(|down| {
            since = down.take();
            since.is_some()
        });
        if let Some(since) = since {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(store = %self.name, seconds, "database is up again");
        }
    }

    /// Neither the probe nor a call got an answer.
    fn mark_down(&self) {
        let changed = self.down.send_if_modified(|down| {
            let changed = down.is_none();
            down.get_or_insert_with(Instant::now);
            changed
        });
        if !changed {
            return;
        }
        tracing::error!(
            store = %self.name,
            "database is down: calls fail until it answers; check that it is running and reachable"
        );
        for pool in [&self.pool].into_iter().chain(self.reserve.pools()) {
            close_idle(pool);
        }
    }
}

impl Drop for Availability {
    fn drop(&mut self) {
        self.end();
    }
}

/// Closes the idle connections of a pool. A server that answers later may not know them any more, and may never
/// report that.
fn close_idle(pool: &PgPool) {
    for _ in 0..pool.size() {
        let Some(connection) = pool.try_acquire() else { return };
        drop(connection.detach());
    }
}
