//! Notices what this process does to a store that others share, so that upkeep need not look all the time.

use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics, Ref, Scope,
    Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept, Usage, Wakeups, Worked,
};
use tokio::sync::watch;

/// Tells that something may be due earlier than the store last said.
pub(crate) type Stirred = watch::Receiver<()>;

/// A store, and how to hear of what is done to it. Of one that this process has alone nothing is told: asking it costs nothing.
pub(crate) fn around(store: Arc<dyn Store>) -> (Arc<dyn Store>, Option<Stirred>) {
    if !store.capabilities().shared {
        return (store, None);
    }
    let (stirs, stirred) = watch::channel(());
    (Arc::new(Stirring { inner: store, stirs }), Some(stirred))
}

struct Stirring {
    inner: Arc<dyn Store>,
    stirs: watch::Sender<()>,
}

impl Stirring {
    /// Also if it failed: it may have happened.
    fn stir<T>(&self, answer: T) -> T {
        self.stirs.send_replace(());
        answer
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Stirring {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        self.stir(self.inner.observe(sightings).await)
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.stir(self.inner.accept(messages).await)
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.stir(self.inner.begin(begins).await)
    }

    /// A claim that brought nothing has changed nothing.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let worked = self.inner.work(settlements, claims).await;
        let claimed = worked.as_ref().is_ok_and(|worked| worked.deliveries.iter().any(|got| !got.is_empty()));
        if claimed || !settlements.is_empty() { self.stir(worked) } else { worked }
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.stir(self.inner.extend(extensions).await)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.stir(self.inner.operate(orders).await)
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.inner.get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.inner.with_key(key, limit).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
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

    async fn usage(&self) -> Result<Usage, Error> {
        self.inner.usage().await
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.inner.upkeep(budget).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
