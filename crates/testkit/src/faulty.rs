//! A store with injected faults: calls fail before or after their commit, are delayed, or never return.

pub mod cases;
mod list;
mod plan;

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, ErrorKind, Extended, Extension,
    Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation,
    Observed, Omitted, Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement,
    Snapshot, Store, Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};

pub use plan::{FaultPlan, InjectedFault, Operation};

/// A store with injected faults in front of another one. Calls without a planned fault are passed on.
///
/// ```
/// # use std::sync::Arc;
/// # use oncebox_core::Store;
/// use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
///
/// fn break_next_accept(store: Arc<dyn Store>) -> Arc<dyn Store> {
///     let plan = FaultPlan::default();
///     plan.next_of(Operation::Accept, InjectedFault::FailAfterCommit);
///     Arc::new(FaultyStore::new(store, plan))
/// }
/// ```
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    plan: FaultPlan,
}

impl FaultyStore {
    /// Puts the faults of `plan` in front of `inner`. A clone of the plan can add more faults later.
    pub fn new(inner: Arc<dyn Store>, plan: FaultPlan) -> Self {
        Self { inner, plan }
    }

    /// Makes a call, with the planned fault if there is one.
    async fn call<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        match self.plan.take(operation) {
            InjectedFault::Pass => call.await,
            InjectedFault::FailBefore => Err(lost(operation)),
            InjectedFault::FailAfterCommit => {
                call.await?;
                Err(lost(operation))
            }
            InjectedFault::Delay(delay) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            InjectedFault::Hang => {
                call.await?;
                future::pending().await
            }
        }
    }
}

fn lost(operation: Operation) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("injected fault: the outcome of {operation:?} is lost, repeat the call"),
    )
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for FaultyStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.call(Operation::Observe, self.inner.observe(observations)).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.call(Operation::Accept, self.inner.accept(messages)).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.call(Operation::Begin, self.inner.begin(begins)).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.call(Operation::Work, self.inner.work(settlements, claims)).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.call(Operation::Extend, self.inner.extend(extensions)).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.call(Operation::Operate, self.inner.operate(orders)).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.call(Operation::Get, self.inner.get(refs)).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.call(Operation::WithKey, self.inner.with_key(key, limit)).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.call(Operation::Page, self.inner.page(query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.call(Operation::Counts, self.inner.counts(scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.call(Operation::ReadyTopics, self.inner.ready_topics(query)).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.call(Operation::TopicCounts, self.inner.topic_counts(query)).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.call(Operation::Records, self.inner.records(ops)).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.call(Operation::Usage, self.inner.usage()).await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.call(Operation::Maintain, self.inner.maintain(budget)).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.call(Operation::Close, self.inner.close()).await
    }
}
