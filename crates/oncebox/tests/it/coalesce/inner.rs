//! A store that notes the calls made to it and answers when it is told to. Every outcome names its item.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use oncebox::layers::Coalesced;
use oncebox::layers::coalesce::Options;
use oncebox_core::{
    Accepted, Attributes, Batch, Begin, Begun, Budget, Capabilities, Claim, Content, Counts, Delivery, Error,
    Extended, Extension, Fence, Fingerprint, Hold, Interest, Key, Kind, Lease, Namespace, NewMessage, Number,
    Observed, Operated, Order, Owner, Page, Payload, Policy, Query, ReadyTopics, Receipt, Ref, Scope,
    Settled, Settlement, Shard, Sighting, Snapshot, Span, State, Store, Timestamp, Topic, Trace, Uid, Upkept,
    Usage, Verdict, Wakeups, Worked,
};
use oncebox_testkit::SplitMix;
use tokio::sync::{Notify, oneshot};

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
        loop {
            let changed = self.changed.notified();
            if let Some(call) = self.lock().calls.get(index) {
                return call.clone();
            }
            changed.await;
        }
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
            Mode::Told => self.as_told(index, outcomes).await,
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

    async fn page(&self, _: &Query) -> Result<Page, Error> {
        Err(invalid())
    }

    async fn counts(&self, _: &Scope) -> Result<Counts, Error> {
        Err(invalid())
    }

    async fn ready_topics(&self, _: &ReadyTopics) -> Result<Vec<Topic>, Error> {
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

/// A coalescing layer around a store that is told what to do.
pub(crate) struct World {
    pub(crate) inner: Arc<Inner>,
    pub(crate) store: Arc<Coalesced>,
}

/// A call that has been made, and perhaps answered.
pub(crate) type Call<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Options::DEFAULT)
    }

    pub(crate) fn with(options: Options) -> Self {
        let inner = Arc::new(Inner::default());
        let store = Arc::new(Coalesced::with(inner.clone(), inner.clone(), options));
        Self { inner, store }
    }

    /// A world in which both places of every kind are taken, by calls 0 to 9 of the store; those of accept are 0 and 1.
    pub(crate) async fn busy() -> Self {
        let world = Self::new();
        for item in [1, 2] {
            tokio::spawn(world.accept_later([item]));
        }
        world.inner.call(1).await;
        for item in [1, 2] {
            tokio::spawn(world.observe_later([item]));
            tokio::spawn(world.begin_later([item]));
            tokio::spawn(world.work_later(vec![settlement(item)], vec![]));
            tokio::spawn(world.extend_later([item]));
        }
        world.inner.call(9).await;
        world
    }

    /// Answers calls of the store.
    pub(crate) async fn free(&self, calls: impl IntoIterator<Item = usize>) {
        for call in calls {
            self.inner.answer(call);
            idle().await;
        }
    }

    /// The calls of the store after the first ten.
    pub(crate) async fn later_calls(&self) -> Vec<Vec<u64>> {
        self.inner.calls().await.split_off(10)
    }

    pub(crate) fn accept(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Accepted>> {
        made(self.accept_later(items))
    }

    pub(crate) fn accept_messages(&self, messages: Vec<NewMessage>) -> Call<Vec<Accepted>> {
        let store = self.store.clone();
        made(Box::pin(async move { store.accept(&messages).await }))
    }

    pub(crate) fn work(&self, settlements: Vec<Settlement>, claims: Vec<Claim>) -> Call<Worked> {
        made(self.work_later(settlements, claims))
    }

    pub(crate) fn extend(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Extended>> {
        made(self.extend_later(items))
    }

    /// A call that has not been started; so are those below.
    pub(crate) fn accept_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Accepted>> {
        let (store, messages) = (self.store.clone(), all(items, message));
        Box::pin(async move { store.accept(&messages).await })
    }

    pub(crate) fn observe_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Observed>> {
        let (store, sightings) = (self.store.clone(), all(items, sighting));
        Box::pin(async move { store.observe(&sightings).await })
    }

    pub(crate) fn begin_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Begun>> {
        let (store, begins) = (self.store.clone(), all(items, begin));
        Box::pin(async move { store.begin(&begins).await })
    }

    pub(crate) fn work_later(&self, settlements: Vec<Settlement>, claims: Vec<Claim>) -> Call<Worked> {
        let store = self.store.clone();
        Box::pin(async move { store.work(&settlements, &claims).await })
    }

    pub(crate) fn extend_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Extended>> {
        let (store, extensions) = (self.store.clone(), all(items, extension));
        Box::pin(async move { store.extend(&extensions).await })
    }
}

fn all<T>(items: impl IntoIterator<Item = u64>, make: fn(u64) -> T) -> Vec<T> {
    items.into_iter().map(make).collect()
}

/// Starts a call, as far as it goes.
pub(crate) fn made<T>(mut call: Call<T>) -> Call<T> {
    assert!(poll(&mut call).is_pending(), "nobody has answered yet");
    call
}

pub(crate) fn poll<T>(call: &mut Call<T>) -> Poll<Result<T, Error>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets every other task go on until none can.
pub(crate) async fn idle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// The numbers of the items whose outcomes these are.
pub(crate) fn numbers(outcomes: &[Accepted]) -> Vec<u64> {
    let uid = |outcome: &Accepted| outcome.receipt().expect("nothing is full").uid.as_u128();
    outcomes.iter().map(|outcome| u64::try_from(uid(outcome)).unwrap()).collect()
}

fn number(key: &Key) -> u64 {
    key.id.as_str().parse().expect("tests name keys by numbers")
}

pub(crate) fn key(item: u64) -> Key {
    Key::inbox("test", item.to_string()).unwrap()
}

pub(crate) fn message(item: u64) -> NewMessage {
    NewMessage::new(key(item), Topic::new("t").unwrap(), Payload::default())
}

pub(crate) fn sighting(item: u64) -> Sighting {
    Sighting { key: key(item), hash: None, hold: hold() }
}

pub(crate) fn begin(item: u64) -> Begin {
    Begin { key: key(item), owner: owner(1), lease: span(), hold: hold() }
}

pub(crate) fn settlement(item: u64) -> Settlement {
    Settlement {
        uid: Uid::from_u128(item.into()),
        owner: owner(1),
        fence: Fence::new(1).unwrap(),
        verdict: Verdict::Ack,
    }
}

pub(crate) fn extension(item: u64) -> Extension {
    Extension {
        uid: Uid::from_u128(item.into()),
        owner: owner(1),
        fence: Fence::new(1).unwrap(),
        lease: span(),
    }
}

pub(crate) fn claim(by: u64, messages: u32) -> Claim {
    Claim::new(Namespace::Inbox, owner(by), span(), Batch::new(messages).unwrap())
}

pub(crate) fn owner(number: u64) -> Owner {
    Owner::new(number.into()).unwrap()
}

fn span() -> Span {
    Span::new("lease", Duration::from_secs(30)).unwrap()
}

fn hold() -> Hold {
    Policy::INBOX.hold
}

pub(crate) fn receipt(item: u64) -> Receipt {
    Receipt {
        uid: Uid::from_u128(item.into()),
        accepted_at: Timestamp::EPOCH,
        dedup_until: Timestamp::EPOCH,
        state: State::Processing,
        trace: Trace::default(),
    }
}

fn delivery(claim: &Claim) -> Delivery {
    let (topic, payload) = (Topic::new("t").unwrap(), Payload::default());
    Delivery {
        uid: Uid::from_u128(claim.owner.as_u128()),
        number: Number(1),
        key: key(1),
        fingerprint: Fingerprint::of(&topic, &payload),
        content: Content {
            topic,
            shard: Shard::default(),
            partition: None,
            payload,
            attributes: Attributes::default(),
            due: None,
            expires: None,
        },
        hash: None,
        trace: Trace::default(),
        accepted_at: Timestamp::EPOCH,
        last_seen_at: Timestamp::EPOCH,
        attempts: 0,
        deliveries: 1,
        last_error: None,
        lease: Lease { owner: claim.owner, fence: Fence::new(1).unwrap(), until: Timestamp::EPOCH },
    }
}
