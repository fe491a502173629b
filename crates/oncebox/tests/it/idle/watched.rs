//! A store that counts what it is asked, and that others may share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics, Ref, Scope,
    Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept, Usage, Wakeups, Worked,
};

pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    shared: bool,
    calls: Mutex<BTreeMap<&'static str, usize>>,
}

impl Watched {
    pub(crate) fn new(inner: Arc<dyn Store>, shared: bool) -> Arc<Self> {
        Arc::new(Self { inner, shared, calls: Mutex::default() })
    }

    /// How often it was called by this name.
    pub(crate) fn calls(&self, name: &str) -> usize {
        self.calls.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    /// How often it was called.
    pub(crate) fn all_calls(&self) -> usize {
        self.calls.lock().unwrap().values().sum()
    }

    fn count(&self, name: &'static str) -> &dyn Store {
        *self.calls.lock().unwrap().entry(name).or_default() += 1;
        &*self.inner
    }
}

#[async_trait]
impl Store for Watched {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.shared = self.shared;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        self.count("observe").observe(sightings).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.count("accept").accept(messages).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.count("begin").begin(begins).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.count("work").work(settlements, claims).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.count("extend").extend(extensions).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.count("operate").operate(orders).await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.count("get").get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.count("with_key").with_key(key, limit).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.count("page").page(query).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.count("counts").counts(scope).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.count("ready_topics").ready_topics(query).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.count("topic_counts").topic_counts(query).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.count("usage").usage().await
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.count("upkeep").upkeep(budget).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
