//! Stopping, pausing, draining, hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::layers::Coalesced;
use oncebox::{ErrorKind, Message, MessageState, Oncebox, State, Worker};
use oncebox_core::{Lease, Settled, Settlement, StoreExt, Verdict};
use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{Paused, key, on_every_store};

/// A handler that signals its start, and waits to be resumed.
#[derive(Clone, Default)]
struct Step {
    started: Arc<Notify>,
    resume: Arc<Notify>,
}

async fn step(State(step): State<Step>) {
    step.started.notify_one();
    step.resume.notified().await;
}

#[test]
fn a_stop_waits_for_handlers_and_claims_nothing_new() {
    on_every_store(async |fixture| {
        let state = Step::default();
        fixture.enqueue("t", "1").await;
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step).concurrency(1);
        let (shutdown, stopping) = oneshot::channel::<()>();
        let worker = worker.run(async { drop(stopping.await) });
        let test = async {
            state.started.notified().await;
            fixture.enqueue("t", "2").await;
            drop(shutdown);
            tokio::task::yield_now().await;
            state.resume.notify_one();
        };
        let (stopped, ()) = tokio::join!(worker, test);
        assert_eq!(stopped.unwrap().handled, 1);
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
        let left = fixture.show("2").await;
        assert_eq!((left.state, left.attempts, left.lease()), (MessageState::Processing, 0, None));
    });
}

/// A stop must not use up attempts of the messages that it interrupts.
/// Holds: RULE-07.
#[test]
fn a_handler_that_exceeds_the_stop_budget_is_cancelled_and_its_message_released() {
    on_every_store(async |fixture| {
        let state = Step::default();
        fixture.enqueue("t", "1").await;
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step);
        let worker = worker.stop_budget(Duration::from_millis(1)).start().unwrap();
        state.started.notified().await;
        let stopped = worker.stop().await.unwrap();
        // If the disk takes longer than the grace period, the message stays leased.
        assert_eq!((stopped.handled, stopped.released + stopped.unsettled), (0, 1));
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.attempts, found.deliveries), (MessageState::Processing, 0, 1));
        assert_eq!(found.lease().is_some(), stopped.unsettled == 1);
    });
}

#[test]
fn a_paused_worker_claims_nothing_until_it_is_resumed() {
    on_every_store(async |fixture| {
        let state = Step::default();
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step).start().unwrap();
        fixture.enqueue("t", "1").await;
        state.started.notified().await;
        worker.pause().await.unwrap();
        fixture.enqueue("t", "2").await;
        state.resume.notify_one();
        // A drained worker has settled its messages and is still paused.
        worker.drain().await.unwrap();
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
        assert_eq!(fixture.show("2").await.deliveries, 0);
        worker.resume().await.unwrap();
        state.started.notified().await;
        state.resume.notify_one();
        worker.drain().await.unwrap();
        assert_eq!(fixture.show("2").await.state, MessageState::Done);
        assert_eq!(worker.stop().await.unwrap().handled, 2);
    });
}

/// Holds: CMD-18.
#[test]
fn hooks_run_before_the_first_claim_and_after_the_last_settlement() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let handled = Arc::new(AtomicU32::new(0));
        let (at_start, in_handler, at_stop) = (handled.clone(), handled.clone(), handled.clone());
        Worker::new(&fixture.oncebox)
            .with_state(in_handler)
            .on("t", async |State(handled): State<Arc<AtomicU32>>| {
                handled.fetch_add(1, Ordering::SeqCst);
            })
            .on_start(async move || {
                assert_eq!(at_start.fetch_add(10, Ordering::SeqCst), 0);
                Ok(())
            })
            .on_stop(async move |stopped| {
                assert_eq!(stopped.handled, 1);
                assert_eq!(at_stop.fetch_add(100, Ordering::SeqCst), 11);
            })
            .run_until_idle()
            .await
            .unwrap();
        assert_eq!(handled.load(Ordering::SeqCst), 111);
        let failing =
            Worker::new(&fixture.oncebox).on("t", async || {}).on_start(async || Err("no database".into()));
        assert_eq!(failing.run_until_idle().await.unwrap_err().to_string(), "the start hook failed");
    });
}

/// A worker on a closed store ends with an error instead of polling forever.
#[test]
fn a_closed_store_ends_the_worker() {
    on_every_store(async |fixture| {
        let mut worker = Worker::new(&fixture.oncebox).on("t", async || {}).start().unwrap();
        fixture.oncebox.close().await.unwrap();
        assert_eq!(worker.wait().await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// Dropping the handle is a graceful stop.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_whose_handle_is_dropped_finishes_its_messages() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let started = Arc::new(Notify::new());
    let handler = async |State(started): State<Arc<Notify>>| {
        started.notify_one();
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(started.clone()).on("t", handler).start().unwrap();
    started.notified().await;
    drop(worker);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(inbox.show("1").await.state, MessageState::Done);
}

/// A store that never answers must not prevent a process from stopping.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stop_ends_within_its_budget_even_if_the_store_hangs() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let started = Arc::new(Notify::new());
    let handler = async |State(started): State<Arc<Notify>>| {
        started.notify_one();
        std::future::pending::<()>().await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(started.clone()).on("t", handler);
    let worker = worker.stop_budget(Duration::from_secs(3)).without_maintenance().start().unwrap();
    started.notified().await;
    for _ in 0..1_000 {
        inbox.faults.next(oncebox_testkit::faulty::InjectedFault::Hang);
    }
    let requested = Instant::now();
    let stopped = worker.stop().await.unwrap();
    assert_eq!(stopped.unsettled, 1);
    let took = requested.elapsed();
    assert!(took >= Duration::from_secs(3) && took <= Duration::from_secs(9), "{took:?}");
}

/// The worker stops while it reads the paused topics. Its hook needs them too.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stop_hook_can_use_the_inbox_while_a_call_of_the_worker_is_in_flight() {
    let inbox = Paused::new();
    let second = Duration::from_secs(1);
    let oncebox = inbox.oncebox.clone();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).poll_interval(second, second);
    let worker = worker.without_maintenance().on_stop(async move |_| {
        oncebox.inbox().enqueue(Message::new("t", "test", "last")).await.unwrap();
    });
    let worker = worker.start().unwrap();
    sleep(second * 3).await;
    inbox.faults.next_of(Operation::Records, InjectedFault::Delay(second * 5));
    sleep(second * 3 / 2).await;
    assert_eq!(inbox.faults.left(), 0, "the worker reads the paused topics");
    timeout(Duration::from_secs(60), worker.stop()).await.expect("the worker stops").unwrap();
    assert_eq!(inbox.show("last").await.deliveries, 0);
}

/// The worker gives up a settlement that the store does not answer. Nothing of it keeps later calls waiting.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stop_hook_can_settle_what_the_worker_has_given_up() {
    let faults = FaultPlan::default();
    let failing = FaultyStore::new(Paused::new().store, faults.clone());
    let store = Arc::new(Coalesced::new(Arc::new(failing)));
    let oncebox = Oncebox::builder().on(store.clone()).unwrap();
    oncebox.inbox().enqueue(Message::new("t", "test", "1")).await.unwrap();
    let worker = Worker::new(&oncebox).concurrency(1).without_maintenance();
    let worker = worker.stop_budget(Duration::from_secs(3)).on("t", std::future::pending::<()>);
    let worker = worker.on_stop(async move |stopped| {
        assert_eq!(stopped.unsettled, 1);
        let left = store.get_one(&key("1").into()).await.unwrap().unwrap();
        let Lease { owner, fence, .. } = *left.lease().unwrap();
        let settlement = Settlement { uid: left.uid, owner, fence, verdict: Verdict::Ack };
        assert_eq!(store.settle(&[settlement]).await.unwrap(), [Settled::Done]);
    });
    let worker = worker.start().unwrap();
    sleep(Duration::from_secs(1)).await;
    // The second one is in flight when the worker gives up.
    for _ in 0..2 {
        faults.next_of(Operation::Work, InjectedFault::Delay(Duration::from_secs(600)));
    }
    timeout(Duration::from_secs(20), worker.stop()).await.expect("the worker stops").unwrap();
    assert_eq!(faults.left(), 0);
}

/// A claim of unknown outcome is repeated. Until it is answered, a pause is not confirmed.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_that_has_confirmed_a_pause_claims_nothing() {
    let inbox = Paused::new();
    for _ in 0..8 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).without_maintenance().start().unwrap();
    sleep(Duration::from_millis(10)).await;
    worker.pause().await.unwrap();
    inbox.enqueue("t", "1").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(inbox.show("1").await.deliveries, 0);
    worker.resume().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(worker.stop().await.unwrap().handled, 1);
}
