//! The builder: settings for opening an inbox.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::PAYLOAD_BYTES_MAX;
use oncebox_core::{Clock, Divergence, Error, Invalid, Keep, Policy, Rng, Source, Store, TransactionalStore};
use oncebox_system::{SystemClock, SystemRng};

use crate::settings::Settings;
use crate::shared::Oncebox;
use crate::telemetry::TraceContext;
use crate::transaction::{self, Transactions};
use crate::{ledger, open};

/// Default for the largest payload (RULE-19).
const PAYLOAD_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// Configures and opens an inbox.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// let oncebox = oncebox::Oncebox::builder()
///     .attempts_max(5)
///     .keep(Duration::from_secs(7 * 24 * 60 * 60))
///     .open("memory:")
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct OnceboxBuilder {
    settings: Settings,
    name: Option<Arc<str>>,
    clock: Option<Arc<dyn Clock>>,
    rng: Option<Box<dyn Rng>>,
    problem: Option<Invalid>,
}

impl Oncebox {
    /// Opens an inbox by its URL, with the default settings.
    ///
    /// - `memory:` keeps everything in memory, for tests and for data that may be lost.
    /// - `embedded:DIRECTORY` keeps everything in a directory that only one process can have open. A call returns when
    ///   its changes are on disk; `?durability=os` or `?durability=interval-50ms` trades that for speed.
    ///
    /// Both accept the limits `messages_max`, `keys_max` and `live_bytes_max`, as in `memory:?messages_max=1000`.
    ///
    /// - `postgres://USER@HOST/DATABASE` keeps everything in a PostgreSQL database that any number of processes can
    ///   share. It needs the feature `postgres`. `?ensure=yes` creates the tables; the guide explains `schema`,
    ///   `connections` and `pooler`. To use your own pool, see `OnceboxBuilder::on_postgres`.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::builder().open(url).await
    }

    /// A builder, to open an inbox with other settings or on a store that is already open.
    pub fn builder() -> OnceboxBuilder {
        OnceboxBuilder::default()
    }
}

impl Default for OnceboxBuilder {
    fn default() -> Self {
        let settings = Settings {
            payload_bytes_max: PAYLOAD_BYTES_DEFAULT,
            policy: Policy::INBOX,
            divergence: HashMap::new(),
            ledger_keep: ledger::KEEP_MIN,
            seen_keep: None,
            dead_keep: None,
            pause_after_deaths: 0,
            trace_context: None,
        };
        Self { settings, name: None, clock: None, rng: None, problem: None }
    }
}

impl OnceboxBuilder {
    /// Sets the name of the store in logs and health. The default is its location, `postgres://HOST:PORT/DATABASE` or
    /// `embedded:DIRECTORY`; stores without a location are numbered, as in `memory-1`.
    #[must_use]
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(name.as_ref().into());
        self
    }

    /// Sets the number of failed deliveries after which a message becomes Dead. It is stored with each message accepted
    /// from now on. If it is not set, the worker's limit applies, and 10 if that is not set either (IBX-084).
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.settings.policy.attempts_max = NonZeroU32::new(attempts);
        if attempts == 0 {
            self.reject(Invalid::new("attempts_max", "must be greater than zero"));
        }
        self
    }

    /// Sets how long a key is held after its message is Done, so that duplicates are recognized. The default is 30 days.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.settings.policy.hold.keep = Keep::After(keep);
        self
    }

    /// Pauses the delivery of a topic when more than this many of its messages die within a minute, other than by expiry
    /// or cancellation. This process counts, in its maintenance; an [`Operator`](crate::Operator) resumes the topic.
    /// The default is 0: no topic is paused. Topics of a mailbox have a setting of their own,
    /// [`dlq_pause_per_minute`](crate::mailbox::TopicSettings::dlq_pause_per_minute).
    #[must_use]
    pub fn pause_after_deaths(mut self, per_minute: u32) -> Self {
        self.settings.pause_after_deaths = per_minute;
        self
    }

    /// Sets the largest payload that is accepted: at most 64 MiB. The default is 16 MiB.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.payload_bytes_max = bytes;
        if bytes > PAYLOAD_BYTES_MAX {
            self.reject(Invalid::new("payload_bytes_max", "must be at most 64 MiB"));
        }
        self
    }

    /// Keeps the topic, payload, attributes and last error of handled messages while their keys are held. By
    /// default, they are deleted when a message is handled.
    #[must_use]
    pub fn keep_finished(mut self) -> Self {
        self.settings.policy.keep_finished = true;
        self
    }

    /// Sets what happens when a key is enqueued again with different content. By default, the newer content replaces
    /// the stored one.
    #[must_use]
    pub fn on_divergence(mut self, divergence: Divergence) -> Self {
        self.settings.policy.divergence = divergence;
        self
    }

    /// Sets what happens when a key of this source is enqueued again with different content.
    #[must_use]
    pub fn on_divergence_from(mut self, source: &str, divergence: Divergence) -> Self {
        match Source::inbox(source) {
            Ok(source) => drop(self.settings.divergence.insert(source, divergence)),
            Err(invalid) => self.reject(invalid),
        }
        self
    }

    /// Sets how long the ledger keeps processed keys: from 7 to 30 days. The default is 7 days.
    #[must_use]
    pub fn ledger_keep(mut self, keep: Duration) -> Self {
        self.settings.ledger_keep = keep;
        if !(ledger::KEEP_MIN..=ledger::KEEP_MAX).contains(&keep) {
            self.reject(Invalid::new("ledger_keep", "must be from 7 to 30 days"));
        }
        self
    }

    /// Sets how long after it was first observed maintenance deletes a key that was only ever Seen. By default, such
    /// keys are never deleted.
    #[must_use]
    pub fn seen_keep(mut self, keep: Duration) -> Self {
        self.settings.seen_keep = Some(keep);
        self
    }

    /// Sets how long after its death maintenance deletes a Dead message. By default, Dead messages are never deleted.
    /// Dead letters of a mailbox follow the settings of their topic instead ([`crate::mailbox::TopicSettings`]).
    #[must_use]
    pub fn dead_keep(mut self, keep: Duration) -> Self {
        self.settings.dead_keep = Some(keep);
        self
    }

    /// Propagates the sender's trace to the handler.
    #[must_use]
    pub fn trace_context(mut self, context: Arc<dyn TraceContext>) -> Self {
        self.settings.trace_context = Some(context);
        self
    }

    /// Sets the clock that delays are measured from; a store opened by this builder uses it too. The default is the
    /// system clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the random number generator for owners, request ids and jitter. The default is the system's.
    #[must_use]
    pub fn rng(mut self, rng: Box<dyn Rng>) -> Self {
        self.rng = Some(rng);
        self
    }

    /// Opens the store that `url` names; see [`Oncebox::open`].
    pub async fn open(self, url: &str) -> Result<Oncebox, Error> {
        if let Some(invalid) = self.problem {
            return Err(invalid.into());
        }
        let opened = open::store(url, self.name.clone(), self.clock.clone()).await?;
        self.on_opened(opened)
    }

    /// Uses a store that is already open.
    pub fn on(self, store: Arc<dyn Store>) -> Result<Oncebox, Error> {
        self.on_both(store, None)
    }

    /// Uses a store that is already open and supports transactions: handlers can run in a transaction
    /// ([`HandlerTx`](crate::worker::HandlerTx)), and an application can enqueue messages in its own transactions
    /// ([`Inbox::enqueue_in`](crate::Inbox::enqueue_in)).
    pub fn on_transactional<S>(self, store: Arc<S>) -> Result<Oncebox, Error>
    where
        S: TransactionalStore + 'static,
    {
        let transactions = transaction::transactions_of(store.clone());
        self.on_both(store, Some(transactions))
    }

    /// Uses a PostgreSQL store that is already open, as [`Self::on_transactional`] does, and coalesces concurrent calls
    /// ([`crate::layers::Coalesced`]), as [`Self::open`] does for a URL.
    #[cfg(feature = "postgres")]
    pub fn on_postgres(self, store: Arc<crate::postgres::PostgresStore>) -> Result<Oncebox, Error> {
        self.on_opened(open::on_postgres(store))
    }

    pub(crate) fn on_both(
        self,
        store: Arc<dyn Store>,
        transactions: Option<Arc<dyn Transactions>>,
    ) -> Result<Oncebox, Error> {
        if let Some(invalid) = self.problem {
            return Err(invalid.into());
        }
        let name = self.name.unwrap_or_else(|| open::numbered("store").into());
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::default()));
        let rng = self.rng.unwrap_or_else(|| Box::new(SystemRng::default()));
        Ok(Oncebox::new(store, transactions, name, clock, rng, self.settings))
    }

    fn on_opened(mut self, opened: open::Opened) -> Result<Oncebox, Error> {
        self.name.get_or_insert(opened.name);
        self.on_both(opened.store, opened.transactions)
    }

    /// Records an invalid setting. Opening fails with the first one.
    fn reject(&mut self, invalid: Invalid) {
        self.problem.get_or_insert(invalid);
    }
}
