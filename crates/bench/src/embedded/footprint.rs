//! The time to open a store with a million live messages, and the size of its directory after all are erased.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{Budget, Clock, Delivery, Settlement, Store, StoreExt, Timestamp};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::{SystemClock, uptime};

use super::store::open_store;
use super::work_dir::{WorkDir, bytes_in};
use crate::drive::Bench;
use crate::messages::Messages;
use crate::ours::claim;
use crate::report::Report;

const LIVE: usize = 1_000_000;
const BATCH: usize = 1_000;
const PAYLOAD_BYTES: usize = 256;
/// How long to wait for the directory to shrink.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn run(bench: &Bench, work_dir: &WorkDir, report: &mut Report) {
    println!("\n{LIVE} live messages of {PAYLOAD_BYTES} B");
    let path = work_dir.fresh("footprint");
    let clock = Arc::new(OffsetClock { clock: SystemClock::default(), offset_ms: AtomicU64::new(0) });
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
    // Past the ten minutes for which finished messages are kept for repeated calls.
    clock.offset_ms.store(11 * 60 * 1_000, Ordering::SeqCst);
    bench.runtime.block_on(erase(&store));
    println!("directory, all just erased: {:.0} MiB", mib(bytes_in(&path)));
    let start = uptime();
    let small = || bytes_in(&path) < 64 << 20;
    bench.runtime.block_on(async {
        while !small() && uptime().saturating_sub(start) < TIMEOUT {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    println!("seconds until the directory had shrunk: {:.1}", uptime().saturating_sub(start).as_secs_f64());
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

async fn erase(store: &EmbeddedStore) {
    while store.maintain(Budget::new(5_000)).await.expect("maintenance").forgotten > 0 {}
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) / 1_024.0
}

/// The system clock plus an offset.
struct OffsetClock {
    clock: SystemClock,
    offset_ms: AtomicU64,
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        self.clock.now().after(Duration::from_millis(self.offset_ms.load(Ordering::SeqCst)))
    }
}
