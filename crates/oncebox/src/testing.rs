//! Helpers for application tests: an in-memory inbox with a manual clock and fault injection.
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
//! // A failed message is retried after its backoff.
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

use oncebox_core::{Error, Key, MessageQuery, MessageState, Snapshot, Store, StoreExt, Timestamp};
use oncebox_store_memory::{MemoryOptions, MemoryStore};
use oncebox_system::SystemRng;
use oncebox_testkit::ManualClock;
use oncebox_testkit::faulty::FaultyStore;

use crate::inbox::Inbox;
use crate::message::Message;
use crate::shared::Oncebox;
use crate::worker::{Worker, WorkerSummary};

pub use oncebox_testkit::faulty::{FaultPlan, InjectedFault, Operation};

/// An in-memory inbox for one test. Its clock stands still until the test advances it; handled messages keep their
/// content.
pub struct TestInbox {
    oncebox: Oncebox,
    clock: Arc<ManualClock>,
    faults: FaultPlan,
    /// The store without fault injection, for assertions.
    store: Arc<dyn Store>,
}

impl Default for TestInbox {
    fn default() -> Self {
        Self::new()
    }
}

impl TestInbox {
    /// Creates an empty inbox.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store =
            MemoryStore::with(MemoryOptions::default(), clock.clone(), Box::new(SystemRng::default()));
        let store: Arc<dyn Store> = Arc::new(store);
        let faults = FaultPlan::default();
        let failing = Arc::new(FaultyStore::new(store.clone(), faults.clone()));
        let oncebox = Oncebox::builder().name("test").clock(clock.clone()).keep_finished().on(failing);
        let oncebox = oncebox.expect("the settings are valid");
        Self { oncebox, clock, faults, store }
    }

    /// The inbox under test.
    pub fn oncebox(&self) -> &Oncebox {
        &self.oncebox
    }

    /// The receiving API of the inbox under test.
    pub fn inbox(&self) -> Inbox {
        self.oncebox.inbox()
    }

    /// The current time of the inbox.
    pub fn now(&self) -> Timestamp {
        oncebox_core::Clock::now(&*self.clock)
    }

    /// Advances the clock of the inbox: retries become due, leases lapse, messages expire.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// The planned faults. Calls succeed until a fault is planned.
    pub fn faults(&self) -> &FaultPlan {
        &self.faults
    }

    /// Runs the worker until no message is due at the current time, and returns counts of the outcomes.
    pub async fn drain<S>(&self, worker: Worker<S>) -> Result<WorkerSummary, Error> {
        worker.without_maintenance().run_until_idle().await
    }

    /// The messages of this topic that have content, oldest first, at most 1,000.
    pub async fn enqueued(&self, topic: &str) -> Vec<Message> {
        let mut query = MessageQuery::all(oncebox_core::Namespace::Inbox);
        query.topic = Some(oncebox_core::Topic::inbox(topic).expect("a topic has 1 to 255 characters"));
        let page = self.store.page(&query).await.expect("an in-memory store answers");
        let mut found = Vec::new();
        for listed in page.messages {
            let message = self.store.get_one(&listed.uid.into()).await.expect("an in-memory store answers");
            found.extend(message.as_ref().and_then(Message::from_snapshot));
        }
        found
    }

    /// Returns the message with this source and id, whatever its state.
    ///
    /// # Panics
    /// If it was not enqueued with this topic; the panic message lists the messages of the topic.
    pub async fn assert_enqueued(&self, topic: &str, source: &str, id: &str) -> Message {
        let found = self.find(source, id).await.as_ref().and_then(Message::from_snapshot);
        match found {
            Some(message) if message.topic() == topic => message,
            Some(message) => panic!("{source}/{id} has topic {:?}, not {topic:?}", message.topic()),
            None => panic!(
                "{source}/{id} was not enqueued; messages of topic {topic:?}: {:?}",
                self.enqueued(topic).await
            ),
        }
    }

    /// Asserts that the message with this source and id is Done.
    ///
    /// # Panics
    /// If it is not.
    pub async fn assert_done(&self, source: &str, id: &str) {
        self.assert_state(source, id, MessageState::Done).await;
    }

    /// Asserts that the message with this source and id is Dead.
    ///
    /// # Panics
    /// If it is not.
    pub async fn assert_dead(&self, source: &str, id: &str) {
        self.assert_state(source, id, MessageState::Dead).await;
    }

    async fn assert_state(&self, source: &str, id: &str, state: MessageState) {
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
        self.store.get_one(&key.into()).await.expect("an in-memory store answers")
    }
}
