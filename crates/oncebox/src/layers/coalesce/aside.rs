//! Where calls wait that somebody else holds up, so that nobody waits for them but who wants the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncebox_core::{Error, Kind as ErrorKind, Store};
use tokio::sync::Semaphore;

use super::gate::Gate;
use super::kinds::Kind;
use super::queue::Id;

/// Calls of all kinds that stand aside at most, and how many of them the patient store is asked at once: each may have one of
/// its connections for as long as it is held up. Beyond, a call is answered that it is held up.
pub const ASIDE_MAX: usize = 1_000;
const ASIDE_AT_ONCE: usize = 2;

/// The calls that stand aside, of all kinds.
pub(super) struct Aside {
    patient: Arc<dyn Store>,
    places: Semaphore,
    standing: AtomicUsize,
}

impl Aside {
    pub(super) fn new(patient: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { patient, places: Semaphore::new(ASIDE_AT_ONCE), standing: AtomicUsize::new(0) })
    }

    /// Makes a call however long it takes. While too many stand aside already it is not made: nothing has happened.
    pub(super) async fn make<'a, K: Kind>(&'a self, items: K::Borrowed<'a>) -> Result<K::Answer, Error> {
        let Some(_standing) = Counted::below(ASIDE_MAX, &self.standing) else {
            let text = "transactions of somebody else hold too many calls up: repeat it later";
            return Err(Error::held_up(text));
        };
        let _place = self.places.acquire().await;
        K::make(&*self.patient, items).await
    }
}

/// One that stands aside, for as long as it does.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// None if there are `max` already.
    fn below(max: usize, standing: &'a AtomicUsize) -> Option<Self> {
        let counted = Self(standing);
        // Who is one too many counts until it is told so.
        (standing.fetch_add(1, Ordering::Relaxed) < max).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call of a group that stepped aside. However it ends, its caller hears of it.
pub(super) struct Waiting<K: Kind> {
    gate: Arc<Gate<K>>,
    id: Option<Id>,
}

impl<K: Kind> Waiting<K> {
    pub(super) fn new(gate: Arc<Gate<K>>, id: Id) -> Self {
        Self { gate, id: Some(id) }
    }

    /// Makes the call, and tells its caller.
    pub(super) async fn make(mut self, call: K::Owned) {
        let gate = self.gate.clone();
        let answer = gate.make_aside(K::between(&call, (0, 0), K::end(&call))).await;
        self.tell(answer);
    }

    fn tell(&mut self, answer: Result<K::Answer, Error>) {
        if let Some(id) = self.id.take() {
            self.gate.answer(id, answer);
        }
    }
}

impl<K: Kind> Drop for Waiting<K> {
    fn drop(&mut self) {
        self.tell(Err(Error::new(ErrorKind::Unavailable, "the call was given up: repeat it")));
    }
}
