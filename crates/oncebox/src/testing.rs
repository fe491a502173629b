//! Helpers for the tests of applications: an inbox in memory whose time is moved by hand, and which fails on demand.
//!
//! ```
//! use std::time::Duration;
//!
//! use oncebox::testing::TestInbox;
//! use oncebox::{Failure, Inbox, Message, Worker};
//!
//! /// The application's code under test.
//! async fn order(inbox: &Inbox, number: &str) -> Result<(), oncebox::Error> {
//!     let message = Message::new("order.placed", "shop", number).text("two apples");
//!     inbox.enqueue(message).await.map(drop)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox::Error> {
//! let test = TestInbox::new();
//! order(&test.inbox(), "17").await?;
//! let message = test.assert_enqueued("order.placed", "shop", "17").await;
//! assert_eq!(message.payload(), "two apples");
//!
//! // A handler that fails is tried again when its time has come.
//! let failing = || Worker::new(test.oncebox()).on("order.placed", async || Err::<(), _>(Failure::retry("no apples")));
//! assert_eq!(test.drain(failing()).await?.retrying, 1);
//! test.advance(Duration::from_secs(2));
//! let working = Worker::new(test.oncebox()).on("order.placed", async || {});
//! assert_eq!(test.drain(working).await?.handled, 1);
//! test.assert_done("shop", "17").await;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Error, Key, Query, Snapshot, State, Store, StoreExt, Timestamp};
use oncebox_store_memory::{MemoryStore, Options};
use oncebox_system::SystemRng;
use oncebox_testkit::ManualClock;
use oncebox_testkit::faulty::FaultyStore;

use crate::inbox::Inbox;
use crate::message::Message;
use crate::shared::Oncebox;
use crate::worker::{Stopped, Worker};

pub use oncebox_testkit::faulty::{Fault, FaultPlan, Operation};

/// An inbox in memory for one test. Its time stands still until it is moved; what was handled keeps its content.
pub struct TestInbox {
    oncebox: Oncebox,
    clock: Arc<ManualClock>,
    faults: FaultPlan,
    /// Past the faults, so that assertions always see.
    store: Arc<dyn Store>,
}

impl Default for TestInbox {
    fn default() -> Self {
        Self::new()
    }
}

impl TestInbox {
    /// An empty inbox.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::with(Options::default(), clock.clone(), Box::new(SystemRng::default()));
        let store: Arc<dyn Store> = Arc::new(store);
        let faults = FaultPlan::default();
        let failing = Arc::new(FaultyStore::new(store.clone(), faults.clone()));
        let oncebox = Oncebox::builder().name("test").clock(clock.clone()).keep_finished().on(failing);
        let oncebox = oncebox.expect("these settings are in bounds");
        Self { oncebox, clock, faults, store }
    }

    /// The inbox under test.
    pub fn oncebox(&self) -> &Oncebox {
        &self.oncebox
    }

    /// Its receiving side.
    pub fn inbox(&self) -> Inbox {
        self.oncebox.inbox()
    }

    /// The inbox's time.
    pub fn now(&self) -> Timestamp {
        oncebox_core::Clock::now(&*self.clock)
    }

    /// Moves the inbox's time: retries come due, leases end, messages expire.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// What is planned to fail. Everything passes until something is planned.
    pub fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    /// Runs the worker until nothing is to be had at this time, and tells what it did.
    pub async fn drain<S>(&self, worker: Worker<S>) -> Result<Stopped, Error> {
        worker.without_upkeep().run_until_idle().await
    }

    /// Everything with content of this topic, oldest first, up to a thousand messages.
    pub async fn enqueued(&self, topic: &str) -> Vec<Message> {
        let mut query = Query::all(oncebox_core::Namespace::Inbox);
        query.topic = Some(oncebox_core::Topic::inbox(topic).expect("a topic has 1 to 255 characters"));
        let page = self.store.page(&query).await.expect("a store in memory answers");
        let mut found = Vec::new();
        for listed in page.messages {
            let message = self.store.get_one(&listed.uid.into()).await.expect("a store in memory answers");
            found.extend(message.as_ref().and_then(Message::stored));
        }
        found
    }

    /// The message that `source` calls `id`, which must have been enqueued with this topic, whatever became of it since.
    ///
    /// # Panics
    /// If it was not; the text tells what was.
    pub async fn assert_enqueued(&self, topic: &str, source: &str, id: &str) -> Message {
        let found = self.find(source, id).await.as_ref().and_then(Message::stored);
        match found {
            Some(message) if message.topic() == topic => message,
            Some(message) => panic!("{source}/{id} has topic {:?}, not {topic:?}", message.topic()),
            None => panic!(
                "{source}/{id} was not enqueued; of {topic:?} there are {:?}",
                self.enqueued(topic).await
            ),
        }
    }

    /// # Panics
    /// If the message that `source` calls `id` is not Done.
    pub async fn assert_done(&self, source: &str, id: &str) {
        self.assert_state(source, id, State::Done).await;
    }

    /// # Panics
    /// If the message that `source` calls `id` is not Dead.
    pub async fn assert_dead(&self, source: &str, id: &str) {
        self.assert_state(source, id, State::Dead).await;
    }

    async fn assert_state(&self, source: &str, id: &str, state: State) {
        match self.find(source, id).await {
            Some(found) if found.state == state => {}
            Some(found) => {
                let error = found.last_error.as_ref().map(oncebox_core::LastError::as_str);
                panic!("{source}/{id} is {:?}, not {state:?}; last error: {error:?}", found.state);
            }
            None => panic!("{source}/{id} is unknown, not {state:?}"),
        }
    }

    async fn find(&self, source: &str, id: &str) -> Option<Snapshot> {
        let key = Key::inbox(source, id).expect("source and id have 1 to 255 characters");
        self.store.get_one(&key.into()).await.expect("a store in memory answers")
    }
}
