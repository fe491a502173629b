//! The store of a simulation: a memory store that records what it does, behind a faulty network.

mod faults;
mod reading;
mod recorder;

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, ErrorKind, Extended, Extension,
    Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation,
    Observed, Omitted, Operated, Order, Owner, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope,
    Settlement, Snapshot, Store, Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};
use oncebox_store_memory::{MemoryOptions, MemoryStore};
use tokio::time::sleep;

use crate::event::EventKind;
use crate::journal::Journal;
use crate::random::RandomStream;

pub(crate) use faults::Faults;
use faults::{CallInfo, Fault};
use reading::Reading;
use recorder::RecordingStore;
pub(crate) use recorder::state_text;

/// The store as seen by one node, through the network.
pub(crate) struct NodeStore {
    store: Arc<RecordingStore>,
    faults: Arc<Faults>,
    journal: Journal,
    node: u64,
    reading: Reading,
}

/// The store and the network in front of it.
#[derive(Clone)]
pub(crate) struct Network {
    store: Arc<RecordingStore>,
    pub(crate) faults: Arc<Faults>,
    journal: Journal,
}

impl Network {
    pub(crate) fn new(seed: u64, journal: &Journal) -> Self {
        let ids = Box::new(RandomStream::new(seed, "uids").fork());
        let inner = MemoryStore::with(MemoryOptions::default(), journal.clock.clone(), ids);
        let store = Arc::new(RecordingStore { inner, journal: journal.clone() });
        Self { store, faults: Arc::new(Faults::new(seed)), journal: journal.clone() }
    }

    /// A node's connection to the store.
    pub(crate) fn link(&self, node: u64) -> Arc<NodeStore> {
        let Self { store, faults, journal } = self.clone();
        Arc::new(NodeStore { store, faults, journal, node, reading: Reading::default() })
    }

    /// The store itself, without the network.
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.store.inner
    }
}

impl NodeStore {
    /// Makes a call with the latency and the fault that are drawn for it.
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        worker: Option<u64>,
        commit: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let info = CallInfo { node: self.node, call: name, now_ms: self.journal.clock.elapsed_ms() };
        if let Some((calls, pause)) = self.faults.call_rate(info) {
            self.journal.record(EventKind::CallRate { node: self.node, call: name, calls });
            sleep(pause).await;
        }
        let (request_latency, answer_latency) = self.faults.latency();
        let fault = self.faults.draw(info);
        if let Some(kind) = fault.kind() {
            self.journal.record(EventKind::Fault { node: self.node, worker, call: name, kind });
        }
        if !request_latency.is_zero() {
            sleep(request_latency).await;
        }
        let answer = match fault {
            Fault::None => commit.await,
            Fault::Unreachable | Fault::LostRequest => Err(lost(name)),
            Fault::LostAnswer => commit.await.and_then(|_| Err(lost(name))),
            Fault::SlowRequest(delay) => {
                sleep(delay).await;
                commit.await
            }
            Fault::SlowAnswer(delay) => {
                let answer = commit.await;
                sleep(delay).await;
                answer
            }
            Fault::Hang => {
                commit.await?;
                future::pending().await
            }
            Fault::Late(delay) => {
                let journal = self.journal.clone();
                tokio::spawn(async move {
                    sleep(delay).await;
                    // The memory store never yields, so no other event is recorded in between.
                    journal.record(EventKind::LateBegins);
                    drop(commit.await);
                    journal.record(EventKind::LateEnds);
                });
                Err(lost(name))
            }
        };
        if !answer_latency.is_zero() {
            sleep(answer_latency).await;
        }
        answer
    }
}

fn lost(call: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the simulation dropped the answer of {call}: repeat the call"),
    )
}

/// The worker's number, which is its owner.
fn number(owner: Owner) -> u64 {
    u64::try_from(owner.as_u128()).unwrap_or_default()
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for NodeStore {
    fn capabilities(&self) -> Capabilities {
        self.store.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        let inner = self.store.inner.wakeups(interest);
        Box::new(LossyWakeups {
            inner,
            faults: self.faults.clone(),
            journal: self.journal.clone(),
            node: self.node,
        })
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        let (store, observations) = (self.store.clone(), observations.to_vec());
        self.call("observe", None, async move { store.inner.observe(&observations).await }).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let asked_at = self.reading.asked_at(self.journal.clock.elapsed_ms());
        let (store, messages) = (self.store.clone(), messages.to_vec());
        self.call("accept", None, async move { store.accept(&messages, asked_at).await }).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let (store, begins) = (self.store.clone(), begins.to_vec());
        self.call("begin", None, async move { store.inner.begin(&begins).await }).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let owners = claims.iter().map(|claim| claim.owner);
        let owner = owners.chain(settlements.iter().map(|settlement| settlement.owner)).next();
        let worker = owner.map(number);
        let called_at = self.journal.clock.elapsed_ms();
        let asked_at = self.reading.asked_at(called_at);
        let (store, settled, claimed) = (self.store.clone(), settlements.to_vec(), claims.to_vec());
        let answer =
            self.call("work", worker, async move { store.work(&settled, &claimed, asked_at).await }).await?;
        let delivered = answer.deliveries.iter().flatten().map(|delivery| delivery.lease.fence.get());
        let outcomes = answer.settled.iter().map(recorder::outcome);
        self.journal.record(EventKind::AnswerReceived {
            worker: worker.unwrap_or_default(),
            asked_at,
            called_at,
            claimed: !claims.is_empty(),
            delivered: delivered.collect(),
            extended: Vec::new(),
            lost: Vec::new(),
            settled: settlements.iter().map(|settlement| settlement.fence.get()).zip(outcomes).collect(),
        });
        Ok(answer)
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let worker = extensions.first().map(|extension| number(extension.owner));
        let called_at = self.journal.clock.elapsed_ms();
        let (store, items) = (self.store.clone(), extensions.to_vec());
        let extended = self.call("extend", worker, async move { store.extend(&items).await }).await?;
        let both = extensions.iter().map(|extension| extension.fence.get()).zip(&extended);
        let (lost, kept): (Vec<_>, Vec<_>) =
            both.partition(|(_, extended)| **extended == Extended::LeaseLost);
        self.journal.record(EventKind::AnswerReceived {
            worker: worker.unwrap_or_default(),
            asked_at: called_at,
            called_at,
            claimed: false,
            delivered: Vec::new(),
            extended: kept.into_iter().map(|(fence, _)| fence).collect(),
            lost: lost.into_iter().map(|(fence, _)| fence).collect(),
            settled: Vec::new(),
        });
        Ok(extended)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        let (store, orders) = (self.store.clone(), orders.to_vec());
        self.call("operate", None, async move { store.inner.operate(&orders).await }).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        let (store, refs) = (self.store.clone(), refs.to_vec());
        self.call("get", None, async move { store.inner.get(&refs).await }).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let (store, key) = (self.store.clone(), key.clone());
        self.call("with_key", None, async move { store.inner.with_key(&key, limit).await }).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        let (store, query) = (self.store.clone(), query.clone());
        self.call("page", None, async move { store.inner.page(&query).await }).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        let (store, scope) = (self.store.clone(), scope.clone());
        self.call("counts", None, async move { store.inner.counts(&scope).await }).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        let (store, query) = (self.store.clone(), query.clone());
        self.call("ready_topics", None, async move { store.inner.ready_topics(&query).await }).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        let (store, query) = (self.store.clone(), query.clone());
        self.call("topic_counts", None, async move { store.inner.topic_counts(&query).await }).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        let _reading = self.reading.start(&self.journal.clock);
        let (store, ops) = (self.store.clone(), ops.to_vec());
        self.call("records", None, async move { store.records(&ops).await }).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let store = self.store.clone();
        self.call("usage", None, async move { store.inner.usage().await }).await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        let store = self.store.clone();
        self.call("maintain", None, async move { store.inner.maintain(budget).await }).await
    }

    async fn close(&self) -> Result<(), Error> {
        let store = self.store.clone();
        self.call("close", None, async move { store.inner.close().await }).await
    }
}

/// Wake-ups, some of which are dropped.
struct LossyWakeups {
    inner: Box<dyn Wakeups>,
    faults: Arc<Faults>,
    journal: Journal,
    node: u64,
}

#[async_trait]
impl Wakeups for LossyWakeups {
    async fn wait(&mut self) {
        loop {
            self.inner.wait().await;
            if !self.faults.drops_wakeup() {
                return;
            }
            self.journal.record(EventKind::Fault {
                node: self.node,
                worker: None,
                call: "wakeups",
                kind: faults::LOST_WAKEUP,
            });
        }
    }
}
