//! The random comparison on a store that is repeatedly closed or killed.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::{Fixture, ManualClock, SplitMix};

use crate::disk::SimDisk;
use crate::open_on;

/// A store that is randomly reopened before a call.
struct Reopening {
    clock: Arc<ManualClock>,
    state: Mutex<State>,
}

struct State {
    rng: SplitMix,
    disk: SimDisk,
    store: Option<Arc<EmbeddedStore>>,
}

impl Reopening {
    fn store(&self) -> Arc<EmbeddedStore> {
        let mut state = self.state.lock().unwrap();
        match state.rng.below(40) {
            // Dropped: a clean close.
            0 => state.store = None,
            // Killed: what was written survives, without a close.
            1 => {
                let left = state.disk.after_kill();
                state.disk = left;
                state.store = None;
            }
            _ => {}
        }
        let State { store, disk, .. } = &mut *state;
        Arc::clone(store.get_or_insert_with(|| Arc::new(open_on(disk, &self.clock))))
    }
}

#[async_trait]
impl Store for Reopening {
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.store().wakeups(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.store().observe(observations).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.store().accept(messages).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.store().begin(begins).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.store().work(settlements, claims).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.store().extend(extensions).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.store().operate(orders).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.store().get(refs).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.store().with_key(key, limit).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.store().page(query).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.store().counts(scope).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.store().ready_topics(query).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.store().topic_counts(query).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.store().records(ops).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.store().usage().await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.store().maintain(budget).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.store().close().await
    }
}

async fn open() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let state = State { rng: SplitMix::new(3), disk: SimDisk::default(), store: None };
    let store = Reopening { clock: clock.clone(), state: Mutex::new(state) };
    Fixture { store: Arc::new(store), time: clock }
}

oncebox_testkit::random_comparison!(open);
