//! Our side: a store, its callers, and maintenance once a second.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Delivery, ErrorKind, Namespace, NewMessage, Owner, Settled, Settlement,
    Span, Store, StoreExt,
};
use oncebox_system::uptime;

use crate::drive::{Bench, LifecycleTimes, Load, Side, Style};

/// Budget of one maintenance call.
const MAINTENANCE_ITEMS: u32 = 5_000;

pub(crate) struct Ours {
    pub(crate) store: Arc<dyn Store>,
    callers: Vec<Caller>,
    style: Style,
}

struct Caller {
    claim: Claim,
    /// Acks for the deliveries of the previous call.
    acks: Mutex<Vec<Settlement>>,
}

impl Ours {
    /// Callers for a store, with maintenance until this is dropped or the store is closed.
    pub(crate) fn new(bench: &Bench, store: Arc<dyn Store>, load: Load) -> Arc<Self> {
        let caller = |number| Caller { claim: claim(number, load.batch), acks: Mutex::default() };
        let callers = (1..=load.callers).map(caller).collect();
        let ours = Arc::new(Self { store, callers, style: load.style });
        bench.runtime.spawn(maintain_periodically(Arc::downgrade(&ours)));
        ours
    }

    /// Claims messages and acks them or, in the two-call style, those of the previous call. Returns the number of
    /// claimed messages, which can be lower than the batch size because callers compete, and how long the claim took.
    async fn work(&self, caller: &Caller) -> (usize, Duration) {
        let claims = std::slice::from_ref(&caller.claim);
        let acks = std::mem::take(&mut *caller.acks.lock().unwrap_or_else(PoisonError::into_inner));
        let start = uptime();
        let worked = self.store.work(&acks, claims).await.expect("work");
        let elapsed = uptime().saturating_sub(start);
        check(&worked.settled);
        let acks: Vec<Settlement> = worked.deliveries[0].iter().map(Delivery::ack).collect();
        let messages = acks.len();
        match self.style {
            Style::ThreeCalls => check(&self.store.settle(&acks).await.expect("settle")),
            Style::TwoCalls => *caller.acks.lock().unwrap_or_else(PoisonError::into_inner) = acks,
        }
        (messages, elapsed)
    }
}

fn check(settled: &[Settled]) {
    assert!(settled.iter().all(|outcome| *outcome == Settled::Done), "no lease is lost");
}

/// A claim of `batch` messages for one caller.
pub(crate) fn claim(caller: usize, batch: usize) -> Claim {
    let owner = Owner::new(caller as u128).expect("callers are counted from one");
    let lease = Span::lease(Duration::from_secs(30)).expect("not zero");
    let batch = Batch::new(u32::try_from(batch).expect("small")).expect("in bounds");
    Claim::new(Namespace::Inbox, owner, lease, batch)
}

/// Runs maintenance in the background, as a server does.
async fn maintain_periodically(ours: Weak<Ours>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let Some(ours) = ours.upgrade() else { return };
        loop {
            match ours.store.maintain(Budget::new(MAINTENANCE_ITEMS)).await {
                Ok(report) if report.forgotten > 0 => {}
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => panic!("maintenance: {error}"),
            }
        }
    }
}

impl Side for Ours {
    async fn lifecycle(&self, caller: usize, messages: &[NewMessage]) -> LifecycleTimes {
        let start = uptime();
        let accepted = self.store.accept(messages).await.expect("accept");
        let accept = uptime().saturating_sub(start);
        assert!(accepted.iter().all(|outcome| matches!(outcome, Accepted::New { .. })), "every id is new");
        let (messages, claim) = self.work(&self.callers[caller]).await;
        LifecycleTimes { accept, claim, messages }
    }
}
