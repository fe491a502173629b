//! A mock store that records its calls and answers when the test says so. Every outcome identifies its item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, ErrorKind, Extended, Extension,
    Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation,
    Observed, Omitted, Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settled,
    Settlement, Snapshot, Store, Timestamp, Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked,
};
use oncebox_testkit::SplitMix;
use tokio::sync::{Notify, oneshot};

use super::harness::idle;
use super::items::{delivery, number, summary};
use crate::timed::within;

/// How the store answers a call.
pub(crate) enum Reply {
    Answer,
    /// Omits the last outcome.
    TooFew,
    Fail(Error),
    Panic,
}

/// How calls are answered.
#[derive(Default, Clone, Copy)]
pub(crate) enum Mode {
    /// When and how the test replies.
    #[default]
    Scripted,
    /// At once; calls with this item are invalid.
    AtOnce { rejected: Option<u64> },
    /// When and how the test replies, but calls with items from this one on are blocked.
    Blocked { from: u64 },
    /// After a short random time; items in two concurrent calls are recorded.
    Checking,
}

#[derive(Default)]
struct Recorded {
    /// The items of each call, by their numbers.
    calls: Vec<Vec<u64>>,
    replies: BTreeMap<usize, oneshot::Sender<Reply>>,
    mode: Mode,
    /// In [`Mode::Checking`]: the items in flight by operation, the items that were in flight twice, and the last
    /// random seed.
    in_flight: BTreeSet<(&'static str, u64)>,
    conflicts: Vec<(&'static str, u64)>,
    seed: u64,
    cancelled: usize,
    closed: bool,
    /// The memory address of the items of the last call to accept.
    address: usize,
}

#[derive(Default)]
pub(crate) struct MockStore {
    recorded: Mutex<Recorded>,
    changed: Notify,
}

/// Counts a call that ended without an answer.
struct Cancelled<'a>(&'a MockStore, bool);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.lock().cancelled += 1;
        }
    }
}

impl MockStore {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap()
    }

    /// Waits for the call with this index, starting at 0, and returns its items.
    pub(crate) async fn call(&self, index: usize) -> Vec<u64> {
        let call = async {
            loop {
                let changed = self.changed.notified();
                if let Some(call) = self.lock().calls.get(index) {
                    return call.clone();
                }
                changed.await;
            }
        };
        within("the store is called", call).await
    }

    /// All calls so far, once all tasks are idle.
    pub(crate) async fn calls(&self) -> Vec<Vec<u64>> {
        idle().await;
        self.lock().calls.clone()
    }

    pub(crate) fn reply(&self, call: usize, reply: Reply) {
        let sent = self.lock().replies.remove(&call).expect("the call is in flight").send(reply);
        assert!(sent.is_ok(), "call {call} was cancelled");
    }

    pub(crate) fn answer(&self, call: usize) {
        self.reply(call, Reply::Answer);
    }

    /// Answers the oldest unanswered call, if there is one and its caller was not dropped.
    pub(crate) fn answer_oldest(&self) {
        let oldest = self.lock().replies.pop_first();
        oldest.map(|(_, reply)| reply.send(Reply::Answer));
    }

    /// Answers all calls, and from now on all further calls at once.
    pub(crate) fn answer_all(&self) {
        let mut recorded = self.lock();
        recorded.mode = Mode::AtOnce { rejected: None };
        for reply in std::mem::take(&mut recorded.replies).into_values() {
            let _gone = reply.send(Reply::Answer);
        }
    }

    /// From now on answers at once, but rejects calls with this item.
    pub(crate) fn reject(&self, item: u64) {
        self.set(Mode::AtOnce { rejected: Some(item) });
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// The items that were in two calls in flight, or twice in one.
    pub(crate) fn conflicts(&self) -> Vec<(&'static str, u64)> {
        self.lock().conflicts.clone()
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.lock().cancelled
    }

    pub(crate) fn address(&self) -> usize {
        self.lock().address
    }

    /// Records a call and returns its outcomes, or what the mode demands.
    async fn answer_call<T>(
        &self,
        operation: &'static str,
        items: Vec<u64>,
        outcomes: Vec<T>,
    ) -> Result<Vec<T>, Error> {
        let (mode, index) = {
            let mut recorded = self.lock();
            if recorded.closed {
                return Err(Error::new(ErrorKind::Closed, "closed underneath"));
            }
            recorded.calls.push(items.clone());
            (recorded.mode, recorded.calls.len() - 1)
        };
        self.changed.notify_waiters();
        match mode {
            Mode::Blocked { from } if items.iter().any(|item| *item >= from) => Err(blocked_error()),
            Mode::Scripted | Mode::Blocked { .. } => self.scripted(index, outcomes).await,
            Mode::AtOnce { rejected: Some(item) } if items.contains(&item) => Err(invalid()),
            Mode::AtOnce { .. } => Ok(outcomes),
            Mode::Checking => {
                self.check(operation, items).await;
                Ok(outcomes)
            }
        }
    }

    async fn scripted<T>(&self, index: usize, mut outcomes: Vec<T>) -> Result<Vec<T>, Error> {
        let (sender, receiver) = oneshot::channel();
        self.lock().replies.insert(index, sender);
        let mut cancelled = Cancelled(self, true);
        let reply = receiver.await.expect("the test replies");
        cancelled.1 = false;
        match reply {
            Reply::Answer => {}
            Reply::TooFew => drop(outcomes.pop()),
            Reply::Fail(error) => return Err(error),
            Reply::Panic => panic!("a scripted panic"),
        }
        Ok(outcomes)
    }

    /// Stays in flight for a short random time, and records conflicts.
    async fn check(&self, operation: &'static str, items: Vec<u64>) {
        let (_in_flight, yields) = {
            let mut recorded = self.lock();
            for item in &items {
                if !recorded.in_flight.insert((operation, *item)) {
                    recorded.conflicts.push((operation, *item));
                }
            }
            recorded.seed += 1;
            (InFlight { store: self, operation, items }, SplitMix::new(recorded.seed).below(5))
        };
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
    }
}

/// Marks items as in flight until it is dropped.
struct InFlight<'a> {
    store: &'a MockStore,
    operation: &'static str,
    items: Vec<u64>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut recorded = self.store.lock();
        for item in &self.items {
            recorded.in_flight.remove(&(self.operation, *item));
        }
    }
}

pub(crate) fn blocked_error() -> Error {
    Error::blocked("another transaction holds the lock")
}

fn invalid() -> Error {
    Error::new(ErrorKind::Invalid, "an item is rejected")
}

#[async_trait]
impl Store for MockStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities
    }

    fn wakeups(&self, _: Interest) -> Box<dyn Wakeups> {
        unreachable!("no test waits for work")
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        let items: Vec<_> = observations.iter().map(|observation| number(&observation.key)).collect();
        let outcomes = items.iter().map(|item| Observed::First(summary(*item))).collect();
        self.answer_call("observe", items, outcomes).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.lock().address = messages.as_ptr().addr();
        let items: Vec<_> = messages.iter().map(|message| number(&message.key)).collect();
        let outcomes = items.iter().map(|item| Accepted::Conflict(summary(*item))).collect();
        self.answer_call("accept", items, outcomes).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let items: Vec<_> = begins.iter().map(|begin| number(&begin.key)).collect();
        let outcomes = items.iter().map(|item| Begun::Processed(summary(*item))).collect();
        self.answer_call("begin", items, outcomes).await
    }

    /// Records a claim by its owner, and returns as many deliveries as it requests, each with the owner's number as
    /// uid.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let settled = settlements.iter().map(|settlement| settlement.uid.as_u128());
        let claimed = claims.iter().map(|claim| claim.owner.as_u128());
        let items: Vec<_> = settled.chain(claimed).map(|item| u64::try_from(item).unwrap()).collect();
        let outcomes = items.iter().map(|item| Settled::Retrying { at: Timestamp::from_millis(*item) });
        let mut settled = self.answer_call("work", items.clone(), outcomes.collect()).await?;
        settled.truncate(settlements.len());
        let deliveries = claims.iter().map(|claim| (0..claim.batch.get()).map(|_| delivery(claim)).collect());
        Ok(Worked { settled, deliveries: deliveries.collect() })
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let uid = |extension: &Extension| u64::try_from(extension.uid.as_u128()).unwrap();
        let items: Vec<_> = extensions.iter().map(uid).collect();
        let outcomes = items.iter().map(|item| Extended::Until(Timestamp::from_millis(*item))).collect();
        self.answer_call("extend", items, outcomes).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.answer_call("operate", Vec::new(), vec![Operated::Unknown; orders.len()]).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.answer_call("get", Vec::new(), vec![None; refs.len()]).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let _ = (key, limit);
        Err(invalid())
    }

    async fn page(&self, _: &MessageQuery) -> Result<MessagePage, Error> {
        Err(invalid())
    }

    async fn counts(&self, _: &Scope) -> Result<Counts, Error> {
        Err(invalid())
    }

    async fn ready_topics(&self, _: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        Err(invalid())
    }

    async fn topic_counts(&self, _: &TopicQuery) -> Result<TopicPage, Error> {
        Err(invalid())
    }

    async fn records(&self, _: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        Err(invalid())
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Err(invalid())
    }

    async fn maintain(&self, _: Budget) -> Result<MaintenanceReport, Error> {
        Err(invalid())
    }

    async fn close(&self) -> Result<(), Error> {
        self.lock().closed = true;
        Ok(())
    }
}
