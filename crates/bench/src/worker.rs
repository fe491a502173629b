//! The library's worker with empty handlers against a hand-written loop: claim as many messages as there are free
//! slots, spawn a task for each, and acknowledge in the task. Both use the same store and the same concurrency.

use std::sync::Arc;
use std::time::{Duration, Instant};

use oncebox::{Oncebox, Worker};
use oncebox_core::{Batch, Claim, Namespace, Owner, Settled, Span, Store, StoreExt};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_store_memory::MemoryStore;
use tokio::sync::Semaphore;

use crate::embedded::work_dir::WorkDir;
use crate::messages::Messages;
use crate::options::Options;
use crate::pairs::{Comparison, alternate};
use crate::report::Report;

const CONCURRENCY: usize = 16;
const LEASE: Duration = Duration::from_secs(30);
const PAYLOAD_BYTES: usize = 256;
const ROUNDS: usize = 9;
/// Messages per call when filling the store.
const BATCH: usize = 1_000;

pub(crate) fn run(options: &Options, report: &mut Report) {
    let messages = if options.quick { 20_000 } else { 100_000 };
    let work_dir = WorkDir::create();
    println!("files: {}", work_dir.file_system());
    println!(
        "durability: none in memory, fdatasync before the answer embedded; {CONCURRENCY} handlers at once, \
         {PAYLOAD_BYTES} B payloads, {ROUNDS} paired rounds of {messages}"
    );
    println!("{:>10} {:>12} {:>12} {:>8}", "store", "worker/s", "loop/s", "ratio");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    let mut source = Messages::new(PAYLOAD_BYTES);
    for name in ["memory", "embedded"] {
        let store: Arc<dyn Store> = match name {
            "memory" => Arc::new(MemoryStore::new(oncebox_store_memory::MemoryOptions::default())),
            _ => {
                let options = oncebox_store_embedded::EmbeddedOptions::default();
                Arc::new(EmbeddedStore::open(&work_dir.fresh(name), &options).expect("a new store opens"))
            }
        };
        let source = std::cell::RefCell::new(&mut source);
        let round = |side: &dyn Fn(Arc<dyn Store>) -> f64| {
            let mut source = source.borrow_mut();
            runtime.block_on(fill(&*store, &mut source, messages));
            side(store.clone())
        };
        let Comparison { ours_per_second, rival_per_second, ratio } = alternate(
            ROUNDS,
            || round(&|store| runtime.block_on(ours(store, messages))),
            || round(&|store| runtime.block_on(hand_written(store, messages))),
        );
        println!("{name:>10} {ours_per_second:>12.0} {rival_per_second:>12.0} {ratio:>8.3}");
        report.figure(&format!("worker.{name}.ratio_loop"), ratio);
        runtime.block_on(store.close()).expect("the store closes");
    }
}

async fn fill(store: &dyn Store, source: &mut Messages, messages: usize) {
    for _ in 0..messages / BATCH {
        let accepted = store.accept(&source.take(BATCH)).await.expect("the store is available");
        assert!(accepted.iter().all(|accepted| accepted.summary().is_some()), "the store has capacity");
    }
}

async fn ours(store: Arc<dyn Store>, messages: usize) -> f64 {
    let oncebox = Oncebox::builder().on(store).expect("the options are valid");
    let start = now();
    let worker =
        Worker::new(&oncebox).on("payment.received", async || {}).concurrency(CONCURRENCY).lease(LEASE);
    let stopped = worker.run_until_idle().await.expect("the store is available");
    let rate = per_second(messages, start);
    assert_eq!(stopped.handled, messages as u64);
    rate
}

async fn hand_written(store: Arc<dyn Store>, messages: usize) -> f64 {
    let start = now();
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let owner = Owner::new(7).expect("not nil");
    let lease = Span::lease(LEASE).expect("not zero");
    let mut left = messages;
    while left > 0 {
        let free = slots.available_permits().max(1);
        let mut permits = Vec::new();
        for _ in 0..free {
            permits.push(slots.clone().acquire_owned().await.expect("never closed"));
        }
        let batch = Batch::new(u32::try_from(free).expect("few")).expect("in bounds");
        let claim = Claim::new(Namespace::Inbox, owner, lease, batch);
        let deliveries = store.claim(&claim).await.expect("the store is available");
        left -= deliveries.len();
        for (delivery, slot) in deliveries.into_iter().zip(permits) {
            let store = store.clone();
            tokio::spawn(async move {
                // The handlers of both sides do nothing.
                std::future::ready(()).await;
                let settled = store.settle(&[delivery.ack()]).await.expect("the store is available");
                assert_eq!(settled, [Settled::Done]);
                drop(slot);
            });
        }
    }
    let all = u32::try_from(CONCURRENCY).expect("few");
    drop(slots.acquire_many(all).await.expect("never closed"));
    per_second(messages, start)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn per_second(messages: usize, start: Instant) -> f64 {
    f64::from(u32::try_from(messages).expect("few")) / start.elapsed().as_secs_f64()
}
