//! Pauses and other features: redrives, marks, transactions, commands, workers of all topics, waiting receivers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox::commands::{
    Command, Contracts, Execution, Mediator, Processor, ProcessorOptions, ScheduleOptions,
};
use oncebox::mailbox::{MailboxSettings, OutgoingMessage, Receive};
use oncebox::operator::Pause;
use oncebox::worker::Unhandled;
use oncebox::{Context, ErrorKind, Failure, Message, MessageState, Oncebox, Worker};
use oncebox_core::{Batch, Claim, Namespace, Owner, Span};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use tracing::Level;

use super::super::capture::Capture;
use super::super::fixture::{self, Paused, key, on_every_store};
use super::{SEEN_WITHIN, enqueue, handle, is_paused};
use crate::timed::within;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Waits in the test's own time.
async fn until(what: &'static str, holds: impl AsyncFn() -> bool) {
    within(what, async {
        while !holds().await {
            sleep(MILLISECOND).await;
        }
    })
    .await;
}

/// A repeated pause changes nothing, but its caller may rely on it from now on.
#[tokio::test(crate = "crate::timed")]
async fn a_repeated_pause_applies_to_the_next_call() {
    let [first, second] = fixture::two_on_postgres().await;
    enqueue(&second, "t", "before").await.unwrap();
    first.operator("ann").pause("t", Pause::Both).await.unwrap();
    second.operator("bob").pause("t", Pause::Both).await.unwrap();
    assert!(is_paused(&enqueue(&second, "t", "1").await.unwrap_err()));
    first.operator("ann").resume("t", Pause::Both).await.unwrap();
    second.operator("bob").resume("t", Pause::Both).await.unwrap();
    enqueue(&second, "t", "1").await.unwrap();
}

/// The answer of a change was lost; its repeat finds the change made.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_pause_whose_answer_was_lost_applies_after_its_repeat() {
    let fixture = Paused::new();
    fixture.enqueue("t", "before").await;
    fixture.faults.next_of(Operation::Records, InjectedFault::Pass);
    fixture.faults.next_of(Operation::Records, InjectedFault::FailAfterCommit);
    let operator = fixture.oncebox.operator("ann");
    let error = operator.pause("t", Pause::Both).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(operator.pause("t", Pause::Both).await.unwrap().pause, Pause::Both);
    assert!(is_paused(&enqueue(&fixture.oncebox, "t", "1").await.unwrap_err()));
}

/// More topics fail than can be paused: the log has one line about those that could not be, not one for each.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn topics_that_cannot_be_paused_do_not_flood_the_log() {
    let (capture, _guard) = Capture::start();
    let fixture = Paused::new();
    let operator = fixture.oncebox.operator("ann");
    for number in 0..1_000 {
        operator.pause(&format!("paused-{number}"), Pause::Receiving).await.unwrap();
    }
    drop(operator);
    let oncebox = Oncebox::builder().pause_after_deaths(1).on(fixture.store.clone()).unwrap();
    let topics: Vec<_> = (0..100).map(|number| format!("t{number}")).collect();
    for (topic, number) in topics.iter().zip(0..) {
        for id in [2 * number, 2 * number + 1] {
            enqueue(&oncebox, topic, &id.to_string()).await.unwrap();
        }
    }
    let (queue, owner) = (oncebox.queue(), oncebox.queue().new_owner());
    for _ in 0..20 {
        for delivery in queue.claim(owner, Duration::from_secs(600), 100).await.unwrap() {
            queue.fail(owner, std::slice::from_ref(&delivery.key), "no").await.unwrap();
        }
    }
    oncebox.maintenance().run_once().await.unwrap();
    let lines = capture.find(Level::WARN, &["cannot pause"]);
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// Redriven dead letters of a paused topic are ready, and wait.
#[test]
fn dead_letters_can_be_redriven_into_a_paused_topic() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let (operator, queue) = (fixture.oncebox.operator("ann"), fixture.oncebox.queue());
        let owner = queue.new_owner();
        queue.claim(owner, Duration::from_secs(30), 1).await.unwrap();
        queue.fail(owner, &[key("1")], "no").await.unwrap();
        operator.pause("t", Pause::Both).await.unwrap();
        operator.redrive(key("1")).await.unwrap();
        assert_eq!(fixture.show("1").await.state, MessageState::Processing);
        assert_eq!(handle(&fixture.oncebox, &["t"]).await, 0);
        operator.resume("t", Pause::Receiving).await.unwrap();
        assert_eq!(handle(&fixture.oncebox, &["t"]).await, 1, "it is paused for sending only");
    });
}

/// The longest name, and names that look like patterns.
#[test]
fn any_topic_can_be_paused() {
    on_every_store(async |fixture| {
        let operator = fixture.oncebox.operator("ann");
        let mailbox = fixture.oncebox.mailbox(MailboxSettings::default()).unwrap();
        let longest = "é".repeat(oncebox_core::limits::TEXT_BYTES_MAX / 2);
        for topic in [&*longest, "%", "a\u{10FFFF}", " ", "\"\\"] {
            let paused = operator.pause(topic, Pause::Both).await.unwrap();
            assert_eq!(paused.topic.as_str(), topic);
            assert_eq!(operator.paused().await.unwrap(), [paused]);
            mailbox.operator("ann").pause(topic, Pause::Both).await.unwrap();
            assert!(is_paused(&mailbox.send(OutgoingMessage::new(topic, "1")).await.unwrap_err()));
            assert_eq!(operator.resume(topic, Pause::Both).await.unwrap(), None);
        }
        let longer = "x".repeat(oncebox_core::limits::TEXT_BYTES_MAX + 1);
        assert_eq!(operator.pause(&longer, Pause::Both).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(operator.resume("unknown", Pause::Both).await.unwrap(), None);
    });
}

#[derive(Debug, Serialize, Deserialize)]
struct Ping;

impl Command for Ping {
    type Output = ();
}

async fn ping(_: Arc<Ping>, _: Execution<()>) -> Result<(), Failure> {
    Ok(())
}

#[test]
fn commands_of_a_paused_contract_are_rejected_and_kept() {
    on_every_store(async |fixture| {
        let contracts = Contracts::new().register::<Ping>("ping", 1).unwrap();
        let mediator = Mediator::builder().with_state(()).handle(ping).build().unwrap();
        let scheduler = fixture.oncebox.scheduler(&contracts);
        let processor =
            Processor::new(&fixture.oncebox, &contracts, &mediator, ProcessorOptions::default()).unwrap();
        let operator = fixture.oncebox.operator("ann").in_namespace(Namespace::Commands);
        operator.pause("ping@1", Pause::Receiving).await.unwrap();
        scheduler.schedule(&Ping, ScheduleOptions::default()).await.unwrap();
        assert_eq!(processor.process_pending().await.unwrap().handled, 0);
        operator.pause("ping@1", Pause::Sending).await.unwrap();
        let error = scheduler.schedule(&Ping, ScheduleOptions::default()).await.unwrap_err();
        assert!(is_paused(&error), "{error}");
        operator.resume("ping@1", Pause::Receiving).await.unwrap();
        assert_eq!(processor.process_pending().await.unwrap().handled, 1, "it drains");
    });
}

/// A program that enqueues in its own transaction gets the same answer, and nothing is stored.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_message_in_a_transaction_is_rejected_while_its_topic_is_paused() {
    let (store, pool) = fixture::postgres(None).await;
    let oncebox = Oncebox::builder().on_postgres(store).unwrap();
    let operator = oncebox.operator("ann");
    operator.pause("t", Pause::Sending).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let enqueued = oncebox.inbox().enqueue_in(&mut tx, Message::new("t", "test", "1")).await;
    assert!(is_paused(&enqueued.map(drop).unwrap_err()));
    oncebox.inbox().enqueue_in(&mut tx, Message::new("u", "test", "2")).await.unwrap();
    tx.commit().await.unwrap();
    assert!(operator.show(key("1")).await.unwrap().is_none());
    assert!(operator.show(key("2")).await.unwrap().is_some());
}

/// A worker that claims all topics gets those of 64 at a time while one topic is paused. It must not wait for its next
/// poll between them.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_of_all_topics_does_not_slow_down_while_one_is_paused() {
    let fixture = Paused::new();
    fixture.oncebox.operator("ann").pause("stopped", Pause::Receiving).await.unwrap();
    enqueue(&fixture.oncebox, "stopped", "stopped").await.unwrap();
    let topics: Vec<_> = (0..500).map(|number| format!("t{number}")).collect();
    for topic in &topics {
        fixture.enqueue(topic, topic).await;
    }
    let handled = Arc::new(AtomicU64::new(0));
    let count = |handled: &Arc<AtomicU64>| {
        let handled = handled.clone();
        move || {
            handled.fetch_add(1, Ordering::Relaxed);
            async {}
        }
    };
    let long = Duration::from_secs(600);
    let worker = Worker::new(&fixture.oncebox).concurrency(200).batch(200).poll_interval(long, long);
    let worker = worker.on_unhandled(Unhandled::Abandon);
    let worker = topics.iter().fold(worker, |worker, topic| worker.on(topic, count(&handled)));
    let started = Instant::now();
    let worker = worker.start().unwrap();
    until("all are handled", async || handled.load(Ordering::Relaxed) == 500).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    worker.stop().await.unwrap();
}

/// A receiver that waits gets a message of its topic at the moment the topic is resumed.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_waiting_receiver_wakes_when_its_topic_is_resumed() {
    let fixture = Paused::new();
    let mailbox = fixture.oncebox.mailbox(MailboxSettings::default()).unwrap();
    let operator = mailbox.operator("ann");
    operator.pause("t", Pause::Receiving).await.unwrap();
    mailbox.send(OutgoingMessage::new("t", "1")).await.unwrap();
    let started = Instant::now();
    let (received, ()) = tokio::join!(
        async { mailbox.receive(Receive::new("t").wait(Duration::from_secs(60))).await.unwrap() },
        async {
            sleep(Duration::from_millis(3_210)).await;
            operator.resume("t", Pause::Receiving).await.unwrap();
        }
    );
    assert_eq!((received.envelopes.len(), received.paused), (1, false));
    assert_eq!(started.elapsed(), Duration::from_millis(3_210));
}

/// A worker with nothing but paused topics waits; it does not call the store again and again.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_of_paused_topics_is_idle() {
    const PLANNED: usize = 5_000;
    let fixture = Paused::new();
    fixture.oncebox.operator("ann").pause("t", Pause::Receiving).await.unwrap();
    for id in ["1", "2", "3"] {
        fixture.enqueue("t", id).await;
    }
    // Each call takes a planned fault, so the number of those that are gone is the number of calls.
    for _ in 0..PLANNED {
        fixture.faults.next(InjectedFault::Pass);
    }
    let long = Duration::from_secs(600);
    let worker = Worker::new(&fixture.oncebox).poll_interval(long, long).without_maintenance();
    let worker = worker.on("t", async || {}).start().unwrap();
    sleep(Duration::from_secs(60)).await;
    let calls = PLANNED - fixture.faults.left();
    assert!((60..200).contains(&calls), "{calls} calls in a minute");
    worker.stop().await.unwrap();
}

/// However slowly the paused topics are read, a worker makes progress.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn slow_reading_of_pauses_stops_no_worker() {
    let fixture = Paused::new();
    for id in 0..20 {
        fixture.enqueue("t", &id.to_string()).await;
    }
    sleep(SEEN_WITHIN).await;
    for _ in 0..1_000 {
        fixture.faults.next_of(Operation::Records, InjectedFault::Delay(Duration::from_secs(2)));
    }
    let worker = Worker::new(&fixture.oncebox).concurrency(1).on("t", async || {});
    assert_eq!(worker.run_until_idle().await.unwrap().handled, 20);
}

/// A claim of all topics lists the ready ones first. It leaves out what was paused while it waited for the list.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_pause_applies_to_a_claim_that_waits_for_a_list_of_topics() {
    let fixture = Paused::new();
    fixture.enqueue("t", "1").await;
    let here = fixture.oncebox.operator("ann");
    here.pause("another", Pause::Receiving).await.unwrap();
    fixture.faults.next_of(Operation::ReadyTopics, InjectedFault::Delay(Duration::from_secs(5)));
    let queue = fixture.oncebox.queue();
    let elsewhere = Oncebox::builder().on(fixture.store.clone()).unwrap();
    let (claimed, paused) = tokio::join!(queue.claim(queue.new_owner(), Duration::from_secs(30), 1), async {
        sleep(Duration::from_secs(3)).await;
        elsewhere.operator("bob").pause("t", Pause::Receiving).await
    });
    paused.unwrap();
    assert!(claimed.unwrap().is_empty(), "topic t had been paused for two seconds");
    here.resume("t", Pause::Receiving).await.unwrap();
    assert_eq!(queue.claim(queue.new_owner(), Duration::from_secs(30), 1).await.unwrap().len(), 1);
}

/// What was settled counts, even if the claims that were to follow fail and the message is claimed elsewhere meanwhile.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_settlement_counts_although_the_claims_after_it_fail() {
    let fixture = Paused::new();
    for id in ["short", "long"] {
        fixture.enqueue("t", id).await;
    }
    let handler = async |context: Context| {
        sleep(Duration::from_secs(if context.id() == "short" { 5 } else { 6 })).await;
        if context.id() == "short" { Ok(()) } else { Err(Failure::retry_after(Duration::ZERO, "again")) }
    };
    let worker = Worker::new(&fixture.oncebox).concurrency(2).lease(Duration::from_secs(60)).on("t", handler);
    let worker = worker.start().unwrap();
    until("both handlers run", async || fixture.show("long").await.deliveries == 1).await;
    // The second settlement, and a copy of the pauses that is already old, arrive while the first settlement is in flight.
    sleep(Duration::from_secs(4)).await;
    fixture.faults.next_of(Operation::Work, InjectedFault::Delay(Duration::from_secs(3)));
    fixture.faults.next_of(Operation::Records, InjectedFault::Delay(Duration::from_secs(2)));
    for _ in 0..10 {
        fixture.faults.next_of(Operation::Records, InjectedFault::FailBefore);
    }
    until("the second message waits for its retry", async || fixture.show("long").await.lease().is_none())
        .await;
    let (other, lease) = (Owner::new(9).unwrap(), Span::lease(Duration::from_secs(60)).unwrap());
    let claim = Claim::new(Namespace::Inbox, other, lease, Batch::new(10).unwrap());
    let claimed = fixture.store.work(&[], &[claim]).await.unwrap();
    assert_eq!(claimed.deliveries[0].len(), 1);
    sleep(Duration::from_secs(5)).await;
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.retrying, stopped.lost), (1, 1, 0));
}

/// What was settled counts at once, even if the worker stops while the claims that follow wait.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_settlement_counts_although_the_claims_after_it_wait_until_the_worker_stops() {
    let fixture = Paused::new();
    fixture.oncebox.operator("ann").pause("stopped", Pause::Receiving).await.unwrap();
    fixture.enqueue("t", "1").await;
    let second = Duration::from_secs(1);
    let worker = Worker::new(&fixture.oncebox).stop_budget(second).on_unhandled(Unhandled::Abandon);
    let worker = worker.on("t", async || sleep(Duration::from_secs(5)).await).start().unwrap();
    until("the handler runs", async || fixture.show("1").await.deliveries == 1).await;
    sleep(4 * second).await;
    for _ in 0..100 {
        fixture.faults.next_of(Operation::ReadyTopics, InjectedFault::Delay(3_600 * second));
    }
    until("it is settled", async || fixture.show("1").await.state == MessageState::Done).await;
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.unsettled), (1, 0));
}

/// While the paused topics cannot be read, a worker settles what it has and can be stopped.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_that_cannot_read_pauses_settles_and_stops() {
    let fixture = Paused::new();
    fixture.enqueue("t", "1").await;
    let worker = Worker::new(&fixture.oncebox).on("t", async || sleep(Duration::from_secs(5)).await);
    let worker = worker.start().unwrap();
    until("the handler runs", async || fixture.show("1").await.deliveries == 1).await;
    for _ in 0..1_000 {
        fixture.faults.next_of(Operation::Records, InjectedFault::FailBefore);
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.show("1").await.state, MessageState::Done);
    let stopping = Instant::now();
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.unsettled), (1, 0));
    assert!(stopping.elapsed() < Duration::from_secs(1), "{:?}", stopping.elapsed());
}

/// A failure to read the paused topics is over when claims are made again, even if another caller has read them.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_worker_is_healthy_once_another_caller_has_read_the_pauses() {
    let fixture = Paused::new();
    let second = Duration::from_secs(1);
    let worker = Worker::new(&fixture.oncebox).poll_interval(2 * second, 2 * second).without_maintenance();
    let worker = worker.on("t", async || {}).start().unwrap();
    sleep(second).await;
    fixture.faults.next_of(Operation::Records, InjectedFault::FailBefore);
    until("the worker fails to read", async || fixture.faults.left() == 0).await;
    assert!(!fixture.oncebox.health().await.is_healthy());
    for id in 0..100 {
        fixture.enqueue("t", &id.to_string()).await;
        sleep(second / 10).await;
    }
    let health = fixture.oncebox.health().await;
    assert!(health.is_healthy(), "{:?}", health.findings);
    assert_eq!(worker.stop().await.unwrap().handled, 100);
}
