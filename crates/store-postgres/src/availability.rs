//! Whether the database answers. While it does not, calls are refused at once, and a probe finds out when it does again.
//!
//! A call that waits for longer than [`SUSPECT_AFTER`], or that loses its connection, starts the [probe](probe), which connects by itself.
//! The database is *down* when the probe gets no answer and no call has got one meanwhile: a probe that is late on a busy machine refuses
//! nothing while calls are answered. Calls that wait then are given up, and the probe alone decides when the database is up again.
//! While everything is answered there is no probe, and an idle store sends nothing.

mod lent;
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

use crate::fault;
use crate::reserve::Reserve;
use probe::Probe;

pub(crate) use lent::Lent;

/// Without any answer for so long, a call that waits wants to know whether there will be one.
const SUSPECT_AFTER: Duration = Duration::from_millis(100);

/// What one process knows about its database; all handles of a store share it.
pub(crate) struct Availability {
    /// The store's, for the log.
    name: Arc<str>,
    pool: PgPool,
    reserve: Arc<Reserve>,
    /// Since when it is down, if it is.
    down: watch::Sender<Option<Instant>>,
    /// When something was answered the last time.
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

    /// Makes a call, unless the database is down; gives it up if the database goes down before it is answered.
    ///
    /// Dropping the call must be safe, and `Ok` must mean that the database has answered.
    pub(crate) async fn guard<T>(
        self: &Arc<Self>,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.is_down() {
            self.suspect();
            return Err(fault::down());
        }
        // Where it is: moved once more, it would take its space twice.
        self.attend(pin!(call)).await
    }

    /// Waits for a call, for as long as the database is up.
    pub(crate) async fn attend<T>(
        self: &Arc<Self>,
        mut call: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        if let Ok(outcome) = timeout(SUSPECT_AFTER, call.as_mut()).await {
            return self.note(outcome);
        }
        let mut down = self.down.subscribe();
        loop {
            self.suspect();
            tokio::select! {
                biased;
                outcome = call.as_mut() => return self.note(outcome),
                _ = down.wait_for(Option::is_some) => return Err(fault::went_down()),
                () = sleep(SUSPECT_AFTER) => {}
            }
        }
    }

    fn note<T>(self: &Arc<Self>, outcome: Result<T, Error>) -> Result<T, Error> {
        match &outcome {
            Ok(_) => *self.answered() = Instant::now(),
            Err(error) if fault::is_of_connection(error) => self.suspect(),
            Err(_) => {}
        }
        outcome
    }

    /// Has the probe ask, unless something was answered a moment ago.
    fn suspect(self: &Arc<Self>) {
        if !self.is_down() && self.answered().elapsed() < SUSPECT_AFTER {
            return;
        }
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if probe.as_ref().is_some_and(|probe| !probe.is_finished()) {
            // One that is about to end may miss it; then the next suspicion starts another.
            return self.suspected.notify_one();
        }
        let new = Probe::new(Arc::downgrade(self), Arc::clone(&self.suspected));
        *probe = Some(tokio::spawn(new.run()).abort_handle());
    }

    /// Ends the probe: the store is closed.
    pub(crate) fn end(&self) {
        if let Some(probe) = self.probe.lock().unwrap_or_else(PoisonError::into_inner).take() {
            probe.abort();
        }
    }

    /// A connection of a pool's, for one call.
    pub(crate) fn lend(self: &Arc<Self>, connection: PoolConnection<sqlx::Postgres>) -> Lent {
        Lent::new(connection, Arc::clone(self))
    }

    fn answered(&self) -> MutexGuard<'_, Instant> {
        // No update can panic halfway.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the pool connects now.
    fn connect_options(&self) -> PgConnectOptions {
        self.pool.connect_options().as_ref().clone()
    }

    /// The probe got an answer.
    fn comes_up(&self) {
        *self.answered() = Instant::now();
        let mut since = None;
        self.down.send_if_modified(|down| {
            since = down.take();
            since.is_some()
        });
        if let Some(since) = since {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(store = %self.name, seconds, "the database answers again");
        }
    }

    /// The probe got no answer, and nobody else did.
    fn goes_down(&self) {
        let went = self.down.send_if_modified(|down| {
            let went = down.is_none();
            down.get_or_insert_with(Instant::now);
            went
        });
        if !went {
            return;
        }
        tracing::error!(
            store = %self.name,
            "the database does not answer: calls fail until it does; check that it runs and can be reached"
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

/// Closes the connections of a pool that nobody uses. Whoever answers later may not know them any more, and never say so.
fn close_idle(pool: &PgPool) {
    for _ in 0..pool.size() {
        let Some(connection) = pool.try_acquire() else { return };
        drop(connection.detach());
    }
}
