//! How often a worker polls, how much it prefetches, and rate limits. Time is paused, so times are exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::{Context, MessageState, State, Worker, worker::Route};
use tokio::time::{Instant, sleep};

use super::fixture::Paused;

type Starts = Arc<Mutex<Vec<Instant>>>;

async fn note(State(starts): State<Starts>) {
    starts.lock().unwrap().push(Instant::now());
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_waiting_worker_is_woken_by_a_new_message() {
    let inbox = Paused::new();
    let starts = Starts::default();
    let worker = Worker::new(&inbox.oncebox).with_state(starts.clone()).on("t", note);
    let worker = worker.poll_interval(Duration::from_secs(60), Duration::from_secs(60)).start().unwrap();
    sleep(Duration::from_secs(30)).await;
    let enqueued = Instant::now();
    inbox.enqueue("t", "1").await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*starts.lock().unwrap(), [enqueued]);
    drop(worker);
}

/// Retries and due times are met to within milliseconds, because maintenance wakes workers at these times.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_delayed_message_starts_when_it_is_due() {
    let inbox = Paused::new();
    let starts = Starts::default();
    let worker = Worker::new(&inbox.oncebox).with_state(starts.clone()).on("t", note);
    let worker = worker.poll_interval(Duration::from_secs(60), Duration::from_secs(60)).start().unwrap();
    sleep(Duration::from_secs(5)).await;
    let message = oncebox::Message::new("t", "test", "1").due_in(Duration::from_millis(12_345));
    let enqueued = Instant::now();
    inbox.oncebox.inbox().enqueue(message).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    let late = starts.lock().unwrap()[0].duration_since(enqueued + Duration::from_millis(12_345));
    assert!(late <= Duration::from_millis(5), "{late:?} late");
    drop(worker);
}

/// Holds: IBX-124.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_idle_worker_polls_less_and_less_often() {
    let inbox = Paused::new();
    // A plan of faults that let calls pass counts the calls.
    for _ in 0..10_000 {
        inbox
            .faults
            .next_of(oncebox_testkit::faulty::Operation::Work, oncebox_testkit::faulty::InjectedFault::Pass);
    }
    let polls = || 10_000 - inbox.faults.left();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {});
    let (shortest, longest) = (Duration::from_millis(500), Duration::from_secs(5));
    let worker = worker.poll_interval(shortest, longest).without_maintenance().start().unwrap();
    sleep(Duration::from_secs(20)).await;
    let first = polls();
    sleep(Duration::from_secs(100)).await;
    let later = polls() - first;
    assert!((5..=12).contains(&first), "{first} polls in the first 20 s");
    assert!((18..=23).contains(&later), "{later} polls in the next 100 s");
    worker.stop().await.unwrap();
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_full_batch_is_followed_by_the_next_at_once() {
    let inbox = Paused::new();
    for id in 0..500 {
        inbox.enqueue("t", &id.to_string()).await;
    }
    let since = Instant::now();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).batch(10).concurrency(10);
    assert_eq!(worker.run_until_idle().await.unwrap().handled, 500);
    assert_eq!(since.elapsed(), Duration::ZERO);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_topic_is_limited_to_its_rate() {
    let inbox = Paused::new();
    for id in 0..20 {
        inbox.enqueue("slow", &id.to_string()).await;
    }
    inbox.enqueue("fast", "fast").await;
    let starts = Starts::default();
    let since = Instant::now();
    let worker = Worker::new(&inbox.oncebox)
        .with_state(starts.clone())
        .route(Route::new("slow", note).per_second(4.0))
        .on("fast", move || async move { assert_eq!(since.elapsed(), Duration::ZERO) });
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!(stopped.handled, 21);
    let starts = starts.lock().unwrap().clone();
    for (index, window) in starts.windows(5).enumerate() {
        let span = window[4].duration_since(window[0]);
        assert!(span >= Duration::from_millis(249), "{span:?} for five starts from index {index}");
    }
    let total = starts[19].duration_since(starts[0]);
    assert!(total >= Duration::from_millis(3_990) && total <= Duration::from_millis(4_500), "{total:?}");
}

/// A topic at its concurrency limit continues as soon as one of its handlers ends, not at the next poll.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_limited_topic_does_not_wait_for_a_poll() {
    let inbox = Paused::new();
    for id in 0..10 {
        inbox.enqueue("t", &id.to_string()).await;
    }
    let since = Instant::now();
    let handler = async || sleep(Duration::from_millis(200)).await;
    let worker = Worker::new(&inbox.oncebox).route(Route::new("t", handler).concurrency(1));
    let worker = worker.poll_interval(Duration::from_secs(60), Duration::from_secs(60));
    assert_eq!(worker.run_until_idle().await.unwrap().handled, 10);
    assert_eq!(since.elapsed(), Duration::from_secs(2));
}

/// Fast handlers do not wait for the store; slow ones hold no messages that other workers could handle.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn prefetch_holds_one_message_per_slot_and_only_for_fast_handlers() {
    for (handler_ms, prefetch, held) in [(1, true, 8), (1, false, 4), (150, true, 4)] {
        let inbox = Paused::new();
        for id in 0..100 {
            inbox.enqueue("t", &id.to_string()).await;
        }
        let most = Arc::new(AtomicU64::new(0));
        let state = (most.clone(), inbox.oncebox.operator("t"));
        let handler = move |State((most, operator)): State<(Arc<AtomicU64>, oncebox::Operator)>| async move {
            sleep(Duration::from_millis(handler_ms)).await;
            let counts = operator.counts(None).await.unwrap();
            most.fetch_max(counts.leased, Ordering::SeqCst);
        };
        let worker = Worker::new(&inbox.oncebox).with_state(state).on("t", handler).concurrency(4);
        let worker = if prefetch { worker } else { worker.without_prefetch() };
        let stopped = worker.run_until_idle().await.unwrap();
        assert_eq!(stopped.handled, 100);
        assert_eq!(most.load(Ordering::SeqCst), held, "{handler_ms} ms, prefetch {prefetch}");
    }
}

/// A prefetched message starts only under a lease with enough time left, and no lease is lost.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_prefetched_message_starts_under_a_fresh_lease() {
    let inbox = Paused::new();
    for id in 0..3 {
        inbox.enqueue("t", &id.to_string()).await;
    }
    // The first handler is fast and allows prefetching, the second is slow, the third message waits behind it.
    let lease = Duration::from_secs(30);
    let handler = move |context: Context| async move {
        if context.id() == "1" {
            sleep(lease * 3).await;
        }
    };
    let worker = Worker::new(&inbox.oncebox).on("t", handler).lease(lease).concurrency(1);
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!((stopped.handled, stopped.lost), (3, 0));
    assert_eq!(inbox.show("2").await.state, MessageState::Done);
    assert_eq!(inbox.show("2").await.attempts, 0);
}
