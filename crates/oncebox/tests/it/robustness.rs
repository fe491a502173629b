//! Robustness of workers, the queue and maintenance: handlers that panic on drop, stores that answer late, more
//! messages than fit in one call, extreme settings. Time is paused unless a test says otherwise.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::{
    Context, ErrorKind, Failure, Message, MessageState, Oncebox, State, Worker,
    worker::{Route, Unhandled},
};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use super::capture::Capture;
use super::fixture::{Paused, key};
use crate::timed::{until, within};

const LONG: Duration = Duration::from_secs(3_600);

/// Panics like a transaction that is dropped without a commit.
struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped without commit");
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_handler_that_panics_on_drop_has_failed() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let worker = Worker::new(&inbox.oncebox).on("t", async || {
        let _guard = PanicOnDrop;
        std::future::pending::<()>().await;
    });
    let worker = worker.timeout(Duration::from_secs(1)).without_maintenance().run_until_idle();
    let stopped = timeout(LONG, worker).await.expect("the worker ends").unwrap();
    assert_eq!(stopped.retrying, 1);
    assert_eq!(inbox.show("1").await.last_error.unwrap().as_str(), "panic: dropped without commit");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_that_holds_more_messages_than_fit_in_a_call_keeps_its_leases() {
    let inbox = Paused::new();
    for start in [0, 8_000] {
        let messages = (start..start + 8_000).map(|id: u32| Message::new("t", "test", id.to_string()));
        inbox.oncebox.inbox().enqueue_all(messages).await.unwrap();
    }
    // The first handlers are fast and allow prefetching.
    let handler = async |context: Context| {
        if context.id().parse::<u32>().unwrap() >= 1_000 {
            sleep(Duration::from_secs(60)).await;
        }
    };
    let worker = Worker::new(&inbox.oncebox).on("t", handler).concurrency(6_000).batch(1_000);
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!((stopped.handled, stopped.lost), (16_000, 0));
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_never_claims_more_than_the_limit_of_a_call() {
    let inbox = Paused::new();
    inbox.enqueue("a", "1").await;
    let worker = Worker::new(&inbox.oncebox)
        .on("a", async || {})
        .route(Route::new("b", async || {}).concurrency(10_000))
        .concurrency(10_000)
        .batch(10_000);
    assert_eq!(worker.run_until_idle().await.unwrap().handled, 1);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn worker_settings_out_of_bounds_are_rejected() {
    let inbox = Paused::new();
    let worker = || Worker::new(&inbox.oncebox).on("t", async || {});
    let (max, short) = (Duration::MAX, Duration::from_millis(99));
    for (worker, text) in [
        (worker().stop_budget(max), "stop budget is longer than ten years"),
        (worker().poll_interval(max, max), "poll interval is longer than ten years"),
        (worker().poll_interval(LONG, max), "longest poll interval is longer than ten years"),
        (worker().lease(max), "lease is longer than ten years"),
        (worker().lease(short), "lease must be at least 100 ms, or heartbeats cannot extend it in time"),
        (worker().call_timeout(max), "call timeout is longer than ten years"),
        (worker().batch(10_001), "batch size must be at most 10000"),
    ] {
        assert_eq!(worker.run_until_idle().await.unwrap_err().to_string(), text);
    }
    let limited = worker().route(Route::new("u", async || {}).per_second(1.0)).on_unhandled(Unhandled::Dead);
    assert_eq!(limited.run_until_idle().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        worker().timeout(max).run_until_idle().await.unwrap().handled,
        0,
        "an unlimited timeout is allowed"
    );
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_claim_answered_late_does_not_start_handlers_on_a_nearly_expired_lease() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    inbox.faults.next_of(Operation::Work, InjectedFault::Delay(Duration::from_millis(6_500)));
    let runs = Arc::new(AtomicU32::new(0));
    let handler = async |State(runs): State<Arc<AtomicU32>>| {
        runs.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_secs(2)).await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(runs.clone()).on("t", handler);
    let worker = worker.lease(Duration::from_secs(7)).start().unwrap();
    sleep(Duration::from_secs(60)).await;
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.lost, runs.load(Ordering::SeqCst)), (0, 1));
}

/// Topics beyond the first 64 are in a separate claim, which a busy claim must not starve.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_quiet_topic_is_not_starved_by_busy_topics() {
    let inbox = Paused::new();
    for id in 0..1_000 {
        inbox.enqueue("busy", &format!("b{id}")).await;
    }
    let handled_at: Arc<Mutex<Option<Instant>>> = Arc::default();
    let noted = handled_at.clone();
    let mut worker = Worker::new(&inbox.oncebox)
        .on("busy", async || sleep(Duration::from_millis(200)).await)
        .concurrency(1);
    for topic in 0..63 {
        worker = worker.on(format!("other-{topic}"), async || {});
    }
    let worker = worker.on("calm", move || {
        let noted = noted.clone();
        async move { *noted.lock().unwrap() = Some(Instant::now()) }
    });
    let worker = worker.start().unwrap();
    sleep(Duration::from_secs(5)).await;
    let enqueued = Instant::now();
    inbox.enqueue("calm", "calm").await;
    sleep(Duration::from_secs(100)).await;
    let waited = handled_at.lock().unwrap().map(|at| at - enqueued);
    worker.stop().await.unwrap();
    assert!(waited.is_some_and(|waited| waited < Duration::from_secs(5)), "{waited:?}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn slow_handlers_reach_the_rate_limit_too() {
    let inbox = Paused::new();
    for id in 0..16 {
        inbox.enqueue("t", &id.to_string()).await;
    }
    let worker = Worker::new(&inbox.oncebox)
        .route(Route::new("t", async || sleep(Duration::from_secs(60)).await).per_second(4.0))
        .poll_interval(Duration::from_secs(30), Duration::from_secs(30))
        .start()
        .unwrap();
    sleep(Duration::from_secs(10)).await;
    let leased = inbox.oncebox.operator("t").counts(None).await.unwrap().leased;
    worker.stop().await.unwrap();
    assert_eq!(leased, 16, "4 per second for 10 s, 16 slots");
}

#[tokio::test(crate = "crate::timed")]
async fn a_queue_does_not_remember_settled_messages() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let queue = oncebox.queue();
    let owner = queue.new_owner();
    for round in 0..11 {
        let messages = (0..10_000).map(|id| Message::new("t", "test", format!("{round}-{id}")));
        oncebox.inbox().enqueue_all(messages).await.unwrap();
        let deliveries = queue.claim(owner, LONG, 10_000).await.expect("no messages are held");
        let keys: Vec<_> = deliveries.into_iter().map(|delivery| delivery.key).collect();
        queue.ack(owner, &keys).await.unwrap();
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn hanging_maintenance_is_unhealthy_and_ends_when_the_store_closes() {
    let (capture, _guard) = Capture::start();
    let inbox = Paused::new();
    for _ in 0..100 {
        inbox.faults.next_of(Operation::Maintain, InjectedFault::Hang);
    }
    let maintenance = tokio::spawn(inbox.oncebox.maintenance().run(std::future::pending()));
    sleep(Duration::from_secs(45)).await;
    assert!(!inbox.oncebox.health().await.is_healthy());
    assert!(!capture.find(Level::WARN, &["maintenance failed"]).is_empty());
    maintenance.abort();
    let inbox = Paused::new();
    let maintenance = inbox.oncebox.maintenance().run(std::future::pending());
    inbox.oncebox.close().await.unwrap();
    timeout(LONG, maintenance).await.expect("maintenance ends");
}

/// A tracing system that panics.
struct Traces;

impl oncebox::telemetry::TraceContext for Traces {
    fn current(&self) -> Option<String> {
        Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned())
    }

    fn child_of(&self, _: &tracing::Span, _: &str) {
        panic!("the tracing system is broken");
    }

    fn link_to(&self, _: &tracing::Span, _: &str) {}
}

#[tokio::test(crate = "crate::timed")]
async fn tracing_failures_neither_reject_messages_nor_end_workers() {
    let oncebox = Oncebox::builder().trace_context(Arc::new(Traces)).open("memory:").await.unwrap();
    let mut message = Message::new("t", "test", "1");
    for name in 0..64 {
        message = message.attribute(&format!("a{name}"), "v");
    }
    oncebox.inbox().enqueue(message).await.unwrap();
    oncebox.inbox().enqueue(Message::new("t", "test", "2")).await.unwrap();
    let worker = Worker::new(&oncebox).on("t", async || {}).run_until_idle();
    let stopped = worker.await.unwrap();
    assert_eq!((stopped.handled, stopped.retrying), (1, 1));
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn tasks_spawned_by_a_handler_see_its_cancellation() {
    for by_timeout in [false, true] {
        let inbox = Paused::new();
        inbox.enqueue("t", "1").await;
        let (started, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let handler = async |State((started, cancelled)): State<(Arc<Notify>, Arc<Notify>)>,
                             context: Context| {
            tokio::spawn(async move {
                context.cancelled().await;
                cancelled.notify_one();
            });
            started.notify_one();
            std::future::pending::<()>().await;
        };
        let worker =
            Worker::new(&inbox.oncebox).with_state((started.clone(), cancelled.clone())).on("t", handler);
        let worker = if by_timeout { worker.timeout(Duration::from_secs(1)) } else { worker };
        let run = tokio::spawn(worker.run(std::future::pending()));
        started.notified().await;
        if !by_timeout {
            run.abort();
        }
        timeout(Duration::from_secs(10), cancelled.notified()).await.expect("the task is notified");
        run.abort();
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_resumes_soon_after_its_store_recovers() {
    let inbox = Paused::new();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).poll_interval(LONG, LONG).start().unwrap();
    sleep(Duration::from_secs(1)).await;
    for _ in 0..12 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    inbox.enqueue("t", "1").await;
    within("the store has failed often enough", async {
        while inbox.faults.left() > 0 {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let recovered = Instant::now();
    within("the message is handled", async {
        while inbox.show("1").await.state != MessageState::Done {
            sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    let took = recovered.elapsed();
    worker.stop().await.unwrap();
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_that_ended_with_an_error_is_unhealthy_until_another_starts() {
    let inbox = Paused::new();
    let mut worker = Worker::new(&inbox.oncebox).on("t", async || {}).without_maintenance().start().unwrap();
    inbox.store.close().await.unwrap();
    assert_eq!(worker.wait().await.unwrap_err().kind(), ErrorKind::Closed);
    let health = inbox.oncebox.health().await;
    let found = health.findings.iter().any(|finding| finding.to_string().starts_with("worker: has ended: "));
    assert!(found, "{health:?}");
}

/// Runs in real time, on one thread: the first handler blocks the thread until the lease of the second message has
/// ended.
/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed")]
async fn no_handler_starts_without_a_lease() {
    // Far longer than a machine under load delays a handler between its start and reading its message.
    const LEASE: Duration = Duration::from_millis(1_500);
    let oncebox = Oncebox::open("memory:").await.unwrap();
    for id in ["1", "2"] {
        oncebox.inbox().enqueue(Message::new("t", "test", id)).await.unwrap();
    }
    let unleased = Arc::new(AtomicU32::new(0));
    let handler = async |State((oncebox, unleased)): State<(Oncebox, Arc<AtomicU32>)>, context: Context| {
        let found = oncebox.queue().get(&key(context.id())).await.unwrap().unwrap();
        if found.lease().is_none() {
            unleased.fetch_add(1, Ordering::SeqCst);
        }
        let until = oncebox_system::uptime() + LEASE + Duration::from_millis(200);
        while oncebox_system::uptime() < until {
            std::hint::spin_loop();
        }
    };
    let worker = Worker::new(&oncebox).with_state((oncebox.clone(), unleased.clone())).on("t", handler);
    let worker = worker.lease(LEASE).without_maintenance().start().unwrap();
    until("the second message is delivered again", async || {
        oncebox.operator("t").show(key("2")).await.unwrap().unwrap().deliveries >= 2
    })
    .await;
    worker.stop().await.unwrap();
    assert_eq!(unleased.load(Ordering::SeqCst), 0, "handlers that started without a lease");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn workers_that_start_together_warn_about_a_topic_once() {
    let (capture, _guard) = Capture::start();
    let inbox = Paused::new();
    inbox.enqueue("orphan", "1").await;
    inbox.enqueue("b", "2").await;
    let one = Worker::new(&inbox.oncebox).on("a", async || {}).start().unwrap();
    sleep(Duration::from_millis(1)).await;
    let two = Worker::new(&inbox.oncebox).on("b", async || sleep(LONG).await).start().unwrap();
    sleep(Duration::from_secs(30)).await;
    let warnings = capture.find(Level::WARN, &["no handler in this process"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("topic=orphan"));
    drop((one, two));
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_very_long_delay_does_not_overflow() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let never = async || Err::<(), _>(Failure::retry_after(Duration::MAX, "never"));
    Worker::new(&inbox.oncebox).on("t", never).without_maintenance().run_until_idle().await.unwrap();
    let found = inbox.show("1").await;
    let delay = found.retry_at.unwrap().since(found.accepted_at);
    assert!(delay > LONG, "{delay:?}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn heartbeats_do_not_hide_failing_work_from_health() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    inbox.faults.next_of(Operation::Work, InjectedFault::Pass);
    for _ in 0..200 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    let worker =
        Worker::new(&inbox.oncebox).on("t", async || sleep(LONG).await).lease(Duration::from_secs(3));
    let worker = worker.concurrency(2).without_maintenance().stop_budget(Duration::ZERO).start().unwrap();
    sleep(Duration::from_secs(60)).await;
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        assert!(!inbox.oncebox.health().await.is_healthy());
    }
    drop(worker);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stop_retries_unsent_settlements() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    inbox.faults.next_of(Operation::Work, InjectedFault::Pass);
    for _ in 0..9 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    let worker =
        Worker::new(&inbox.oncebox).on("t", async || {}).stop_budget(Duration::ZERO).start().unwrap();
    within("the store has failed often enough", async {
        while inbox.faults.left() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.unsettled), (1, 0));
}

/// A paused worker that is resumed is not drained; waiting for the drain ends with an error.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_drain_ends_when_the_worker_is_resumed() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let worker = Worker::new(&inbox.oncebox).on("t", async || sleep(LONG).await).start().unwrap();
    sleep(Duration::from_secs(1)).await;
    let (drained, resumed) = tokio::join!(worker.drain(), async {
        sleep(Duration::from_secs(1)).await;
        worker.resume().await
    });
    assert_eq!(drained.unwrap_err().kind(), ErrorKind::Closed);
    resumed.unwrap();
    drop(worker);
}
