//! How long the store takes to open with a million live messages, and how small its directory gets when all are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{Budget, Clock, Delivery, Settlement, Store, StoreExt, Timestamp};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::{SystemClock, uptime};

use super::place::{Place, bytes_in};
use super::store::open_store;
use crate::drive::Bench;
use crate::messages::Messages;
use crate::ours::claim;
use crate::report::Report;

const LIVE: usize = 1_000_000;
const BATCH: usize = 1_000;
const PAYLOAD_BYTES: usize = 256;
/// How long the directory may take to shrink.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(bench: &Bench, place: &Place, report: &mut Report) {
    println!("\n{LIVE} live messages of {PAYLOAD_BYTES} B");
    let path = place.fresh("footprint");
    let clock = Arc::new(Ahead { clock: SystemClock::default(), ahead_ms: AtomicU64::new(0) });
    let open = || open_store(&path, Some(Arc::clone(&clock) as Arc<dyn Clock>), false);
    let store = open();
    bench.runtime.block_on(fill(&store));
    println!("directory, full: {:.0} MiB", mib(bytes_in(&path)));
    drop(store);
    let start = uptime();
    let store = open();
    report.figure("embedded.reopen1m.seconds", uptime().saturating_sub(start).as_secs_f64());

    bench.runtime.block_on(finish(&store));
    println!("directory, all finished: {:.0} MiB", mib(bytes_in(&path)));
    // The ten minutes for which finished messages answer repeats.
    clock.ahead_ms.store(11 * 60 * 1_000, Ordering::SeqCst);
    bench.runtime.block_on(forget(&store));
    println!("directory, all just forgotten: {:.0} MiB", mib(bytes_in(&path)));
    let start = uptime();
    let small = || bytes_in(&path) < 64 << 20;
    bench.runtime.block_on(async {
        while !small() && uptime().saturating_sub(start) < PATIENCE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    println!("seconds until it had shrunk: {:.1}", uptime().saturating_sub(start).as_secs_f64());
    report.figure("embedded.shrunk.mib", mib(bytes_in(&path)));
}

async fn fill(store: &EmbeddedStore) {
    let mut source = Messages::new(PAYLOAD_BYTES);
    for _ in 0..LIVE / BATCH {
        store.accept(&source.take(BATCH)).await.expect("accept");
    }
}

async fn finish(store: &EmbeddedStore) {
    let claim = claim(1, BATCH);
    loop {
        let deliveries = store.claim(&claim).await.expect("claim");
        if deliveries.is_empty() {
            return;
        }
        let acks: Vec<Settlement> = deliveries.iter().map(Delivery::ack).collect();
        store.settle(&acks).await.expect("settle");
    }
}

async fn forget(store: &EmbeddedStore) {
    while store.upkeep(Budget::new(5_000)).await.expect("upkeep").forgotten > 0 {}
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1_024.0
}

/// The system's clock, and so much more.
struct Ahead {
    clock: SystemClock,
    ahead_ms: AtomicU64,
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.clock.now().after(Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst)))
    }
}
