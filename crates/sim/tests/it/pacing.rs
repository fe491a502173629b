//! The library never calls the store in a tight loop, and never waits for an event that cannot happen.

use std::sync::Arc;
use std::time::Duration;

use oncebox::{EnqueueOutcome, Message, Oncebox, Timestamp, Worker, store::Clock, worker::Route};
use oncebox_core::Store;
use oncebox_store_memory::{MemoryOptions, MemoryStore};
use oncebox_testkit::SplitMix;
use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Follows the runtime's time.
struct RuntimeClock {
    began: Instant,
    ahead: Duration,
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.after(self.began.elapsed() + self.ahead)
    }
}

/// An inbox whose process clock is ahead of the store's, and the faults of its store.
fn open(ahead: Duration) -> (Oncebox, FaultPlan) {
    let clock = |ahead| Arc::new(RuntimeClock { began: Instant::now(), ahead });
    let ids = Box::new(SplitMix::new(1));
    let store: Arc<dyn Store> =
        Arc::new(MemoryStore::with(MemoryOptions::default(), clock(Duration::ZERO), ids));
    let plan = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(store, plan.clone()));
    let rng = Box::new(SplitMix::new(2));
    (Oncebox::builder().clock(clock(ahead)).rng(rng).on(store).expect("the settings are valid"), plan)
}

async fn enqueue(oncebox: &Oncebox, message: Message) {
    let receipt = oncebox.inbox().enqueue(message).await.expect("nothing fails yet");
    assert_eq!(receipt.outcome, EnqueueOutcome::Accepted);
}

/// Makes each call take a millisecond; [`calls`] counts them.
fn count_calls(plan: &FaultPlan) {
    for _ in 0..FaultPlan::FAULTS_MAX {
        plan.next(InjectedFault::Delay(Duration::from_millis(1)));
    }
}

fn calls(plan: &FaultPlan) -> usize {
    FaultPlan::FAULTS_MAX - plan.left()
}

fn limited(worker: Worker) -> Worker {
    let route = |topic: &str| Route::new(topic, async || {}).concurrency(1);
    worker.route(route("one")).route(route("two")).route(route("three")).concurrency(1)
}

/// The worker's capacity allows one of three topics per claim.
#[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
async fn an_idle_worker_claims_each_topic_and_then_waits() {
    let (oncebox, plan) = open(Duration::ZERO);
    count_calls(&plan);
    limited(Worker::new(&oncebox)).run(sleep(5 * SECOND)).await.unwrap();
    assert!(calls(&plan) < 100, "{} calls in 5 s", calls(&plan));
}

#[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
async fn a_worker_with_little_capacity_detects_that_it_is_idle() {
    let (oncebox, _) = open(Duration::ZERO);
    for topic in ["one", "two", "three"] {
        enqueue(&oncebox, Message::new(topic, "test", topic)).await;
    }
    let idle = timeout(60 * SECOND, limited(Worker::new(&oncebox)).run_until_idle()).await;
    assert_eq!(idle.unwrap().unwrap().handled, 3);
}

#[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
async fn a_worker_is_not_idle_while_it_waits_for_its_rate() {
    let (oncebox, _) = open(Duration::ZERO);
    for id in ["1", "2", "3"] {
        enqueue(&oncebox, Message::new("slow", "test", id)).await;
    }
    let worker = Worker::new(&oncebox).route(Route::new("slow", async || {}).per_second(0.5));
    let idle = timeout(60 * SECOND, worker.run_until_idle()).await;
    assert_eq!(idle.unwrap().unwrap().handled, 3);
}

/// The message is due by the clock of the process, but not by the store's.
#[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
async fn maintenance_waits_for_the_clock_of_the_store() {
    let (oncebox, plan) = open(10 * SECOND);
    let due = Timestamp::EPOCH.after(6 * SECOND);
    enqueue(&oncebox, Message::new("topic", "test", "1").due_at(due)).await;
    count_calls(&plan);
    oncebox.maintenance().run(sleep(5 * SECOND)).await;
    assert!(calls(&plan) < 150, "{} calls in 5 s", calls(&plan));
}

/// The lease of the message is old, so the message waits for a heartbeat; the heartbeats fail.
#[tokio::test(crate = "oncebox_testkit::timed", start_paused = true)]
async fn a_failed_heartbeat_is_not_repeated_at_once() {
    let (oncebox, plan) = open(Duration::ZERO);
    enqueue(&oncebox, Message::new("topic", "test", "1")).await;
    plan.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    plan.next_of(Operation::Work, InjectedFault::Delay(3 * SECOND / 2));
    for _ in 0..1_000 {
        plan.next_of(Operation::Extend, InjectedFault::FailBefore);
    }
    let worker = Worker::new(&oncebox).on("topic", async || {}).lease(3 * SECOND).without_maintenance();
    worker.run(sleep(5 * SECOND)).await.unwrap();
    let beats = 1_000 - plan.left();
    assert!((2..50).contains(&beats), "{beats} heartbeats");
}
