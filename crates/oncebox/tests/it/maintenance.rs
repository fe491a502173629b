//! Maintenance: retention, reaping, and warnings about unhandled topics.

use std::sync::Arc;
use std::time::Duration;

use oncebox::mailbox::{MailboxSettings, OutgoingMessage};
use oncebox::{Message, MessageState, Oncebox, Worker, message::Namespace, operator::MessageQuery};
use oncebox_testkit::ManualClock;
use oncebox_testkit::faulty::{FaultPlan, FaultyStore, InjectedFault, Operation};
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use super::capture::Capture;
use super::fixture::{Paused, key, on_every_store, on_every_store_with, postgres_in};
use crate::timed::until;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Holds: IBX-098, IBX-099, IBX-100, RULE-20.
#[test]
fn only_done_messages_past_their_retention_are_deleted() {
    on_every_store_with(
        |builder| builder.keep(DAY),
        async |fixture| {
            let inbox = fixture.oncebox.inbox();
            inbox.already_processed("test", "seen").await.unwrap();
            for id in ["ready", "done", "dead"] {
                fixture.enqueue("t", id).await;
            }
            inbox.mark_processed("test", "done").await.unwrap();
            inbox.mark_dead("test", "dead").await.unwrap();
            fixture.advance(DAY * 9 / 10);
            assert_eq!(fixture.oncebox.maintenance().run_once().await.unwrap().forgotten, 0);
            fixture.advance(DAY * 400);
            assert_eq!(fixture.oncebox.maintenance().run_once().await.unwrap().forgotten, 1);
            for id in ["seen", "ready", "dead"] {
                assert_ne!(fixture.show(id).await.state, MessageState::Done);
            }
            assert_eq!(fixture.oncebox.queue().get(&key("done")).await.unwrap(), None);
        },
    );
}

/// Holds: RULE-20.
#[test]
fn seen_and_dead_messages_are_deleted_only_if_configured() {
    on_every_store_with(
        |builder| builder.keep(DAY).seen_keep(DAY * 2).dead_keep(DAY * 3),
        async |fixture| {
            fixture.oncebox.inbox().already_processed("test", "seen").await.unwrap();
            fixture.enqueue("t", "dead").await;
            fixture.oncebox.inbox().mark_dead("test", "dead").await.unwrap();
            fixture.advance(DAY * 2);
            assert_eq!(fixture.oncebox.maintenance().run_once().await.unwrap().forgotten, 1);
            fixture.advance(DAY);
            assert_eq!(fixture.oncebox.maintenance().run_once().await.unwrap().forgotten, 1);
        },
    );
}

/// Once a mailbox is open, maintenance applies its dead-letter retention per topic; before, dead letters are kept
/// forever.
/// Holds: MBX-P-9, RULE-20.
#[test]
fn dead_letter_retention_follows_the_mailbox_settings() {
    on_every_store(async |fixture| {
        let settings = MailboxSettings::default();
        let mailbox = fixture.oncebox.mailbox(settings.clone()).unwrap();
        let topics = ["usual", "few", "few", "few", "short"];
        for (key, topic) in topics.iter().enumerate() {
            mailbox.send(OutgoingMessage::new(*topic, key.to_string()).bytes("x")).await.unwrap();
        }
        let operator = mailbox.operator("test");
        for message in operator.page(&MessageQuery::all(Namespace::Mailbox)).await.unwrap().messages {
            operator.cancel(message.uid).await.unwrap();
        }
        let mut own = settings.clone();
        own.topics.insert("few".to_owned(), settings.topic.clone());
        own.topics.insert("short".to_owned(), settings.topic.clone());
        own.topics.get_mut("few").unwrap().dlq_messages_max = 1;
        own.topics.get_mut("short").unwrap().dlq_keep = DAY;
        fixture.oncebox.mailbox(own).unwrap();
        for (pass, left) in [(DAY / 2, [1, 1, 1]), (DAY / 2, [1, 1, 0]), (DAY * 13, [0, 0, 0])] {
            fixture.advance(pass);
            fixture.oncebox.maintenance().run_once().await.unwrap();
            for (topic, left) in ["usual", "few", "short"].into_iter().zip(left) {
                assert_eq!(mailbox.counts(topic, None).await.unwrap().dead, left, "{topic} {pass:?}");
            }
        }
    });
}

/// Holds: IBX-101.
#[test]
fn maintenance_processes_everything_due_in_bounded_batches() {
    on_every_store_with(
        |builder| builder.keep(DAY),
        async |fixture| {
            let messages = (0..2_500).map(|id| Message::new("t", "test", id.to_string()));
            fixture.oncebox.inbox().enqueue_all(messages).await.unwrap();
            let keys: Vec<_> = (0..2_500).map(|id| key(&id.to_string())).collect();
            fixture.oncebox.inbox().mark(oncebox::inbox::Mark::Processed, &keys).await.unwrap();
            fixture.advance(DAY);
            assert_eq!(fixture.oncebox.maintenance().run_once().await.unwrap().forgotten, 2_500);
        },
    );
}

/// Holds: RULE-15.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_unhandled_ready_topic_causes_a_warning_once_a_minute() {
    let (capture, _guard) = Capture::start();
    let inbox = Paused::new();
    inbox.enqueue("orphan", "1").await;
    inbox.enqueue("t", "2").await;
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).start().unwrap();
    let warnings = || capture.find(Level::WARN, &["no handler in this process", "topic=orphan"]).len();
    sleep(Duration::from_secs(50)).await;
    assert_eq!(warnings(), 1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(warnings(), 2);
    assert_eq!(capture.find(Level::WARN, &["topic=t "]).len(), 0);
    worker.stop().await.unwrap();
}

/// The test does not call maintenance, and the worker never claims these messages: only the worker's own maintenance
/// can reap their leases.
/// Holds: IBX-072.
#[test]
fn a_running_worker_reaps_leases_of_crashed_workers() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let worker = Worker::new(&fixture.oncebox).on("other", async || {}).start().unwrap();
        let queue = fixture.oncebox.queue();
        for (round, id) in ["1", "2", "3"].into_iter().enumerate() {
            fixture.enqueue("t", id).await;
            // A worker claims the message and crashes without settling it.
            let lease = Duration::from_secs(30);
            let claimed = queue.claim(queue.new_owner(), lease, 1).await.unwrap();
            assert_eq!(claimed[0].key.id.as_str(), id);
            fixture.advance(lease);
            let reaped = || capture.find(Level::INFO, &["reaped lapsed leases", "reaped=1"]).len();
            until("the worker reaps it", async || reaped() > round).await;
            let found = fixture.show(id).await;
            assert_eq!((found.lease(), found.attempts), (None, 1), "a crash counts as an attempt");
            fixture.oncebox.inbox().mark_processed("test", id).await.unwrap();
        }
        worker.stop().await.unwrap();
    });
}

/// Holds: RULE-09.
#[test]
fn concurrent_maintenance_is_harmless() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        for id in 0..50 {
            fixture.enqueue("t", &id.to_string()).await;
        }
        queue.claim(queue.new_owner(), Duration::from_secs(1), 50).await.unwrap();
        fixture.advance(Duration::from_secs(1));
        let (one, two) = (fixture.oncebox.maintenance(), fixture.oncebox.maintenance());
        let (one, two) = tokio::join!(one.run_once(), two.run_once());
        assert_eq!(one.unwrap().lapsed + two.unwrap().lapsed, 50);
    });
}

/// The lock of another process that makes the message claimable may last longer than a claim waits for it.
#[tokio::test(crate = "crate::timed")]
async fn a_worker_runs_until_idle_also_if_another_process_has_locked_a_due_message() {
    let clock = Arc::new(ManualClock::default());
    let (store, pool) = postgres_in("locked_timer", Some(clock.clone())).await;
    let oncebox = Oncebox::builder().clock(clock.clone()).on(store).unwrap();
    oncebox.inbox().enqueue(Message::new("t", "test", "1").due_in(DAY)).await.unwrap();
    clock.advance(DAY);
    let mut other = pool.begin().await.unwrap();
    let locked = sqlx::query("select from locked_timer.message for update").execute(&mut *other).await;
    assert_eq!(locked.unwrap().rows_affected(), 1);
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *other).await.unwrap();
    let worker = Worker::new(&oncebox).on("t", async || {}).run_until_idle();
    let release = async {
        until("the worker waits for the lock", async || {
            let waits = "select exists (select from pg_stat_activity where $1 = any (pg_blocking_pids(pid)))";
            sqlx::query_scalar(waits).bind(pid).fetch_one(&pool).await.unwrap()
        })
        .await;
        sleep(Duration::from_millis(200)).await;
        other.rollback().await.unwrap();
    };
    let (stopped, ()) = tokio::join!(worker, release);
    assert_eq!(stopped.unwrap().handled, 1);
}

/// Topics with too many dead letters are to be paused, and the store does not answer: the first one shows it.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_pause_that_is_not_answered_does_not_stop_maintenance() {
    const PLANNED: usize = 100;
    let (capture, _guard) = Capture::start();
    let faults = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(Paused::new().store, faults.clone()));
    let oncebox = Oncebox::builder().pause_after_deaths(1).on(store).unwrap();
    let (queue, owner) = (oncebox.queue(), oncebox.queue().new_owner());
    for topic in 0..5 {
        for id in [2 * topic, 2 * topic + 1] {
            let message = Message::new(format!("t{topic}"), "test", id.to_string());
            oncebox.inbox().enqueue(message).await.unwrap();
        }
    }
    let claimed = queue.claim(owner, Duration::from_secs(600), 10).await.unwrap();
    let keys: Vec<_> = claimed.into_iter().map(|delivery| delivery.key).collect();
    queue.fail(owner, &keys, "no").await.unwrap();
    for _ in 0..PLANNED {
        faults.next_of(Operation::Records, InjectedFault::Hang);
    }
    let began = Instant::now();
    let maintained = timeout(DAY / 24, oncebox.maintenance().run_once()).await;
    maintained.expect("maintenance ends").unwrap();
    assert!(began.elapsed() <= Duration::from_secs(31), "{:?}", began.elapsed());
    assert_eq!(PLANNED - faults.left(), 1, "the other topics are not tried");
    assert_eq!(capture.find(Level::WARN, &["cannot pause"]).len(), 1);
}
