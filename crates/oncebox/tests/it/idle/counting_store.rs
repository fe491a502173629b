//! A store that counts its calls, and can claim to be shared.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};

pub(crate) struct CountingStore {
    inner: Arc<dyn Store>,
    shared: bool,
    calls: Mutex<BTreeMap<&'static str, usize>>,
}

impl CountingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, shared: bool) -> Arc<Self> {
        Arc::new(Self { inner, shared, calls: Mutex::default() })
    }

    /// The number of calls of the method with this name.
    pub(crate) fn calls(&self, name: &str) -> usize {
        self.calls.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    /// The number of all calls, except those that read pauses, which depend on the time.
    pub(crate) fn all_calls(&self) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(name, _)| **name != "records").map(|(_, calls)| calls).sum()
    }

    fn count(&self, name: &'static str) -> &dyn Store {
        *self.calls.lock().unwrap().entry(name).or_default() += 1;
        &*self.inner
    }
}

#[async_trait]
impl Store for CountingStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        capabilities.shared = self.shared;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.inner.wakeups(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.count("observe").observe(observations).await
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

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.count("get").get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.count("with_key").with_key(key, limit).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
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

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.count("records").records(ops).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.count("usage").usage().await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.count("maintain").maintain(budget).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
