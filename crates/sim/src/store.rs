//! The store of a world: a sound one, a network in front of it that is not, and a witness of what was really done.

mod faults;
mod witness;

use std::future;
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    Kind, NewMessage, Observed, Omitted, Operated, Order, Owner, Page, PageSize, Query, ReadyTopics, Ref,
    Scope, Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Upkept, Usage, Wakeups,
    Worked,
};
use oncebox_store_memory::{MemoryStore, Options};
use tokio::time::sleep;

use crate::chance::Dice;
use crate::event::What;
use crate::journal::Journal;

pub(crate) use faults::Faults;
use faults::{Called, Fault};
use witness::Witness;
pub(crate) use witness::state_text;

/// The store as one node reaches it.
pub(crate) struct Link {
    store: Arc<Witness>,
    faults: Arc<Faults>,
    journal: Journal,
    node: u64,
}

/// The store and its network.
#[derive(Clone)]
pub(crate) struct Network {
    store: Arc<Witness>,
    pub(crate) faults: Arc<Faults>,
    journal: Journal,
}

impl Network {
    pub(crate) fn new(seed: u64, journal: &Journal) -> Self {
        let ids = Box::new(Dice::new(seed, "uids").fork());
        let inner = MemoryStore::with(Options::default(), journal.clock.clone(), ids);
        let store = Arc::new(Witness { inner, journal: journal.clone() });
        Self { store, faults: Arc::new(Faults::new(seed)), journal: journal.clone() }
    }

    /// A node's way to the store.
    pub(crate) fn link(&self, node: u64) -> Arc<Link> {
        let Self { store, faults, journal } = self.clone();
        Arc::new(Link { store, faults, journal, node })
    }

    /// The store itself.
    pub(crate) fn sound(&self) -> &MemoryStore {
        &self.store.inner
    }
}

impl Link {
    /// Makes a call, or what becomes of it on its way.
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        worker: Option<u64>,
        commit: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let called = Called { node: self.node, call: name, now_ms: self.journal.clock.elapsed_ms() };
        if let Some((calls, pause)) = self.faults.hurry(called) {
            self.journal.tell(What::Hurry { node: self.node, call: name, calls });
            sleep(pause).await;
        }
        let (there, back) = self.faults.latency();
        let fault = self.faults.draw(called);
        if let Some(kind) = fault.kind() {
            self.journal.tell(What::Fault { node: self.node, worker, call: name, kind });
        }
        if !there.is_zero() {
            sleep(there).await;
        }
        let answer = match fault {
            Fault::None => commit.await,
            Fault::Unreachable | Fault::Before => Err(lost(name)),
            Fault::After => commit.await.and_then(|_| Err(lost(name))),
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
                    // The store itself never waits, so nothing else is told in between.
                    journal.tell(What::LateBegins);
                    drop(commit.await);
                    journal.tell(What::LateEnds);
                });
                Err(lost(name))
            }
        };
        if !back.is_zero() {
            sleep(back).await;
        }
        answer
    }
}

fn lost(call: &str) -> Error {
    Error::new(Kind::Unavailable, format!("the answer of {call} was lost on purpose: repeat the call"))
}

/// A worker's number is its owner's.
fn number(owner: Owner) -> u64 {
    u64::try_from(owner.as_u128()).unwrap_or_default()
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for Link {
    fn capabilities(&self) -> Capabilities {
        self.store.inner.capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        let inner = self.store.inner.wakeups(interest);
        Box::new(Hearing {
            inner,
            faults: self.faults.clone(),
            journal: self.journal.clone(),
            node: self.node,
        })
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        let (store, sightings) = (self.store.clone(), sightings.to_vec());
        self.call("observe", None, async move { store.inner.observe(&sightings).await }).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let (store, messages) = (self.store.clone(), messages.to_vec());
        self.call("accept", None, async move { store.accept(&messages).await }).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let (store, begins) = (self.store.clone(), begins.to_vec());
        self.call("begin", None, async move { store.inner.begin(&begins).await }).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let owners = claims.iter().map(|claim| claim.owner);
        let owner = owners.chain(settlements.iter().map(|settlement| settlement.owner)).next();
        let worker = owner.map(number);
        let asked_at = self.journal.clock.elapsed_ms();
        let (store, settled, claimed) = (self.store.clone(), settlements.to_vec(), claims.to_vec());
        let answer = self.call("work", worker, async move { store.work(&settled, &claimed).await }).await?;
        let brought = answer.deliveries.iter().flatten().map(|delivery| delivery.lease.fence.get());
        let outcomes = answer.settled.iter().map(witness::outcome);
        self.journal.tell(What::Told {
            worker: worker.unwrap_or_default(),
            asked_at,
            claimed: !claims.is_empty(),
            brought: brought.collect(),
            kept: Vec::new(),
            lost: Vec::new(),
            settled: settlements.iter().map(|settlement| settlement.fence.get()).zip(outcomes).collect(),
        });
        Ok(answer)
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let worker = extensions.first().map(|extension| number(extension.owner));
        let asked_at = self.journal.clock.elapsed_ms();
        let (store, items) = (self.store.clone(), extensions.to_vec());
        let extended = self.call("extend", worker, async move { store.extend(&items).await }).await?;
        let both = extensions.iter().map(|extension| extension.fence.get()).zip(&extended);
        let (lost, kept): (Vec<_>, Vec<_>) =
            both.partition(|(_, extended)| **extended == Extended::LeaseLost);
        self.journal.tell(What::Told {
            worker: worker.unwrap_or_default(),
            asked_at,
            claimed: false,
            brought: Vec::new(),
            kept: kept.into_iter().map(|(fence, _)| fence).collect(),
            lost: lost.into_iter().map(|(fence, _)| fence).collect(),
            settled: Vec::new(),
        });
        Ok(extended)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        let (store, orders) = (self.store.clone(), orders.to_vec());
        self.call("operate", None, async move { store.inner.operate(&orders).await }).await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        let (store, refs) = (self.store.clone(), refs.to_vec());
        self.call("get", None, async move { store.inner.get(&refs).await }).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let (store, key) = (self.store.clone(), key.clone());
        self.call("with_key", None, async move { store.inner.with_key(&key, limit).await }).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
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

    async fn usage(&self) -> Result<Usage, Error> {
        let store = self.store.clone();
        self.call("usage", None, async move { store.inner.usage().await }).await
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        let store = self.store.clone();
        self.call("upkeep", None, async move { store.inner.upkeep(budget).await }).await
    }

    async fn close(&self) -> Result<(), Error> {
        let store = self.store.clone();
        self.call("close", None, async move { store.inner.close().await }).await
    }
}

/// Wake-ups, some of which are not heard.
struct Hearing {
    inner: Box<dyn Wakeups>,
    faults: Arc<Faults>,
    journal: Journal,
    node: u64,
}

#[async_trait]
impl Wakeups for Hearing {
    async fn wait(&mut self) {
        loop {
            self.inner.wait().await;
            if !self.faults.is_deaf() {
                return;
            }
            self.journal.tell(What::Fault {
                node: self.node,
                worker: None,
                call: "wakeups",
                kind: faults::DEAF,
            });
        }
    }
}
