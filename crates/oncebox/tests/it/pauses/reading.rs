//! Reading the paused topics: callers share one read, and none of them depends on another caller being polled.

use std::pin::pin;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use oncebox::operator::Pause;
use oncebox::{Context, MessageState, Oncebox, Worker};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use tokio::time::{Instant, sleep, timeout};

use super::super::fixture::Paused;
use super::enqueue;
use crate::timed::runtime;

const SECOND: Duration = Duration::from_secs(1);

/// A caller that began to read and is not polled any more.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_caller_that_is_not_polled_blocks_no_other() {
    let fixture = Paused::new();
    fixture.faults.next_of(Operation::Records, InjectedFault::Delay(SECOND / 10));
    let mut unpolled = pin!(enqueue(&fixture.oncebox, "t", "1"));
    assert!(unpolled.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    let mut waiting = pin!(enqueue(&fixture.oncebox, "t", "2"));
    assert!(waiting.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    let other = tokio::spawn({
        let oncebox = fixture.oncebox.clone();
        async move { enqueue(&oncebox, "t", "3").await }
    });
    let answered = timeout(SECOND * 60, other).await.expect("no caller waits for another");
    answered.unwrap().unwrap();
}

/// A task that reads in the background stops when nobody drives its runtime any more.
#[test]
fn a_runtime_that_is_not_driven_blocks_no_other() {
    let build = || runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let first = build();
    let oncebox = first.block_on(async {
        let oncebox = Oncebox::open("memory:").await.unwrap();
        enqueue(&oncebox, "t", "1").await.unwrap();
        tokio::time::advance(SECOND / 2).await;
        // The copy is old enough to be read in the background, by a task that does not run before this future ends.
        enqueue(&oncebox, "t", "2").await.unwrap();
        oncebox
    });
    build().block_on(async {
        tokio::time::advance(SECOND).await;
        let began = Instant::now();
        let enqueued = timeout(SECOND * 60, enqueue(&oncebox, "t", "3")).await;
        enqueued.expect("no caller waits for another runtime").unwrap();
        assert!(began.elapsed() <= SECOND * 2, "{:?}", began.elapsed());
    });
    drop(first);
}

/// However many calls wait, the store is asked once: also if it takes longer than a dead task is waited for.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn callers_share_one_read_while_the_store_is_slow() {
    const PLANNED: usize = 1_000;
    let fixture = Paused::new();
    for _ in 0..PLANNED {
        fixture.faults.next_of(Operation::Records, InjectedFault::Delay(SECOND * 5));
    }
    let began = Instant::now();
    let calls = (0..100).map(|id| {
        let oncebox = fixture.oncebox.clone();
        tokio::spawn(async move { enqueue(&oncebox, "t", &id.to_string()).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!((PLANNED - fixture.faults.left(), began.elapsed().as_secs()), (1, 5));
}

/// Those that wait for a read that fails fail with it.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn callers_share_the_failure_of_a_read() {
    const PLANNED: usize = 1_000;
    let fixture = Paused::new();
    for _ in 0..PLANNED {
        fixture.faults.next_of(Operation::Records, InjectedFault::Hang);
    }
    let began = Instant::now();
    let calls = (0..100).map(|id| {
        let oncebox = fixture.oncebox.clone();
        tokio::spawn(async move { enqueue(&oncebox, "t", &id.to_string()).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let error = call.await.unwrap().unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("which topics are paused"), "{error}");
    }
    assert_eq!((PLANNED - fixture.faults.left(), began.elapsed().as_secs()), (1, 10));
}

/// A worker that has something to do all the time, but nothing to claim, checks whether a topic was resumed elsewhere.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_busy_worker_notices_that_another_process_resumed_a_topic() {
    let fixture = Paused::new();
    fixture.oncebox.operator("ann").pause("stopped", Pause::Receiving).await.unwrap();
    enqueue(&fixture.oncebox, "stopped", "stopped").await.unwrap();
    for id in 1..=50 {
        fixture.enqueue("busy", &id.to_string()).await;
    }
    let long = SECOND * 600;
    let worker = Worker::new(&fixture.oncebox).concurrency(100).batch(100).poll_interval(long, long);
    let worker = worker.lease(long).without_maintenance().on("stopped", async || {});
    // One of them ends every 300 ms.
    let handler = async |context: Context| sleep(SECOND * 3 / 10 * context.id().parse().unwrap()).await;
    let worker = worker.on("busy", handler).start().unwrap();
    sleep(SECOND * 5).await;
    assert_eq!(fixture.show("stopped").await.state, MessageState::Processing);
    let elsewhere = Oncebox::builder().on(fixture.store.clone()).unwrap();
    elsewhere.operator("bob").resume("stopped", Pause::Receiving).await.unwrap();
    sleep(SECOND * 2).await;
    assert_eq!(fixture.show("stopped").await.state, MessageState::Done);
    assert_eq!(fixture.show("50").await.state, MessageState::Processing, "the worker is still busy");
    worker.stop().await.unwrap();
}
