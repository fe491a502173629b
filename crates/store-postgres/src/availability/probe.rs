//! The probe: a task that pings the database on its own connection while calls suspect that it is down.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::Availability;
use crate::db_error;

/// An answer takes no longer than this, unless connecting takes more than half of it.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(750);
const ANSWER_TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// How long calls may still be answered after a connection attempt was refused immediately.
const CONFIRM: Duration = Duration::from_millis(200);
/// The pause between two unanswered pings.
const PAUSE: Duration = Duration::from_millis(250);
/// Connection attempts continue alongside newer ones, for a database that is slow or was suspended; each for at most
/// this long, and at most this many at once.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS_MAX: usize = 8;
/// How long a probe that is no longer needed keeps its connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLSTATE prefixes of a server that is starting or stopping, and of a pooler that does not reach its server.
const DOWN: [&str; 2] = ["57P", "08"];

type Attempt = Result<(PgConnection, Duration), sqlx::Error>;

/// Ends when no call suspects an outage any more, or the store is gone.
pub(super) struct Probe {
    availability: Weak<Availability>,
    suspected: Arc<Notify>,
    session: Option<PgConnection>,
    attempts: JoinSet<Attempt>,
    answer_timeout: Duration,
    /// Whether a connection attempt was so slow that the next one may need a longer timeout.
    is_slow: bool,
    /// When the first of the unanswered pings was sent.
    failing_since: Option<Instant>,
}

impl Probe {
    pub(super) fn new(availability: Weak<Availability>, suspected: Arc<Notify>) -> Self {
        let (session, attempts) = (None, JoinSet::new());
        Self {
            availability,
            suspected,
            session,
            attempts,
            answer_timeout: ANSWER_TIMEOUT,
            is_slow: false,
            failing_since: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let Some(options) =
                self.availability.upgrade().map(|availability| availability.connect_options())
            else {
                return;
            };
            let asked = Instant::now();
            let answered = self.ask(options.clone()).await;
            let Some(availability) = self.availability.upgrade() else { return };
            if answered {
                self.failing_since = None;
                availability.mark_up();
                drop(availability);
                self.measure(options).await;
                if timeout(IDLE_TIMEOUT, self.suspected.notified()).await.is_err() {
                    break;
                }
            } else {
                self.assess_failure(&availability, asked);
                drop(availability);
                sleep(PAUSE).await;
            }
        }
        if let Some(session) = self.session.take() {
            let _ = timeout(ANSWER_TIMEOUT, session.close()).await;
        }
    }

    /// Measures how long connecting takes: the network may have been slow, or the database may have been suspended.
    async fn measure(&mut self, options: PgConnectOptions) {
        if std::mem::take(&mut self.is_slow)
            && let Ok((_, took)) = connect(options).await
        {
            self.answer_timeout = took.saturating_mul(2).clamp(ANSWER_TIMEOUT, ANSWER_TIMEOUT_MAX);
        }
    }

    /// Handles a ping that was sent at `asked` and not answered.
    fn assess_failure(&mut self, availability: &Availability, asked: Instant) {
        let since = *self.failing_since.get_or_insert(asked);
        if *availability.answered() > since {
            // Calls are answered: only the probe has to wait.
            self.failing_since = None;
        } else if since.elapsed() >= CONFIRM {
            availability.mark_down();
        }
    }

    /// Whether the database answers in time.
    async fn ask(&mut self, options: PgConnectOptions) -> bool {
        if let Some(mut session) = self.session.take() {
            match timeout(self.answer_timeout, session.ping()).await {
                Ok(Ok(())) => {
                    self.session = Some(session);
                    return true;
                }
                // The connection was closed, which says nothing about others.
                Ok(Err(_)) => {}
                Err(_) => return false,
            }
        }
        if self.attempts.len() < ATTEMPTS_MAX {
            self.attempts.spawn(connect(options));
        }
        let answered = timeout(self.answer_timeout, self.first_answer()).await.unwrap_or(false);
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
                    self.is_slow |= took > ANSWER_TIMEOUT / 2;
                    return true;
                }
                Ok(Err(error)) if is_answer(&error) => return true,
                // Older attempts may still succeed.
                Ok(Err(_)) | Err(_) => {}
            }
        }
        false
    }
}

/// Connects and pings; returns how long that took.
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

/// Whether the database answered at all, even with an error such as too many connections. Calls then find out
/// themselves what is wrong.
fn is_answer(error: &sqlx::Error) -> bool {
    db_error::sqlstate(error).is_some_and(|state| !DOWN.iter().any(|down| state.starts_with(down)))
}
