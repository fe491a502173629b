//! The probe: a task that asks the database for an answer, on a connection of its own, while somebody doubts that there is one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Availability;
use crate::fault;

/// An answer takes no longer than this, unless connecting takes more than half of it.
const PATIENCE: Duration = Duration::from_millis(750);
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// Calls have so long to be answered where a connection is refused at once.
const CONFIRM: Duration = Duration::from_millis(200);
/// Between two questions that are not answered.
const PAUSE: Duration = Duration::from_millis(250);
/// Attempts to connect go on beside newer ones, for a database that is slow or that was stopped; each for so long, and so many of them.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS_MAX: usize = 8;
/// A probe that nobody needs any more keeps its connection for so long.
const KEEP: Duration = Duration::from_secs(5);

/// SQLSTATEs that say that nobody will work: a server that starts or stops, and a pooler that does not reach its server.
const DOWN: [&str; 2] = ["57P", "08"];

type Attempt = Result<(PgConnection, Duration), sqlx::Error>;

/// It ends when nobody doubts any more, or the store is gone.
pub(super) struct Probe {
    of: Weak<Availability>,
    suspected: Arc<Notify>,
    session: Option<PgConnection>,
    attempts: JoinSet<Attempt>,
    patience: Duration,
    /// Whether an attempt to connect took so long that the next one may need more patience.
    is_slow: bool,
    /// When the first of those questions was asked that nobody answered.
    failing_since: Option<Instant>,
}

impl Probe {
    pub(super) fn new(of: Weak<Availability>, suspected: Arc<Notify>) -> Self {
        let (session, attempts) = (None, JoinSet::new());
        Self { of, suspected, session, attempts, patience: PATIENCE, is_slow: false, failing_since: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            let Some(options) = self.of.upgrade().map(|of| of.connect_options()) else { return };
            let asked = Instant::now();
            let answered = self.ask(options.clone()).await;
            let Some(of) = self.of.upgrade() else { return };
            if answered {
                self.failing_since = None;
                of.comes_up();
                drop(of);
                self.measure(options).await;
                if timeout(KEEP, self.suspected.notified()).await.is_err() {
                    break;
                }
            } else {
                self.judge(&of, asked);
                drop(of);
                sleep(PAUSE).await;
            }
        }
        if let Some(session) = self.session.take() {
            let _ = timeout(PATIENCE, session.close()).await;
        }
    }

    /// Finds out how long connecting takes: what was slow may have been the way there, or the database was stopped meanwhile.
    async fn measure(&mut self, options: PgConnectOptions) {
        if std::mem::take(&mut self.is_slow)
            && let Ok((_, took)) = connect(options).await
        {
            self.patience = took.saturating_mul(2).clamp(PATIENCE, PATIENCE_MAX);
        }
    }

    /// A question that was asked then was not answered.
    fn judge(&mut self, of: &Availability, asked: Instant) {
        let since = *self.failing_since.get_or_insert(asked);
        if *of.answered() > since {
            // Calls are answered: it is only the probe that has to wait.
            self.failing_since = None;
        } else if since.elapsed() >= CONFIRM {
            of.goes_down();
        }
    }

    /// Whether there is an answer in time.
    async fn ask(&mut self, options: PgConnectOptions) -> bool {
        if let Some(mut session) = self.session.take() {
            match timeout(self.patience, session.ping()).await {
                Ok(Ok(())) => {
                    self.session = Some(session);
                    return true;
                }
                // It was ended, which says nothing about others.
                Ok(Err(_)) => {}
                Err(_) => return false,
            }
        }
        if self.attempts.len() < ATTEMPTS_MAX {
            self.attempts.spawn(connect(options));
        }
        let answered = timeout(self.patience, self.first_answer()).await.unwrap_or(false);
        if answered {
            self.attempts.abort_all();
        }
        answered
    }

    async fn first_answer(&mut self) -> bool {
        while let Some(attempt) = self.attempts.join_next().await {
            match attempt {
                Ok(Ok((session, took))) => {
                    self.session = Some(session);
                    self.is_slow |= took > PATIENCE / 2;
                    return true;
                }
                Ok(Err(error)) if is_answer(&error) => return true,
                // Older ones may still succeed.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        false
    }
}

/// Connects and asks; also tells how long that took.
async fn connect(options: PgConnectOptions) -> Attempt {
    let began = Instant::now();
    let application = format!("{} probe", options.get_application_name().unwrap_or("oncebox"));
    let options = options.application_name(&application);
    let attempt = async {
        let mut session = PgConnection::connect_with(&options).await?;
        session.ping().await?;
        Ok((session, began.elapsed()))
    };
    timeout(ATTEMPT_TIMEOUT, attempt).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Whether the database speaks to us, if only to refuse: it has no connection left, say. Calls then learn by themselves what is wrong.
fn is_answer(error: &sqlx::Error) -> bool {
    fault::state(error).is_some_and(|state| !DOWN.iter().any(|down| state.starts_with(down)))
}
