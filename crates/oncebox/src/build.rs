//! How an inbox is set up.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::PAYLOAD_BYTES_MAX;
use oncebox_core::{
    Clock, Divergence, Error, Hold, Invalid, Keep, Policy, Rng, Source, Store, TransactionalStore,
};
use oncebox_system::{SystemClock, SystemRng};

use crate::shared::Oncebox;
use crate::telemetry::TraceContext;
use crate::transaction::{self, Transactions};
use crate::{ledger, open};

/// Largest payload unless set otherwise (SPEC rule 19).
const PAYLOAD_BYTES_DEFAULT: usize = 16 * 1024 * 1024;

/// What an inbox is set to.
pub(crate) struct Settings {
    pub(crate) payload_bytes_max: usize,
    /// What messages are accepted under.
    pub(crate) policy: Policy,
    /// By source, where it differs from the policy's.
    pub(crate) divergence: HashMap<Source, Divergence>,
    pub(crate) ledger_keep: Duration,
    pub(crate) seen_keep: Option<Duration>,
    pub(crate) dead_keep: Option<Duration>,
    pub(crate) trace_context: Option<Arc<dyn TraceContext>>,
}

/// Sets up an inbox, then opens it.
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
pub struct Builder {
    settings: Settings,
    name: Option<Arc<str>>,
    clock: Option<Arc<dyn Clock>>,
    rng: Option<Box<dyn Rng>>,
    problem: Option<Invalid>,
}

impl Default for Builder {
    fn default() -> Self {
        let settings = Settings {
            payload_bytes_max: PAYLOAD_BYTES_DEFAULT,
            policy: Policy::INBOX,
            divergence: HashMap::new(),
            ledger_keep: ledger::KEEP_MIN,
            seen_keep: None,
            dead_keep: None,
            trace_context: None,
        };
        Self { settings, name: None, clock: None, rng: None, problem: None }
    }
}

impl Builder {
    /// Names the store in logs and health. If not set, by where it is: `postgres://HOST:PORT/DATABASE`, `embedded:DIRECTORY`; stores
    /// without a place are numbered, as in `memory-1`.
    #[must_use]
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.name = Some(name.as_ref().into());
        self
    }

    /// Dead after this many deliveries that ended badly; stored with each message that is accepted from here on. If it is not
    /// set, the worker's limit counts, and 10 if that is not set either (IBX-084).
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.settings.policy.attempts_max = NonZeroU32::new(attempts);
        if attempts == 0 {
            self.refuse(Invalid::new("attempts_max", "must be greater than zero"));
        }
        self
    }

    /// How long duplicates of a handled message are known as such; 30 days if not set.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.settings.policy.hold.keep = Keep::After(keep);
        self
    }

    /// Largest payload taken in; 16 MiB if not set, 64 MiB at most.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.payload_bytes_max = bytes;
        if bytes > PAYLOAD_BYTES_MAX {
            self.refuse(Invalid::new("payload_bytes_max", "is over 64 MiB, which is the most a store takes"));
        }
        self
    }

    /// A handled message keeps its topic, payload, attributes and last error until it is forgotten.
    #[must_use]
    pub fn keep_finished(mut self) -> Self {
        self.settings.policy.keep_finished = true;
        self
    }

    /// What happens when a key comes again with other content: by default the newer content is written.
    #[must_use]
    pub fn on_divergence(mut self, divergence: Divergence) -> Self {
        self.settings.policy.divergence = divergence;
        self
    }

    /// The same, for one source.
    #[must_use]
    pub fn on_divergence_from(mut self, source: &str, divergence: Divergence) -> Self {
        match Source::inbox(source) {
            Ok(source) => drop(self.settings.divergence.insert(source, divergence)),
            Err(invalid) => self.refuse(invalid),
        }
        self
    }

    /// How long processed keys of the ledger are kept: 7 days, which is the least, to 30 days.
    #[must_use]
    pub fn ledger_keep(mut self, keep: Duration) -> Self {
        self.settings.ledger_keep = keep;
        if !(ledger::KEEP_MIN..=ledger::KEEP_MAX).contains(&keep) {
            self.refuse(Invalid::new("ledger_keep", "must be from 7 to 30 days"));
        }
        self
    }

    /// Upkeep forgets what was only ever seen so long after it came; never if not set.
    #[must_use]
    pub fn seen_keep(mut self, keep: Duration) -> Self {
        self.settings.seen_keep = Some(keep);
        self
    }

    /// Upkeep forgets what is Dead so long after it died; never if not set. The dead letters of a mailbox go by the settings of their
    /// topic instead ([`crate::mailbox::TopicSettings`]).
    #[must_use]
    pub fn dead_keep(mut self, keep: Duration) -> Self {
        self.settings.dead_keep = Some(keep);
        self
    }

    /// Carries the trace of the sender over to the handler.
    #[must_use]
    pub fn trace_context(mut self, context: Arc<dyn TraceContext>) -> Self {
        self.settings.trace_context = Some(context);
        self
    }

    /// The clock that delays are counted from, and of a store that is opened here; the system's if not set.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The source of owners, request ids and jitter; the system's if not set.
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

    /// Takes a store that is open already.
    pub fn on(self, store: Arc<dyn Store>) -> Result<Oncebox, Error> {
        self.on_both(store, None)
    }

    /// Takes a store that is open already and takes part in transactions: handlers can have theirs
    /// ([`Tx`](crate::Tx)), and messages can be taken in with what an application writes ([`Inbox::enqueue_in`](crate::Inbox::enqueue_in)).
    pub fn on_transactional<S>(self, store: Arc<S>) -> Result<Oncebox, Error>
    where
        S: TransactionalStore + 'static,
    {
        let transactions = transaction::of(store.clone());
        self.on_both(store, Some(transactions))
    }

    /// Takes a store on PostgreSQL that is open already, as [`Self::on_transactional`], and merges concurrent calls into
    /// few: as if it had been opened by its URL.
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

    /// Remembers the first fault; opening tells it.
    fn refuse(&mut self, invalid: Invalid) {
        self.problem.get_or_insert(invalid);
    }
}

impl Settings {
    /// What a message from `source` is accepted under.
    pub(crate) fn policy_for(&self, source: &Source) -> Policy {
        let divergence = self.divergence.get(source).copied().unwrap_or(self.policy.divergence);
        Policy { divergence, ..self.policy }
    }

    pub(crate) fn hold(&self) -> Hold {
        self.policy.hold
    }
}
