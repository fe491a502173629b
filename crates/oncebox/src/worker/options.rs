//! The settings of a worker.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::{CLAIM_MESSAGES_MAX, DURATION_MAX};
use oncebox_core::{Backoff, Error, ErrorKind, Invalid, Namespace, Owner, WorkerName};
use tracing::warn;

/// The shortest lease that heartbeats can extend in time.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Default for the number of handlers that run at once.
const CONCURRENCY_DEFAULT: usize = 16;

/// What happens to messages whose topic has no handler in the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unhandled {
    /// They are left for workers that have one. Maintenance warns about them.
    #[default]
    Leave,
    /// They are claimed and abandoned: an attempt is used up, and they are delivered again.
    Abandon,
    /// They are claimed and become Dead with reason `unhandled`.
    Dead,
}

/// The settings of a worker.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// The namespace whose messages are claimed.
    pub(super) namespace: Namespace,
    pub(super) owner: Option<Owner>,
    pub(super) name: Option<Arc<str>>,
    /// None means the default.
    pub(super) concurrency: Option<usize>,
    pub(super) batch: u32,
    pub(super) lease: Duration,
    pub(super) poll_interval: Duration,
    pub(super) poll_interval_max: Duration,
    pub(super) stop_budget: Duration,
    pub(super) call_timeout: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) attempts_max: Option<u32>,
    pub(super) unhandled: Unhandled,
    pub(super) prefetch: bool,
    pub(super) maintenance: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: Namespace::Inbox,
            owner: None,
            name: None,
            concurrency: None,
            batch: 50,
            lease: Duration::from_secs(30),
            poll_interval: Duration::from_millis(500),
            poll_interval_max: Duration::from_secs(5),
            stop_budget: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            timeout: None,
            backoff: Backoff::INBOX,
            attempts_max: None,
            unhandled: Unhandled::Leave,
            prefetch: true,
            maintenance: true,
        }
    }
}

impl Options {
    /// The number of handlers that run at once.
    pub(super) fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(CONCURRENCY_DEFAULT)
    }

    /// Makes sure that the store has a connection for every handler that runs in a transaction. `routes` are the
    /// concurrency limits of the routes that run in transactions.
    pub(super) fn fit_transactions(&mut self, routes: &[Option<usize>], limit: usize) -> Result<(), Error> {
        let concurrency = self.concurrency();
        let wanted: usize = routes.iter().map(|route| route.unwrap_or(concurrency)).sum();
        let wanted = wanted.min(concurrency);
        if wanted <= limit {
            return Ok(());
        }
        if limit > 0 && self.concurrency.is_none() {
            self.concurrency = Some(limit);
            return Ok(());
        }
        let text = format!(
            "{wanted} handlers would run in transactions at once, but the store's connections allow only {limit}: lower \
             `concurrency` of the worker or of these topics, or give the store {} more connections (`connections=` in its URL, or a larger pool)",
            wanted - limit
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        self.worker_name()?;
        let durations = [
            ("lease", self.lease),
            ("poll interval", self.poll_interval),
            ("call timeout", self.call_timeout),
            ("timeout", self.timeout.unwrap_or(Duration::MAX)),
        ];
        if let Some((field, _)) = durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            return Err(Invalid::new(field, "must be greater than zero"));
        }
        let longest = [("stop budget", self.stop_budget), ("longest poll interval", self.poll_interval_max)];
        let mut bounded = durations.into_iter().filter(|(field, _)| *field != "timeout").chain(longest);
        if let Some((field, _)) = bounded.find(|(_, duration)| *duration > DURATION_MAX) {
            return Err(Invalid::new(field, "is longer than ten years"));
        }
        if self.lease < LEASE_MIN {
            return Err(Invalid::new(
                "lease",
                "must be at least 100 ms, or heartbeats cannot extend it in time",
            ));
        }
        if self.concurrency == Some(0) {
            return Err(Invalid::new("concurrency", "must be greater than zero"));
        }
        if self.concurrency() > CLAIM_MESSAGES_MAX as usize {
            return Err(Invalid::new("concurrency", "must be at most 10000; run more workers instead"));
        }
        if self.batch == 0 {
            return Err(Invalid::new("batch size", "must be greater than zero"));
        }
        if self.batch > CLAIM_MESSAGES_MAX {
            return Err(Invalid::new("batch size", "must be at most 10000"));
        }
        if self.attempts_max == Some(0) {
            return Err(Invalid::new("attempts_max", "must be greater than zero"));
        }
        Ok(())
    }

    /// The name of the worker, if it has one.
    pub(super) fn worker_name(&self) -> Result<Option<WorkerName>, Invalid> {
        self.name.clone().map(WorkerName::new).transpose()
    }

    /// Logs warnings about settings that work but are not recommended (IBX-119, IBX-120).
    pub(super) fn warn(&self, store: &str) {
        if !(Duration::from_secs(10)..=Duration::from_secs(300)).contains(&self.lease) {
            let lease = self.lease;
            warn!(
                store,
                ?lease,
                "lease is outside 10 to 300 s: short leases are lost after brief stalls, long ones delay recovery"
            );
        }
        if self.batch > 100 {
            warn!(
                store,
                batch = self.batch,
                "batch is over 100: other workers cannot claim what one worker holds"
            );
        }
    }
}
