//! The layer between the handles of an inbox and its store: it applies pauses, and tracks when this process uses a store
//! that other processes share, so that maintenance can run less often while it does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use oncebox_core::limits::CLAIM_TOPICS_MAX;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, Namespace, NewMessage, Observation, Observed,
    Omitted, Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot,
    Store, Topic, TopicPage, TopicQuery, Topics, Usage, Wakeups, Worked,
};

use tokio::sync::watch;

use crate::pauses::{PausedTopics, Pauses};

/// Changes when this process has used the store: something may be due earlier than the store last reported.
pub(crate) type Activity = watch::Receiver<()>;

/// Maximum number of pages that a claim of all topics reads: only one can be full of paused topics, before or after the
/// listing starts again from the beginning.
const PAGES_MAX: usize = 4;

/// Rejects messages of paused topics and does not deliver them. A claim of all topics becomes a claim of the ready ones
/// that are not paused.
pub(crate) struct FrontStore {
    inner: Arc<dyn Store>,
    pauses: Arc<Pauses>,
    /// Where the next claim of all topics continues, by namespace, so that each topic has its turn.
    positions: Mutex<BTreeMap<Namespace, Topic>>,
    /// Set if other processes share the store. Otherwise running maintenance is cheap, and its use is not tracked.
    used: Option<watch::Sender<()>>,
}

impl FrontStore {
    pub(crate) fn new(inner: Arc<dyn Store>, pauses: Arc<Pauses>) -> Self {
        let used = inner.capabilities().shared.then(watch::Sender::default);
        Self { inner, pauses, positions: Mutex::default(), used }
    }

    pub(crate) fn activity(&self) -> Option<Activity> {
        self.used.as_ref().map(watch::Sender::subscribe)
    }

    /// Notes that the store was used, also by a failed call, because it may have taken effect.
    fn used<T>(&self, result: T) -> T {
        if let Some(used) = &self.used {
            used.send_replace(());
        }
        result
    }

    /// The claim without paused topics. If all of them are paused, the claim can only return what it returned before;
    /// none if it has no request id, so that this is nothing.
    async fn without_paused(&self, claim: &Claim) -> Result<Option<Claim>, Error> {
        let paused = self.pauses.current(claim.namespace).await?;
        let topics: Vec<_> = match claim.topics.named() {
            _ if paused.all_delivered() => return Ok(Some(claim.clone())),
            Some(named) => named.iter().filter(|topic| paused.delivers(topic)).cloned().collect(),
            None => {
                let ready = self.ready_topics_in_turn(claim.namespace, &paused).await?;
                // Listing them may have taken longer than a pause may take to apply.
                let paused = self.pauses.current(claim.namespace).await?;
                ready.into_iter().filter(|topic| paused.delivers(topic)).collect()
            }
        };
        let Ok(topics) = Topics::only(topics) else {
            let nothing_new = Claim { in_flight_max: Some(0), ..claim.clone() };
            return Ok(Some(nothing_new).filter(|claim| claim.request.is_some()));
        };
        Ok(Some(Claim { topics, requested_topics: Some(claim.topics.clone()), ..claim.clone() }))
    }

    /// Claims what is not paused.
    async fn claim_unpaused(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let mut unpaused = Vec::with_capacity(claims.len());
        for claim in claims {
            unpaused.push(self.without_paused(claim).await?);
        }
        let made: Vec<_> = unpaused.iter().flatten().cloned().collect();
        if made.is_empty() && settlements.is_empty() {
            return Ok(Worked { settled: Vec::new(), deliveries: vec![Vec::new(); claims.len()] });
        }
        let worked = self.inner.work(settlements, &made).await;
        let claimed = worked
            .as_ref()
            .is_ok_and(|worked| worked.deliveries.iter().any(|deliveries| !deliveries.is_empty()));
        let Worked { settled, deliveries } =
            if claimed || !settlements.is_empty() { self.used(worked) } else { worked }?;
        let mut deliveries = deliveries.into_iter();
        let deliveries = unpaused.iter().map(|claim| match claim {
            Some(_) => deliveries.next().expect("a store returns one list per claim"),
            None => Vec::new(),
        });
        Ok(Worked { settled, deliveries: deliveries.collect() })
    }

    /// The next topics with ready messages that are not paused, as many as one claim can name.
    async fn ready_topics_in_turn(
        &self,
        namespace: Namespace,
        paused: &PausedTopics,
    ) -> Result<Vec<Topic>, Error> {
        let mut after = self.positions().get(&namespace).cloned();
        for _ in 0..PAGES_MAX {
            let from_start = after.is_none();
            let page =
                self.inner.ready_topics(&ReadyTopics { namespace, after, limit: PageSize::MAX }).await?;
            let has_more = page.len() == PageSize::MAX.get() as usize;
            after = page.last().filter(|_| has_more).cloned();
            let topics = page.into_iter().filter(|topic| paused.delivers(topic));
            let topics: Vec<_> = topics.take(CLAIM_TOPICS_MAX).collect();
            if let Some(last) = topics.last() {
                self.positions().insert(namespace, last.clone());
                return Ok(topics);
            }
            if from_start && !has_more {
                break;
            }
        }
        Ok(Vec::new())
    }

    fn positions(&self) -> MutexGuard<'_, BTreeMap<Namespace, Topic>> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for FrontStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        let namespace = interest.namespace;
        self.pauses.wakeups(self.inner.wakeups(interest), namespace)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.used(self.inner.observe(observations).await)
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let Some(rejected) = self.pauses.rejected(messages).await? else {
            return self.used(self.inner.accept(messages).await);
        };
        let others = messages.iter().zip(&rejected).filter(|(_, rejected)| !**rejected);
        let others: Vec<_> = others.map(|(message, _)| message.clone()).collect();
        let accepted =
            if others.is_empty() { Vec::new() } else { self.used(self.inner.accept(&others).await)? };
        let mut accepted = accepted.into_iter();
        let outcomes = rejected.into_iter().map(|rejected| {
            let accepted = if rejected { Some(Pauses::REJECTED) } else { accepted.next() };
            accepted.expect("a store returns one outcome per item")
        });
        Ok(outcomes.collect())
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.used(self.inner.begin(begins).await)
    }

    /// Claims that returned nothing are no use of the store, because they changed nothing.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        if settlements.is_empty() || claims.iter().all(|claim| self.pauses.decide_at_once(claim)) {
            return self.claim_unpaused(settlements, claims).await;
        }
        // Settlements wait for nothing that only claims need. If the claims fail, the caller repeats the call, and the
        // settlements have the same outcomes again.
        let Worked { settled, .. } = self.used(self.inner.work(settlements, &[]).await)?;
        let Worked { deliveries, .. } = self.claim_unpaused(&[], claims).await?;
        Ok(Worked { settled, deliveries })
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.used(self.inner.extend(extensions).await)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.used(self.inner.operate(orders).await)
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
