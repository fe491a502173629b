//! The layer around a mock store, and calls that a test runs step by step.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use oncebox::layers::Coalesced;
use oncebox::layers::coalesce::CoalesceOptions;
use oncebox_core::{
    Accepted, Begun, Claim, Error, Extended, NewMessage, Observed, Settlement, Store, Worked,
};

use super::items::{begin, extension, message, observation, settlement};
use super::mock_store::MockStore;

/// A coalescing layer around a mock store.
pub(crate) struct Harness {
    pub(crate) inner: Arc<MockStore>,
    /// The store for blocked calls; the same as `inner` unless a test needs two.
    pub(crate) blocking: Arc<MockStore>,
    pub(crate) store: Arc<Coalesced>,
}

/// A call that has been started, and perhaps answered.
pub(crate) type Call<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(CoalesceOptions::DEFAULT)
    }

    pub(crate) fn with(options: CoalesceOptions) -> Self {
        let inner = Arc::new(MockStore::default());
        Self::around(inner.clone(), inner, options)
    }

    /// A harness with a separate store for blocked calls.
    pub(crate) fn with_blocking_store() -> Self {
        Self::around(Arc::default(), Arc::default(), CoalesceOptions::DEFAULT)
    }

    fn around(inner: Arc<MockStore>, blocking: Arc<MockStore>, options: CoalesceOptions) -> Self {
        let store = Arc::new(Coalesced::with(inner.clone(), blocking.clone(), options));
        Self { inner, blocking, store }
    }

    /// A harness in which store calls 0 to 9 use both slots of every operation; calls 0 and 1 are those of accept.
    pub(crate) async fn busy() -> Self {
        let harness = Self::new();
        for item in [1, 2] {
            tokio::spawn(harness.accept_later([item]));
        }
        harness.inner.call(1).await;
        for item in [1, 2] {
            tokio::spawn(harness.observe_later([item]));
            tokio::spawn(harness.begin_later([item]));
            tokio::spawn(harness.work_later(vec![settlement(item)], vec![]));
            tokio::spawn(harness.extend_later([item]));
        }
        harness.inner.call(9).await;
        harness
    }

    /// Answers these store calls.
    pub(crate) async fn free(&self, calls: impl IntoIterator<Item = usize>) {
        for call in calls {
            self.inner.answer(call);
            idle().await;
        }
    }

    /// The store calls after the first ten.
    pub(crate) async fn later_calls(&self) -> Vec<Vec<u64>> {
        self.inner.calls().await.split_off(10)
    }

    pub(crate) fn accept(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Accepted>> {
        started(self.accept_later(items))
    }

    pub(crate) fn accept_messages(&self, messages: Vec<NewMessage>) -> Call<Vec<Accepted>> {
        let store = self.store.clone();
        started(Box::pin(async move { store.accept(&messages).await }))
    }

    pub(crate) fn work(&self, settlements: Vec<Settlement>, claims: Vec<Claim>) -> Call<Worked> {
        started(self.work_later(settlements, claims))
    }

    pub(crate) fn extend(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Extended>> {
        started(self.extend_later(items))
    }

    /// A call that is not started yet, like those of the methods below.
    pub(crate) fn accept_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Accepted>> {
        let (store, messages) = (self.store.clone(), all(items, message));
        Box::pin(async move { store.accept(&messages).await })
    }

    pub(crate) fn observe_later(&self, items: impl IntoIterator<Item = u64>) -> Call<Vec<Observed>> {
        let (store, observations) = (self.store.clone(), all(items, observation));
        Box::pin(async move { store.observe(&observations).await })
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

/// Starts a call, up to its first await of the store.
pub(crate) fn started<T>(mut call: Call<T>) -> Call<T> {
    assert!(poll(&mut call).is_pending(), "the call is not answered yet");
    call
}

pub(crate) fn poll<T>(call: &mut Call<T>) -> Poll<Result<T, Error>> {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets all other tasks run until they are idle.
pub(crate) async fn idle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// The item numbers of these outcomes.
pub(crate) fn numbers(outcomes: &[Accepted]) -> Vec<u64> {
    let uid = |outcome: &Accepted| outcome.summary().expect("the store is not full").uid.as_u128();
    outcomes.iter().map(|outcome| u64::try_from(uid(outcome)).unwrap()).collect()
}
