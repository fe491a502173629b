//! Stopping, pausing, draining, hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::{Kind, MessageState, State, Worker};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::fixture::{Paused, on_every_store};

/// A handler that tells when it has begun, and goes on when it is told to.
#[derive(Clone, Default)]
struct Step {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

async fn step(State(step): State<Step>) {
    step.begun.notify_one();
    step.go_on.notified().await;
}

#[test]
fn a_stop_waits_for_handlers_and_takes_nothing_new() {
    on_every_store(async |fixture| {
        let state = Step::default();
        fixture.enqueue("t", "1").await;
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step).concurrency(1);
        let (shutdown, stopping) = oneshot::channel::<()>();
        let worker = worker.run(async { drop(stopping.await) });
        let test = async {
            state.begun.notified().await;
            fixture.enqueue("t", "2").await;
            drop(shutdown);
            tokio::task::yield_now().await;
            state.go_on.notify_one();
        };
        let (stopped, ()) = tokio::join!(worker, test);
        assert_eq!(stopped.unwrap().handled, 1);
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
        let left = fixture.show("2").await;
        assert_eq!((left.state, left.attempts, left.lease()), (MessageState::Processing, 0, None));
    });
}

/// A stop must not use up the attempts of what it interrupts.
/// Holds: RULE-07.
#[test]
fn a_handler_that_outlasts_the_budget_is_cancelled_and_its_message_given_back() {
    on_every_store(async |fixture| {
        let state = Step::default();
        fixture.enqueue("t", "1").await;
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step);
        let worker = worker.stop_budget(Duration::from_millis(1)).start().unwrap();
        state.begun.notified().await;
        let stopped = worker.stop().await.unwrap();
        // A disk that takes longer than the grace leaves it leased.
        assert_eq!((stopped.handled, stopped.released + stopped.unsettled), (0, 1));
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.attempts, found.deliveries), (MessageState::Processing, 0, 1));
        assert_eq!(found.lease().is_some(), stopped.unsettled == 1);
    });
}

#[test]
fn a_paused_worker_takes_nothing_until_it_is_resumed() {
    on_every_store(async |fixture| {
        let state = Step::default();
        let worker = Worker::new(&fixture.oncebox).with_state(state.clone()).on("t", step).start().unwrap();
        fixture.enqueue("t", "1").await;
        state.begun.notified().await;
        worker.pause().await.unwrap();
        fixture.enqueue("t", "2").await;
        state.go_on.notify_one();
        // Drained means that what it held is settled, and that it is still paused.
        worker.drain().await.unwrap();
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
        assert_eq!(fixture.show("2").await.deliveries, 0);
        worker.resume().await.unwrap();
        state.begun.notified().await;
        state.go_on.notify_one();
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
        let refusing =
            Worker::new(&fixture.oncebox).on("t", async || {}).on_start(async || Err("no database".into()));
        assert_eq!(refusing.run_until_idle().await.unwrap_err().to_string(), "the start hook failed");
    });
}

/// A worker on a store that is closed ends with the reason instead of asking for ever.
#[test]
fn a_closed_store_ends_the_worker() {
    on_every_store(async |fixture| {
        let mut worker = Worker::new(&fixture.oncebox).on("t", async || {}).start().unwrap();
        fixture.oncebox.close().await.unwrap();
        assert_eq!(worker.wait().await.unwrap_err().kind(), Kind::Closed);
    });
}

/// Dropping the handle is a graceful stop.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_whose_handle_is_dropped_finishes_what_it_holds() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let begun = Arc::new(Notify::new());
    let handler = async |State(begun): State<Arc<Notify>>| {
        begun.notify_one();
        tokio::time::sleep(Duration::from_secs(5)).await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(begun.clone()).on("t", handler).start().unwrap();
    begun.notified().await;
    drop(worker);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(inbox.show("1").await.state, MessageState::Done);
}

/// A store that never answers must not keep a process from ending.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stop_ends_within_its_budget_though_the_store_hangs() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let begun = Arc::new(Notify::new());
    let handler = async |State(begun): State<Arc<Notify>>| {
        begun.notify_one();
        std::future::pending::<()>().await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(begun.clone()).on("t", handler);
    let worker = worker.stop_budget(Duration::from_secs(3)).without_upkeep().start().unwrap();
    begun.notified().await;
    for _ in 0..1_000 {
        inbox.faults.next(oncebox_testkit::faulty::Fault::Hang);
    }
    let asked = Instant::now();
    let stopped = worker.stop().await.unwrap();
    assert_eq!(stopped.unsettled, 1);
    let took = asked.elapsed();
    assert!(took >= Duration::from_secs(3) && took <= Duration::from_secs(9), "{took:?}");
}
