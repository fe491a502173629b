//! The layer around the store that is told what to do, and calls that a test takes step by step.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use oncebox::layers::Coalesced;
use oncebox::layers::coalesce::Options;
use oncebox_core::{
    Accepted, Begun, Claim, Error, Extended, NewMessage, Observed, Settlement, Store, Worked,
};

use super::inner::Inner;
use super::items::{begin, extension, message, settlement, sighting};

/// A coalescing layer around a store that is told what to do.
pub(crate) struct World {
    pub(crate) inner: Arc<Inner>,
    /// The store for calls that are held up; the same one, unless a test wants two.
    pub(crate) patient: Arc<Inner>,
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
        Self::around(inner.clone(), inner, options)
    }

    /// A world in which what is held up goes to another store.
    pub(crate) fn apart() -> Self {
        Self::around(Arc::default(), Arc::default(), Options::DEFAULT)
    }

    fn around(inner: Arc<Inner>, patient: Arc<Inner>, options: Options) -> Self {
        let store = Arc::new(Coalesced::with(inner.clone(), patient.clone(), options));
        Self { inner, patient, store }
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
