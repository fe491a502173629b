//! Our side: the embedded store with its default durability.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::machine::Capacity;
use oncebox_core::{
    Accepted, Batch, Budget, Claim, Clock, Delivery, Namespace, NewMessage, Owner, Settled, Settlement, Span,
    Store, StoreExt,
};
use oncebox_store_embedded::{EmbeddedStore, Options};
use oncebox_system::uptime;

use super::drive::{Bench, Load, Side, Style};
use super::slow;

/// Items that one call of upkeep may work off.
const UPKEEP_ITEMS: u32 = 5_000;

pub(crate) struct Ours {
    pub(crate) store: EmbeddedStore,
    callers: Vec<Caller>,
    style: Style,
}

struct Caller {
    claim: Claim,
    /// Acks of what was claimed in the call before.
    acks: Mutex<Vec<Settlement>>,
}

impl Ours {
    /// A store in `path`, and upkeep once a second for as long as it lives.
    pub(crate) fn open(bench: &Bench, path: &Path, load: Load, slow: bool) -> Arc<Self> {
        let store = open_store(path, None, slow);
        let caller = |number| Caller { claim: claim(number, load.batch), acks: Mutex::default() };
        let callers = (1..=load.callers).map(caller).collect();
        let ours = Arc::new(Self { store, callers, style: load.style });
        bench.runtime.spawn(keep_up(Arc::downgrade(&ours)));
        ours
    }

    /// Claims as many as were accepted, and acks them or, in the style of two calls, those of the call before.
    async fn work(&self, caller: &Caller, messages: usize) {
        let claims = std::slice::from_ref(&caller.claim);
        let before = std::mem::take(&mut *caller.acks.lock().unwrap_or_else(PoisonError::into_inner));
        let worked = self.store.work(&before, claims).await.expect("work");
        check(&worked.settled);
        let deliveries = &worked.deliveries[0];
        assert_eq!(deliveries.len(), messages, "as many are there as were accepted");
        let acks: Vec<Settlement> = deliveries.iter().map(Delivery::ack).collect();
        match self.style {
            Style::ThreeCalls => check(&self.store.settle(&acks).await.expect("settle")),
            Style::TwoCalls => *caller.acks.lock().unwrap_or_else(PoisonError::into_inner) = acks,
        }
    }
}

fn check(settled: &[Settled]) {
    assert!(settled.iter().all(|outcome| *outcome == Settled::Done), "no lease is lost");
}

/// Opens the store in `path` with room for everything that a run brings.
pub(crate) fn open_store(path: &Path, clock: Option<Arc<dyn Clock>>, slow: bool) -> EmbeddedStore {
    let mut options = Options::default();
    options.capacity = Capacity { messages_max: 10_000_000, keys_max: 50_000_000, live_bytes_max: 64 << 30 };
    options.clock = clock;
    EmbeddedStore::open_on(slow::disk(path, slow), &options).expect("the store opens")
}

/// A claim of `batch` messages for one caller.
pub(crate) fn claim(caller: usize, batch: usize) -> Claim {
    let owner = Owner::new(caller as u128).expect("callers are counted from one");
    let lease = Span::lease(Duration::from_secs(30)).expect("not zero");
    let batch = Batch::new(u32::try_from(batch).expect("small")).expect("in bounds");
    Claim::new(Namespace::Inbox, owner, lease, batch)
}

/// What a server does beside its callers.
async fn keep_up(ours: Weak<Ours>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let Some(ours) = ours.upgrade() else { return };
        while ours.store.upkeep(Budget::new(UPKEEP_ITEMS)).await.expect("upkeep").forgotten > 0 {}
    }
}

impl Side for Ours {
    async fn lifecycle(&self, caller: usize, messages: &[NewMessage]) -> Duration {
        let start = uptime();
        let accepted = self.store.accept(messages).await.expect("accept");
        let took = uptime().saturating_sub(start);
        assert!(accepted.iter().all(|outcome| matches!(outcome, Accepted::New { .. })), "every id is new");
        self.work(&self.callers[caller], messages.len()).await;
        took
    }
}
