//! Tracks when this process uses a store that other processes share, so that maintenance can run less often while it
//! does not.

use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};
use tokio::sync::watch;

/// Changes when this process has used the store: something may be due earlier than the store last reported.
pub(crate) type Activity = watch::Receiver<()>;

/// Wraps a shared store to track its use. A store that only this process has open is not tracked: running maintenance
/// on it is cheap.
pub(crate) fn track(store: Arc<dyn Store>) -> (Arc<dyn Store>, Option<Activity>) {
    if !store.capabilities().shared {
        return (store, None);
    }
    let (sender, activity) = watch::channel(());
    (Arc::new(ActivityTracker { inner: store, sender }), Some(activity))
}

struct ActivityTracker {
    inner: Arc<dyn Store>,
    sender: watch::Sender<()>,
}

impl ActivityTracker {
    /// Notifies also after a failed call, because it may have taken effect.
    fn notify<T>(&self, result: T) -> T {
        self.sender.send_replace(());
        result
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for ActivityTracker {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.notify(self.inner.observe(observations).await)
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.notify(self.inner.accept(messages).await)
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.notify(self.inner.begin(begins).await)
    }

    /// Does not notify for claims that returned nothing, because they changed nothing.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let worked = self.inner.work(settlements, claims).await;
        let claimed = worked
            .as_ref()
            .is_ok_and(|worked| worked.deliveries.iter().any(|deliveries| !deliveries.is_empty()));
        if claimed || !settlements.is_empty() { self.notify(worked) } else { worked }
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.notify(self.inner.extend(extensions).await)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.notify(self.inner.operate(orders).await)
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

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
