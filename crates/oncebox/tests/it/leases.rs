//! Keeping and losing leases, and stores that fail in between. Time is paused, so times are exact.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use oncebox::{Context, Failure, Message, MessageState, Oncebox, State, Worker, message::DeadReason};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use oncebox_testkit::servers::Postgres;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::fixture::{self, Directory, Paused, key};
use crate::timed::{until, within};

const LEASE: Duration = Duration::from_secs(30);

type Count = Arc<AtomicU32>;

/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_long_handler_keeps_its_lease_by_heartbeats() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let runs = Count::default();
    let handler = async |State(runs): State<Count>| {
        runs.fetch_add(1, Ordering::SeqCst);
        sleep(LEASE * 10).await;
    };
    let worker = Worker::new(&inbox.oncebox).with_state(runs.clone()).on("t", handler).lease(LEASE);
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!((stopped.handled, stopped.lost, runs.load(Ordering::SeqCst)), (1, 0, 1));
    assert_eq!(inbox.show("1").await.deliveries, 1);
}

/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_records_its_name_with_its_grants() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let worker = || Worker::new(&inbox.oncebox).on("t", async || ());
    worker().name("billing-3").run_until_idle().await.unwrap();
    let held = inbox.show("1").await.grant.expect("the message was leased");
    assert_eq!(held.worker.map(|name| name.to_string()).as_deref(), Some("billing-3"));
    let refused = worker().name("a\nb").run_until_idle().await.unwrap_err().to_string();
    assert!(refused.starts_with("worker has a character that is not printable ASCII"), "{refused}");
}

/// Notifies when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_lost_lease_cancels_the_handler_and_its_result_does_not_count() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = async |State((started, dropped)): State<(Arc<Notify>, Arc<Notify>)>, context: Context| {
        started.notify_one();
        let _dropped = Dropped(dropped);
        match context.delivery() {
            1 => std::future::pending().await,
            _ => Ok::<_, Failure>(()),
        }
    };
    let worker = Worker::new(&inbox.oncebox)
        .with_state((started.clone(), dropped.clone()))
        .on("t", handler)
        .lease(LEASE)
        .start()
        .unwrap();
    within("the handler starts", started.notified()).await;
    // An operator revokes the lease of the worker.
    inbox.oncebox.inbox().mark_processing("test", "1").await.unwrap();
    within("the handler is dropped", dropped.notified()).await;
    within("the handler starts again", started.notified()).await;
    worker.drain().await.unwrap();
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.lost, stopped.handled), (1, 1));
    let found = inbox.show("1").await;
    assert_eq!((found.state, found.deliveries, found.attempts), (MessageState::Done, 2, 0));
}

/// Counts the runs of the handler of message `1`. Its first run waits for `resume` and blocks its thread, so that it
/// cannot be dropped at an await.
#[derive(Clone)]
struct Blocking {
    runs: Count,
    concurrent: Count,
    most: Count,
    resume: Arc<Mutex<mpsc::Receiver<()>>>,
}

async fn block(State(blocking): State<Blocking>, context: Context) {
    if context.id() != "1" {
        return;
    }
    let concurrent = blocking.concurrent.fetch_add(1, Ordering::SeqCst) + 1;
    blocking.most.fetch_max(concurrent, Ordering::SeqCst);
    if blocking.runs.fetch_add(1, Ordering::SeqCst) == 0 {
        let _resumed = blocking.resume.lock().unwrap().recv();
    }
    blocking.concurrent.fetch_sub(1, Ordering::SeqCst);
}

/// A message that is delivered again to a worker whose handler still runs waits until that handler ends.
/// Holds: IBX-078.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 3)]
async fn a_redelivered_message_waits_until_its_previous_handler_ends() {
    let directory = Directory::new();
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    for url in [
        "memory:".to_owned(),
        format!("embedded:{}", directory.0.display()),
        format!("{}?ensure=yes", database.url()),
    ] {
        redeliver_while_running(&Oncebox::open(&url).await.unwrap()).await;
    }
}

async fn redeliver_while_running(oncebox: &Oncebox) {
    let enqueue = async |id: &str| oncebox.inbox().enqueue(Message::new("t", "test", id)).await.map(drop);
    let show = async |id: &str| oncebox.operator("t").show(key(id)).await.unwrap().unwrap();
    enqueue("1").await.unwrap();
    let (resume_sender, resume) = mpsc::channel();
    let (runs, most) = (Count::default(), Count::default());
    let blocking = Blocking {
        runs: runs.clone(),
        concurrent: Count::default(),
        most: most.clone(),
        resume: Arc::new(Mutex::new(resume)),
    };
    let worker = Worker::new(oncebox).with_state(blocking).on("t", block).lease(Duration::from_secs(3));
    let worker = worker.start().unwrap();
    until("its handler runs", async || runs.load(Ordering::SeqCst) == 1).await;
    // An operator revokes the lease; the worker notices at its next heartbeat, and gets the message again.
    oncebox.inbox().mark_processing("test", "1").await.unwrap();
    until("it is delivered again", async || show("1").await.deliveries >= 2).await;
    // A later message is handled, so the first one was due and did not start.
    enqueue("2").await.unwrap();
    until("the next message is handled", async || show("2").await.state == MessageState::Done).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "the first run has not ended");
    resume_sender.send(()).unwrap();
    until("it is handled", async || show("1").await.state == MessageState::Done).await;
    worker.stop().await.unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (2, 1), "one after the other");
}

/// While the store cannot be reached, another worker may get the message when the lease ends.
/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_that_cannot_reach_its_store_cancels_handlers_when_the_lease_ends() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = async |State((started, dropped)): State<(Arc<Notify>, Arc<Notify>)>| {
        started.notify_one();
        let _dropped = Dropped(dropped);
        std::future::pending::<()>().await;
    };
    let worker = Worker::new(&inbox.oncebox)
        .with_state((started.clone(), dropped.clone()))
        .on("t", handler)
        .lease(LEASE)
        .without_maintenance()
        .start()
        .unwrap();
    started.notified().await;
    let since = Instant::now();
    for _ in 0..10_000 {
        inbox.faults.next(InjectedFault::FailBefore);
    }
    within("the handler is dropped", dropped.notified()).await;
    let held = since.elapsed();
    assert!(held <= LEASE && held >= LEASE * 29 / 30, "{held:?}");
    let found = inbox.show("1").await;
    assert_eq!(found.deliveries, 1, "no other worker has claimed it yet");
    drop(worker);
}

/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn heartbeats_continue_until_the_settlement_is_confirmed() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    // The claim succeeds, then every settlement fails for the time of three leases.
    inbox.faults.next_of(Operation::Work, InjectedFault::Pass);
    for _ in 0..25 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    let runs = Count::default();
    let handler = async |State(runs): State<Count>| {
        runs.fetch_add(1, Ordering::SeqCst);
    };
    let since = Instant::now();
    let worker = Worker::new(&inbox.oncebox).with_state(runs.clone()).on("t", handler).lease(LEASE);
    let stopped = worker.run_until_idle().await.unwrap();
    assert!(since.elapsed() > LEASE * 2, "{:?}", since.elapsed());
    assert_eq!((stopped.handled, runs.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(inbox.show("1").await.attempts, 0);
}

/// Holds: RULE-06.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_repeated_and_nothing_lapses() {
    for fault in [InjectedFault::FailAfterCommit, InjectedFault::Hang] {
        let inbox = Paused::new();
        for id in ["1", "2", "3"] {
            inbox.enqueue("t", id).await;
        }
        inbox.faults.next_of(Operation::Work, fault);
        let runs = Count::default();
        let handler = async |State(runs): State<Count>| {
            runs.fetch_add(1, Ordering::SeqCst);
        };
        let worker = Worker::new(&inbox.oncebox).with_state(runs.clone()).on("t", handler).lease(LEASE);
        let stopped = worker.run_until_idle().await.unwrap();
        assert_eq!((stopped.handled, runs.load(Ordering::SeqCst)), (3, 3));
        for id in ["1", "2", "3"] {
            let found = inbox.show(id).await;
            assert_eq!((found.deliveries, found.attempts), (1, 0), "{fault:?}");
        }
    }
}

/// Holds: RULE-06.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_settlement_whose_answer_was_lost_is_repeated_and_counts_once() {
    let inbox = Paused::new();
    inbox.enqueue("fails", "1").await;
    inbox.faults.next_of(Operation::Work, InjectedFault::Pass);
    inbox.faults.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    inbox.faults.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    let worker = Worker::new(&inbox.oncebox).on("fails", async || Err::<(), _>("no"));
    let stopped = worker.attempts_max(5).without_maintenance().run_until_idle().await.unwrap();
    assert_eq!(stopped.retrying, 1);
    assert_eq!(inbox.show("1").await.attempts, 1);
}

/// Holds: RULE-07, CMD-20.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn messages_of_a_crashed_worker_are_taken_over_after_the_lease() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let started = Arc::new(Notify::new());
    let handler = async |State(started): State<Arc<Notify>>, context: Context| {
        started.notify_one();
        if context.delivery() == 1 {
            std::future::pending::<()>().await;
        }
    };
    let worker = || Worker::new(&inbox.oncebox).with_state(started.clone()).on("t", handler).lease(LEASE);
    let crashing = worker();
    let crashing = tokio::spawn(async move { crashing.run(std::future::pending()).await });
    within("the handler starts", started.notified()).await;
    let since = Instant::now();
    crashing.abort();
    let next = worker().start().unwrap();
    within("another worker's handler starts", started.notified()).await;
    let waited = since.elapsed();
    assert!(waited <= LEASE + Duration::from_secs(2), "{waited:?}");
    next.drain().await.unwrap();
    let found = inbox.show("1").await;
    assert_eq!(
        (found.state, found.deliveries, found.attempts),
        (MessageState::Done, 2, 1),
        "a crash counts as an attempt"
    );
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_handler_that_exceeds_its_timeout_is_cancelled_and_retried() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    let worker = Worker::new(&inbox.oncebox).on("t", async || sleep(Duration::from_secs(60)).await);
    let stopped =
        worker.timeout(Duration::from_secs(5)).without_maintenance().run_until_idle().await.unwrap();
    assert_eq!(stopped.retrying, 1);
    let error = inbox.show("1").await.last_error.unwrap();
    assert_eq!(error.as_str(), "timeout: the handler ran for more than 5s");
}

/// An expired message is not delivered again, but a running handler keeps its message.
/// Holds: RULE-12.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn expiry_waits_for_the_handler_that_holds_the_message() {
    let inbox = Paused::new();
    let expiring = |id: &str| Message::new("t", "test", id).text(id).expires_in(Duration::from_secs(5));
    inbox.oncebox.inbox().enqueue(expiring("1")).await.unwrap();
    let handler = async |context: Context| {
        sleep(Duration::from_secs(10)).await;
        if context.id() == "1" { Ok(()) } else { Err("too late") }
    };
    let worker = Worker::new(&inbox.oncebox).on("t", handler);
    inbox.oncebox.inbox().enqueue(expiring("2")).await.unwrap();
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!((stopped.handled, stopped.dead), (1, 1));
    let dead = inbox.oncebox.operator("t").show(key("2")).await.unwrap().unwrap();
    assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Expired), 0));
}

/// While a transaction of the application holds the message of one delivery, the leases of the others are extended.
/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_message_does_not_cost_other_deliveries_their_leases() {
    let (store, pool) = fixture::postgres(None).await;
    let oncebox = Oncebox::builder().on_postgres(store).unwrap();
    let message = |id: &str| Message::new("t", "test", id);
    for id in ["1", "2", "3"] {
        oncebox.inbox().enqueue(message(id)).await.unwrap();
    }
    let running = Arc::new(AtomicU32::new(0));
    let started = running.clone();
    // Longer than the transaction, which is longer than several leases.
    let handler = move || {
        started.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_secs(4))
    };
    let worker = Worker::new(&oncebox).concurrency(3).lease(Duration::from_secs(1)).on("t", handler);
    let worker = worker.start().unwrap();
    until("all handlers run", async || running.load(Ordering::SeqCst) == 3).await;
    let mut transaction = pool.begin().await.unwrap();
    oncebox.inbox().enqueue_in(&mut transaction, message("2")).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    transaction.rollback().await.unwrap();
    let state = async |id: &str| oncebox.operator("test").show(key(id)).await.unwrap().unwrap();
    until("the others are handled", async || {
        state("1").await.state == MessageState::Done && state("3").await.state == MessageState::Done
    })
    .await;
    assert_eq!((state("1").await.deliveries, state("3").await.deliveries), (1, 1));
    worker.stop().await.unwrap();
}
