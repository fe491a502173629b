//! A store that notes the calls made to it and answers when it is told to. Every outcome names its item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    Kind, NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics, Ref, Scope,
    Settled, Settlement, Sighting, Snapshot, Store, Timestamp, Topic, TopicPage, TopicQuery, Upkept, Usage,
    Wakeups, Worked,
};
use oncebox_testkit::SplitMix;
use tokio::sync::{Notify, oneshot};

use super::items::{delivery, number, receipt};
use super::world::idle;
use crate::timed::within;

/// What the store is told to do with a call.
pub(crate) enum Reply {
    Answer,
    /// Leaves the last outcome out.
    TooFew,
    Fail(Error),
    Panic,
}

/// How calls are answered.
#[derive(Default, Clone, Copy)]
pub(crate) enum Mode {
    /// As they are told to be.
    #[default]
    Told,
    /// At once, but for those with this item: they are invalid.
    AtOnce { refused: Option<u64> },
    /// As they are told to be, but those with items from this one on are held up.
    HeldUp { from: u64 },
    /// After a while; what is under way twice is noted.
    Checking,
}

#[derive(Default)]
struct Noted {
    /// The items of each call, by their numbers.
    calls: Vec<Vec<u64>>,
    replies: BTreeMap<usize, oneshot::Sender<Reply>>,
    mode: Mode,
    /// In [`Mode::Checking`]: what is under way, by kind; what was under way twice; chances.
    under_way: BTreeSet<(&'static str, u64)>,
    met: Vec<(&'static str, u64)>,
    chances: u64,
    cancelled: usize,
    closed: bool,
    /// Where the items of the last call to accept lay.
    address: usize,
}

#[derive(Default)]
pub(crate) struct Inner {
    noted: Mutex<Noted>,
    changed: Notify,
}

/// Counts a call that ended without an answer.
struct Cancelled<'a>(&'a Inner, bool);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.lock().cancelled += 1;
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap()
    }

    /// Waits for the call with this index, from 0, and tells its items.
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

    /// All calls so far, once nothing moves any more.
    pub(crate) async fn calls(&self) -> Vec<Vec<u64>> {
        idle().await;
        self.lock().calls.clone()
    }

    pub(crate) fn reply(&self, call: usize, reply: Reply) {
        let told = self.lock().replies.remove(&call).expect("the call is under way").send(reply);
        assert!(told.is_ok(), "call {call} has been cancelled");
    }

    pub(crate) fn answer(&self, call: usize) {
        self.reply(call, Reply::Answer);
    }

    /// Answers the oldest call that has not been told anything, if there is one and its caller is still there.
    pub(crate) fn answer_oldest(&self) {
        let oldest = self.lock().replies.pop_first();
        oldest.map(|(_, reply)| reply.send(Reply::Answer));
    }

    /// Answers this call and all that follow, from now on at once.
    pub(crate) fn answer_all(&self) {
        let mut noted = self.lock();
        noted.mode = Mode::AtOnce { refused: None };
        for reply in std::mem::take(&mut noted.replies).into_values() {
            let _gone = reply.send(Reply::Answer);
        }
    }

    /// From now on answers at once, but refuses calls with this item.
    pub(crate) fn refuse(&self, item: u64) {
        self.set(Mode::AtOnce { refused: Some(item) });
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.lock().mode = mode;
    }

    /// What was in two calls under way, or twice in one.
    pub(crate) fn met(&self) -> Vec<(&'static str, u64)> {
        self.lock().met.clone()
    }

    pub(crate) fn cancelled(&self) -> usize {
        self.lock().cancelled
    }

    pub(crate) fn address(&self) -> usize {
        self.lock().address
    }

    /// Notes a call and gives its outcomes, or what is told instead.
    async fn make<T>(&self, kind: &'static str, items: Vec<u64>, outcomes: Vec<T>) -> Result<Vec<T>, Error> {
        let (mode, index) = {
            let mut noted = self.lock();
            if noted.closed {
                return Err(Error::new(Kind::Closed, "closed underneath"));
            }
            noted.calls.push(items.clone());
            (noted.mode, noted.calls.len() - 1)
        };
        self.changed.notify_waiters();
        match mode {
            Mode::HeldUp { from } if items.iter().any(|item| *item >= from) => Err(held_up()),
            Mode::Told | Mode::HeldUp { .. } => self.as_told(index, outcomes).await,
            Mode::AtOnce { refused: Some(item) } if items.contains(&item) => Err(invalid()),
            Mode::AtOnce { .. } => Ok(outcomes),
            Mode::Checking => {
                self.check(kind, items).await;
                Ok(outcomes)
            }
        }
    }

    async fn as_told<T>(&self, index: usize, mut outcomes: Vec<T>) -> Result<Vec<T>, Error> {
        let (sender, receiver) = oneshot::channel();
        self.lock().replies.insert(index, sender);
        let mut cancelled = Cancelled(self, true);
        let reply = receiver.await.expect("the test tells what to do");
        cancelled.1 = false;
        match reply {
            Reply::Answer => {}
            Reply::TooFew => drop(outcomes.pop()),
            Reply::Fail(error) => return Err(error),
            Reply::Panic => panic!("told to panic"),
        }
        Ok(outcomes)
    }

    /// Is under way for a while, and notes what it meets.
    async fn check(&self, kind: &'static str, items: Vec<u64>) {
        let (_under_way, turns) = {
            let mut noted = self.lock();
            for item in &items {
                if !noted.under_way.insert((kind, *item)) {
                    noted.met.push((kind, *item));
                }
            }
            noted.chances += 1;
            (UnderWay { inner: self, kind, items }, SplitMix::new(noted.chances).below(5))
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

/// Items that are under way until this is dropped.
struct UnderWay<'a> {
    inner: &'a Inner,
    kind: &'static str,
    items: Vec<u64>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut noted = self.inner.lock();
        for item in &self.items {
            noted.under_way.remove(&(self.kind, *item));
        }
    }
}

pub(crate) fn held_up() -> Error {
    Error::held_up("somebody has locked it")
}

fn invalid() -> Error {
    Error::new(Kind::Invalid, "an item is refused")
}

#[async_trait]
impl Store for Inner {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities
    }

    fn wakeups(&self, _: Interest) -> Box<dyn Wakeups> {
        unreachable!("nobody waits for work here")
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        let items: Vec<_> = sightings.iter().map(|sighting| number(&sighting.key)).collect();
        let outcomes = items.iter().map(|item| Observed::First(receipt(*item))).collect();
        self.make("observe", items, outcomes).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.lock().address = messages.as_ptr().addr();
        let items: Vec<_> = messages.iter().map(|message| number(&message.key)).collect();
        let outcomes = items.iter().map(|item| Accepted::Conflict(receipt(*item))).collect();
        self.make("accept", items, outcomes).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let items: Vec<_> = begins.iter().map(|begin| number(&begin.key)).collect();
        let outcomes = items.iter().map(|item| Begun::Processed(receipt(*item))).collect();
        self.make("begin", items, outcomes).await
    }

    /// A claim is noted by its owner, and gets so many deliveries as it asks for, each with that owner's number as uid.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let settled = settlements.iter().map(|settlement| settlement.uid.as_u128());
        let claimed = claims.iter().map(|claim| claim.owner.as_u128());
        let items: Vec<_> = settled.chain(claimed).map(|item| u64::try_from(item).unwrap()).collect();
        let outcomes = items.iter().map(|item| Settled::Retrying { at: Timestamp::from_millis(*item) });
        let mut settled = self.make("work", items.clone(), outcomes.collect()).await?;
        settled.truncate(settlements.len());
        let deliveries = claims.iter().map(|claim| (0..claim.batch.get()).map(|_| delivery(claim)).collect());
        Ok(Worked { settled, deliveries: deliveries.collect() })
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let uid = |extension: &Extension| u64::try_from(extension.uid.as_u128()).unwrap();
        let items: Vec<_> = extensions.iter().map(uid).collect();
        let outcomes = items.iter().map(|item| Extended::Until(Timestamp::from_millis(*item))).collect();
        self.make("extend", items, outcomes).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.make("operate", Vec::new(), vec![Operated::Unknown; orders.len()]).await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.make("get", Vec::new(), vec![None; refs.len()]).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let _ = (key, limit);
        Err(invalid())
    }

    async fn page(&self, _: &Query) -> Result<Page, Error> {
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

    async fn usage(&self) -> Result<Usage, Error> {
        Err(invalid())
    }

    async fn upkeep(&self, _: Budget) -> Result<Upkept, Error> {
        Err(invalid())
    }

    async fn close(&self) -> Result<(), Error> {
        self.lock().closed = true;
        Ok(())
    }
}
