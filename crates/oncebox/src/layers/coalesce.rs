//! Coalescing: concurrent calls of one process become one call to the underlying store.
//!
//! This layer is for stores where every call costs a round trip and a commit, however few items it has. A call that is
//! alone runs at once, on its caller's task, as if the layer were not there. Calls that arrive meanwhile go to the
//! *dispatcher* of their operation, a task that sends the calls that wait together, as one *batch*, while a slot is
//! free. A direct call has a slot too. A batch waits for no number of calls and for no fixed time, only for a larger
//! batch to end, and for callers whose calls were answered a moment ago to send their next one. Every caller waits
//! until its own batch is answered, and gets its own outcomes.
//!
//! `accept`, `observe`, `begin`, `work` and `extend` have a dispatcher each; all other operations pass straight through.
//!
//! # Guarantees
//! - A batch consists of whole calls and is one call to the store: if the store's calls are atomic, each caller's call
//!   still is.
//! - No key, no uid and no request id of a claim is in two calls of the same operation at once. A later call waits for
//!   the earlier one, in order, and does not overtake calls that wait for the same key. Calls of different operations
//!   do not wait for each other's keys: a heartbeat must not wait for a settlement.
//! - A small batch lets a larger one end first, whatever its operation, for a few milliseconds at most. Heartbeats do
//!   not.
//! - A batch has at most [`BATCH_ITEMS_MAX`] items, [`CLAIM_MESSAGES_MAX`] claimed messages and [`BATCH_BYTES_MAX`]
//!   bytes, unless a single call has more.
//! - If a batch fails, it fails for each of its callers, because the outcome is unknown for each. Only if nothing can
//!   have happened ([`ErrorKind::Invalid`], [`ErrorKind::Unsupported`]) the batch is split in half and retried, until
//!   the invalid call fails alone.
//! - A call that is blocked by a lock of another transaction ([`Error::is_blocked`]) leaves its batch, and then delays
//!   only calls for the same keys. It ends with its caller. At most [`BLOCKED_CALLS_MAX`] calls are kept waiting this
//!   way, and two of them run at a time; further calls fail with the same error. `work` and `extend` are counted apart
//!   from each other and from the other operations: heartbeats and settlements do not wait for blocked accepts.
//! - A call that the store does not answer fails after [`CALL_TIME_MAX`] ([`EXTEND_TIME_MAX`] if it extends leases) with
//!   an unknown outcome, and later calls for the same keys continue. A blocked call may take longer.
//! - A caller may drop its future at any time. If its call is still queued, it does not happen; if it is in a batch,
//!   the batch continues.
//!
//! # Why batches are tasks
//! If a batch ran on the task of one of its callers, it would end with that caller, leaving the outcome unknown for all
//! the others; even if another caller could take it over, it would make no progress while its caller is not polled. So
//! the dispatcher and each batch are tasks of the runtime, those of the first caller that had to wait. If that runtime
//! shuts down, the calls in flight fail, and those that wait continue on the runtimes of their callers. A call that
//! runs alone needs no task: if its caller is gone, no one else waits for it.

mod batch;
mod batcher;
mod blocked;
mod op;
mod pacing;
mod queue;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};
#[cfg(doc)]
use oncebox_core::{ErrorKind, limits::CLAIM_MESSAGES_MAX};

use batcher::Batcher;
use blocked::BlockedCalls;
use op::{ItemsOp, WorkOp};
use pacing::Pacing;

pub use blocked::BLOCKED_CALLS_MAX;

/// Maximum number of items in a batch of several calls. More items would hardly lower the cost per item: with
/// PostgreSQL, 16 callers and 50 messages per call, batches without this limit handled an eighth less, because one
/// batch took long while hardly any caller was left to fill another.
pub const BATCH_ITEMS_MAX: usize = 256;

/// Maximum size of the payloads and attributes in a batch of several calls.
pub const BATCH_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Time limit of a call to the store. After it, the call and its batch fail with an unknown outcome, and calls for the
/// same keys continue. Calls that are blocked by a lock of another transaction have none.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// Time limit of a call that extends leases: a heartbeat that takes longer is of no use.
pub const EXTEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Limits for coalescing calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoalesceOptions {
    /// Maximum number of batches in flight for each operation.
    pub batches_max: NonZeroUsize,
    /// Maximum number of calls waiting for each operation; the next call fails with
    /// [`oncebox_core::ErrorKind::Saturated`].
    pub waiting_calls_max: usize,
}

impl CoalesceOptions {
    /// Two batches, so that one is on the network while the store works on the other, and 10,000 waiting calls.
    pub const DEFAULT: Self =
        Self { batches_max: NonZeroUsize::MIN.saturating_add(1), waiting_calls_max: 10_000 };
}

impl Default for CoalesceOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A store that merges concurrent calls before it passes them to another store; see the [module](self).
///
/// Must be called within a Tokio runtime whose timers are enabled.
///
/// ```
/// # use std::sync::Arc;
/// use oncebox::layers::Coalesced;
/// use oncebox::{store::Store, Error, Oncebox};
///
/// fn inbox_on(database: Arc<dyn Store>) -> Result<Oncebox, Error> {
///     Oncebox::builder().on(Arc::new(Coalesced::new(database)))
/// }
/// ```
pub struct Coalesced {
    inner: Arc<dyn Store>,
    observe: Arc<Batcher<ItemsOp<Observation>>>,
    accept: Arc<Batcher<ItemsOp<NewMessage>>>,
    begin: Arc<Batcher<ItemsOp<Begin>>>,
    work: Arc<Batcher<WorkOp>>,
    extend: Arc<Batcher<ItemsOp<Extension>>>,
}

impl Coalesced {
    /// Coalesces the calls to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self::with(inner.clone(), inner, CoalesceOptions::DEFAULT)
    }

    /// Coalesces calls with these options, using two handles of one store: `fail_fast` returns [`Error::is_blocked`]
    /// when another transaction holds a lock that the call needs, `blocking` waits for the lock. Batches go to
    /// `fail_fast`. A blocked call leaves its batch and goes to `blocking`, so that no other call waits for it: two calls
    /// of `work` at a time, two of `extend`, and two of the other operations.
    pub fn with(fail_fast: Arc<dyn Store>, blocking: Arc<dyn Store>, options: CoalesceOptions) -> Self {
        let blocked = || BlockedCalls::new(blocking.clone());
        let others_blocked = blocked();
        let pacing = Arc::new(Pacing::new());
        Self {
            observe: Batcher::new(fail_fast.clone(), others_blocked.clone(), pacing.clone(), options),
            accept: Batcher::new(fail_fast.clone(), others_blocked.clone(), pacing.clone(), options),
            begin: Batcher::new(fail_fast.clone(), others_blocked, pacing.clone(), options),
            work: Batcher::new(fail_fast.clone(), blocked(), pacing, options),
            // Heartbeats wait only for other heartbeats, so they have a pacing of their own.
            extend: Batcher::new(fail_fast, blocked(), Arc::new(Pacing::new()), options),
            inner: blocking,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Coalesced {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.observe.call(observations).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.accept.call(messages).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.begin.call(begins).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.work.call((settlements, claims)).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.extend.call(extensions).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.inner.operate(orders).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.inner.get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.inner.with_key(key, limit).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.inner.page(query).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.inner.counts(scope).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.inner.ready_topics(query).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.inner.topic_counts(query).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.inner.records(ops).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage().await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.inner.maintain(budget).await
    }

    /// Closes the underlying store, then fails all waiting calls with [`oncebox_core::ErrorKind::Closed`].
    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await?;
        self.observe.close();
        self.accept.close();
        self.begin.close();
        self.work.close();
        self.extend.close();
        Ok(())
    }
}
