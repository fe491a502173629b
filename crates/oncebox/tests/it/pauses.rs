//! Paused topics.

mod edges;
mod reading;

use std::num::NonZeroU128;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncebox::mailbox::{
    Mailbox, MailboxSettings, OutgoingMessage, Receive, SendOutcome, Settle, SettleOutcome,
};
use oncebox::operator::{Pause, PausedTopic};
use oncebox::{Error, ErrorKind, Message, MessageState, Oncebox, Worker};
use oncebox_core::{Batch, Claim, Namespace, Owner, RequestId, Span, StoreExt, Topic, Topics};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use tokio::time::sleep;
use tracing::Level;

use super::capture::Capture;
use super::fixture::{self, Directory, Fixture, Paused, key, on_every_store, on_every_store_with};
use crate::timed::until;

/// The longest time until a pause applies in another process.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

fn is_paused(error: &Error) -> bool {
    error.kind() == ErrorKind::Saturated && error.bound().is_some_and(|bound| bound.name == "paused")
}

async fn enqueue(oncebox: &Oncebox, topic: &str, id: &str) -> Result<(), Error> {
    oncebox.inbox().enqueue(Message::new(topic, "test", id)).await.map(drop)
}

/// Handles the messages of these topics that are ready, and returns how many.
async fn handle(oncebox: &Oncebox, topics: &[&str]) -> u64 {
    let worker = topics.iter().fold(Worker::new(oncebox), |worker, topic| worker.on(*topic, async || {}));
    worker.run_until_idle().await.unwrap().handled
}

fn mailbox(fixture: &Fixture) -> Mailbox {
    fixture.oncebox.mailbox(MailboxSettings::default()).unwrap()
}

/// Holds: RULE-32.
#[test]
fn a_topic_that_is_paused_for_sending_drains() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let operator = fixture.oncebox.operator("ann").because("moving");
        let paused = operator.pause("t", Pause::Sending).await.unwrap();
        let PausedTopic { topic, pause, actor, reason, .. } = &paused;
        assert_eq!((topic.as_str(), *pause, &**actor, &**reason), ("t", Pause::Sending, "ann", "moving"));
        assert_eq!(operator.paused().await.unwrap(), [paused]);

        let error = enqueue(&fixture.oncebox, "t", "2").await.unwrap_err();
        assert!(is_paused(&error) && error.retry_after().is_some(), "{error:?}");
        assert!(error.to_string().contains("paused") && error.to_string().contains("resume"), "{error}");
        let batch = [("t", "2"), ("u", "3"), ("t", "4"), ("u", "5")];
        let batch = batch.map(|(topic, id)| Message::new(topic, "test", id));
        let receipts = fixture.oncebox.inbox().enqueue_all(batch).await.unwrap();
        assert_eq!(receipts.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true]);
        assert!(receipts.iter().filter_map(|receipt| receipt.as_ref().err()).all(is_paused));

        assert_eq!(handle(&fixture.oncebox, &["t", "u"]).await, 3, "what is stored is delivered");
        assert_eq!(operator.resume("t", Pause::Both).await.unwrap(), None);
        enqueue(&fixture.oncebox, "t", "2").await.unwrap();
    });
}

/// Holds: RULE-32.
#[test]
fn messages_of_a_topic_that_is_paused_for_receiving_are_kept() {
    on_every_store(async |fixture| {
        let operator = fixture.oncebox.operator("ann");
        operator.pause("t", Pause::Receiving).await.unwrap();
        fixture.enqueue("t", "1").await;
        fixture.enqueue("u", "2").await;
        assert_eq!(handle(&fixture.oncebox, &["t", "u"]).await, 1);
        assert_eq!(handle(&fixture.oncebox, &["t"]).await, 0);
        assert_eq!(fixture.show("1").await.state, MessageState::Processing);
        assert_eq!(fixture.show("2").await.state, MessageState::Done);
        operator.resume("t", Pause::Receiving).await.unwrap();
        assert_eq!(handle(&fixture.oncebox, &["t"]).await, 1);
    });
}

#[test]
fn what_was_claimed_before_a_pause_can_be_settled() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let queue = fixture.oncebox.queue();
        let owner = queue.new_owner();
        assert_eq!(queue.claim(owner, Duration::from_secs(30), 1).await.unwrap().len(), 1);
        fixture.oncebox.operator("ann").pause("t", Pause::Both).await.unwrap();
        queue.ack(owner, &[key("1")]).await.unwrap();
        assert_eq!(fixture.show("1").await.state, MessageState::Done);
    });
}

#[test]
fn a_claim_of_all_topics_gives_each_topic_that_is_not_paused_its_turn() {
    on_every_store(async |fixture| {
        let operator = fixture.oncebox.operator("ann");
        let topics: Vec<_> = (0..200).map(|number| format!("topic-{number:03}")).collect();
        let messages = topics.iter().map(|topic| Message::new(topic, "test", topic));
        fixture.oncebox.inbox().enqueue_all(messages).await.unwrap();
        let paused: Vec<_> = topics.iter().step_by(20).collect();
        for topic in &paused {
            operator.pause(topic, Pause::Receiving).await.unwrap();
        }
        let queue = fixture.oncebox.queue();
        let mut claimed = Vec::new();
        for _ in 0..topics.len() {
            let deliveries = queue.claim(queue.new_owner(), Duration::from_secs(600), 50).await.unwrap();
            if deliveries.is_empty() {
                break;
            }
            claimed.extend(deliveries.into_iter().map(|delivery| delivery.content.topic.to_string()));
        }
        claimed.sort();
        let expected: Vec<_> = topics.iter().filter(|topic| !paused.contains(topic)).cloned().collect();
        assert_eq!(claimed, expected);
    });
}

/// The copy that a process has is full, and every page of ready topics that it reads has paused ones only.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn at_most_a_thousand_topics_are_paused_and_none_of_them_is_delivered() {
    let fixture = Paused::new();
    let operator = fixture.oncebox.operator("ann");
    for number in 0..1_000 {
        operator.pause(&format!("a-{number}"), Pause::Receiving).await.unwrap();
        enqueue(&fixture.oncebox, &format!("a-{number}"), &number.to_string()).await.unwrap();
    }
    let error = operator.pause("b", Pause::Receiving).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Saturated);
    assert!(error.to_string().contains("1000 of 1000 records"), "{error}");
    assert!(operator.pause("a-7", Pause::Sending).await.is_ok(), "a paused topic can be changed");
    enqueue(&fixture.oncebox, "b", "last").await.unwrap();
    let queue = fixture.oncebox.queue();
    for expected in [1, 0] {
        let claimed = queue.claim(queue.new_owner(), Duration::from_secs(600), 10).await.unwrap();
        assert_eq!(claimed.len(), expected);
    }
}

#[test]
fn pauses_of_a_mailbox_are_its_own() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let operator = mailbox.operator("ann");
        let send = async |id: &str| mailbox.send(OutgoingMessage::new("t", id)).await;
        fixture.oncebox.operator("ann").pause("t", Pause::Both).await.unwrap();
        assert!(matches!(send("1").await, Ok(SendOutcome::Accepted(_))), "another namespace is paused");
        let held = mailbox.receive(Receive::new("t")).await.unwrap().envelopes;
        assert_eq!(held.len(), 1);

        operator.pause("t", Pause::Receiving).await.unwrap();
        assert!(matches!(send("2").await, Ok(SendOutcome::Accepted(_))));
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_empty());
        assert_eq!(mailbox.ack(held[0].receipt).await.unwrap(), SettleOutcome::Ok);
        operator.pause("t", Pause::Sending).await.unwrap();
        assert!(is_paused(&send("3").await.unwrap_err()));
        let many = mailbox.send_all(["t", "u"].map(|topic| OutgoingMessage::new(topic, "4"))).await.unwrap();
        assert!(is_paused(many[0].as_ref().unwrap_err()) && many[1].is_ok(), "{many:?}");

        let left = operator.resume("t", Pause::Sending).await.unwrap().unwrap();
        assert_eq!(left.pause, Pause::Receiving);
        assert!(matches!(send("3").await, Ok(SendOutcome::Accepted(_))));
        assert_eq!(operator.resume("t", Pause::Receiving).await.unwrap(), None);
        assert_eq!(mailbox.receive(Receive::new("t")).await.unwrap().envelopes.len(), 2);
    });
}

/// The answer of a receive was lost, and its topic was paused before the repeat.
#[test]
fn a_repeated_request_gets_its_deliveries_although_topics_were_paused() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for id in ["1", "2"] {
            mailbox.send(OutgoingMessage::new("t", id)).await.unwrap();
        }
        let request = NonZeroU128::new(7).unwrap();
        let receive = || mailbox.receive(Receive::new("t").messages(1).request(request));
        let first = receive().await.unwrap().envelopes;
        mailbox.operator("ann").pause("t", Pause::Receiving).await.unwrap();
        assert_eq!(receive().await.unwrap().envelopes, first);
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_empty());

        // A claim of several topics, and one of all topics.
        fixture.enqueue("a", "a").await;
        fixture.enqueue("b", "b").await;
        let lease = Span::lease(Duration::from_secs(600)).unwrap();
        let mut claim = Claim::new(Namespace::Inbox, Owner::new(5).unwrap(), lease, Batch::new(10).unwrap());
        claim.request = Some(RequestId::from_u128(8));
        claim.requested_topics = Some(Topics::ALL);
        claim.topics = Topics::only([Topic::new("a").unwrap()]).unwrap();
        let first = fixture.store.claim(&claim).await.unwrap();
        claim.topics = Topics::only([Topic::new("b").unwrap()]).unwrap();
        assert_eq!(
            fixture.store.claim(&claim).await.unwrap(),
            first,
            "the requested topics identify the claim"
        );
    });
}

#[test]
fn changes_are_audited_once() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let operator = fixture.oncebox.operator("ann").because("moving");
        let first = operator.pause("t", Pause::Receiving).await.unwrap();
        fixture.advance(Duration::from_secs(1));
        let repeat = fixture.oncebox.operator("bob").pause("t", Pause::Receiving).await.unwrap();
        assert_eq!(first, repeat, "a repeat changes nothing");
        operator.pause("t", Pause::Sending).await.unwrap();
        for _ in 0..2 {
            operator.resume("t", Pause::Both).await.unwrap();
        }
        let lines =
            capture.find(Level::INFO, &["oncebox::audit", "inbox.topic.", "actor=ann", "reason=moving"]);
        let paused = ["paused=\"receiving\"", "paused=\"both\"", "paused=\"nothing\""];
        assert_eq!(lines.len(), 3, "{lines:?}");
        for (line, paused) in lines.iter().zip(paused) {
            assert!(line.contains(paused), "{line}");
        }
        assert_eq!(capture.find(Level::INFO, &["oncebox::audit", "actor=bob"]), [""; 0]);
    });
}

/// Each of two callers pauses another part, at the same time.
#[test]
fn concurrent_changes_of_a_topic_are_all_applied() {
    on_every_store(async |fixture| {
        let operator = fixture.oncebox.operator("ann");
        for round in 0..20 {
            let topic = format!("t{round}");
            let (first, second) = tokio::join!(
                operator.pause(&topic, Pause::Sending),
                operator.pause(&topic, Pause::Receiving)
            );
            first.unwrap();
            second.unwrap();
            let paused = operator.paused().await.unwrap();
            let paused = paused.iter().find(|paused| paused.topic.as_str() == topic).unwrap();
            assert_eq!(paused.pause, Pause::Both);
            let (first, second) = tokio::join!(
                operator.resume(&topic, Pause::Sending),
                operator.resume(&topic, Pause::Receiving)
            );
            first.unwrap();
            second.unwrap();
            assert_eq!(operator.paused().await.unwrap(), []);
        }
    });
}

/// Two handles on one database, like two processes. The second has an old copy of the paused topics.
#[tokio::test(crate = "crate::timed")]
async fn another_process_sees_a_pause_within_a_second() {
    let [first, second] = fixture::two_on_postgres().await;
    enqueue(&second, "t", "before").await.unwrap();
    first.operator("ann").pause("t", Pause::Both).await.unwrap();
    sleep(SEEN_WITHIN).await;
    assert!(is_paused(&enqueue(&second, "t", "1").await.unwrap_err()));
    assert_eq!(handle(&second, &["t"]).await, 0);
    first.operator("ann").resume("t", Pause::Both).await.unwrap();
    sleep(SEEN_WITHIN).await;
    enqueue(&second, "t", "1").await.unwrap();
    assert_eq!(handle(&second, &["t"]).await, 2);
}

/// The worker of the second process would not look for messages for ten minutes.
#[tokio::test(crate = "crate::timed")]
async fn an_idle_worker_of_another_process_continues_when_a_topic_is_resumed() {
    let [first, second] = fixture::two_on_postgres().await;
    first.operator("ann").pause("t", Pause::Receiving).await.unwrap();
    enqueue(&first, "t", "1").await.unwrap();
    let handled = Arc::new(AtomicUsize::new(0));
    let count = handled.clone();
    let long = Duration::from_secs(600);
    let worker = Worker::new(&second).poll_interval(long, long).on("t", move || {
        count.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let worker = worker.start().unwrap();
    sleep(SEEN_WITHIN).await;
    assert_eq!(handled.load(Ordering::Relaxed), 0);
    first.operator("ann").resume("t", Pause::Receiving).await.unwrap();
    until("the message is handled", async || handled.load(Ordering::Relaxed) == 1).await;
    worker.stop().await.unwrap();
}

#[tokio::test(crate = "crate::timed")]
async fn a_pause_survives_a_restart() {
    let directory = Directory::new();
    let url = format!("embedded:{}", directory.0.display());
    let oncebox = Oncebox::open(&url).await.unwrap();
    let paused = oncebox.operator("ann").because("moving").pause("t", Pause::Both).await.unwrap();
    oncebox.close().await.unwrap();
    drop(oncebox);
    let oncebox = Oncebox::open(&url).await.unwrap();
    assert!(is_paused(&enqueue(&oncebox, "t", "1").await.unwrap_err()));
    assert_eq!(oncebox.operator("ann").paused().await.unwrap(), [paused]);
}

/// An old copy is used while it is young; after that, calls fail rather than ignore a pause.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn without_a_recent_copy_calls_fail() {
    let fixture = Paused::new();
    fixture.enqueue("t", "1").await;
    for _ in 0..2 {
        fixture.faults.next_of(Operation::Records, InjectedFault::FailBefore);
    }
    sleep(Duration::from_millis(800)).await;
    fixture.enqueue("t", "2").await;
    sleep(Duration::from_millis(200)).await;
    let error = enqueue(&fixture.oncebox, "t", "3").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    fixture.enqueue("t", "3").await;
    assert_eq!(handle(&fixture.oncebox, &["t"]).await, 3);
}

/// An acknowledgement must not wait for anything that only claims need.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn settlements_do_not_depend_on_pauses() {
    let fixture = Paused::new();
    let mailbox = fixture.oncebox.mailbox(MailboxSettings::default()).unwrap();
    for id in ["1", "2"] {
        mailbox.send(OutgoingMessage::new("t", id)).await.unwrap();
    }
    let request = || Receive::new("t").messages(1);
    let held = mailbox.receive(request()).await.unwrap().envelopes;
    sleep(SEEN_WITHIN).await;
    fixture.faults.next_of(Operation::Records, InjectedFault::FailBefore);
    let ack = || vec![Settle::ack(held[0].receipt)];
    let error = mailbox.work(ack(), request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing is claimed without knowing the pauses");
    assert_eq!(mailbox.counts("t", None).await.unwrap().leased, 0, "the message was acknowledged");
    let (settled, received) = mailbox.work(ack(), request()).await.unwrap();
    assert_eq!(settled, [SettleOutcome::Ok]);
    assert_eq!(received.envelopes[0].idem_key, "2");
}

#[test]
fn a_topic_whose_messages_die_is_paused() {
    on_every_store_with(
        |builder| builder.pause_after_deaths(2),
        async |fixture| {
            let (capture, _guard) = Capture::start();
            for id in ["1", "2", "3", "4"] {
                fixture.enqueue("t", id).await;
            }
            let (operator, queue) = (fixture.oncebox.operator("ann"), fixture.oncebox.queue());
            let owner = queue.new_owner();
            queue.claim(owner, Duration::from_secs(600), 3).await.unwrap();
            for (id, paused) in [("1", 0), ("2", 0), ("3", 1)] {
                queue.fail(owner, &[key(id)], "no").await.unwrap();
                fixture.oncebox.maintenance().run_once().await.unwrap();
                assert_eq!(operator.paused().await.unwrap().len(), paused, "after {id}");
            }
            assert_eq!(handle(&fixture.oncebox, &["t"]).await, 0);
            let [paused] = &operator.paused().await.unwrap()[..] else { panic!("one topic is paused") };
            assert_eq!((paused.topic.as_str(), paused.pause), ("t", Pause::Receiving));
            assert_eq!(paused.reason, "3 messages died within a minute; the limit is 2");
            assert_eq!(capture.find(Level::WARN, &["paused the delivery of a topic", "topic=t"]).len(), 1);
            assert_eq!(capture.find(Level::INFO, &["inbox.topic.paused", "actor=\"oncebox\""]).len(), 1);
            fixture.enqueue("u", "other").await;
            assert_eq!(handle(&fixture.oncebox, &["u"]).await, 1);
            enqueue(&fixture.oncebox, "t", "5").await.unwrap();
            operator.resume("t", Pause::Both).await.unwrap();
            assert_eq!(handle(&fixture.oncebox, &["t"]).await, 2);
        },
    );
}

#[test]
fn a_mailbox_topic_whose_messages_die_is_paused() {
    on_every_store(async |fixture| {
        let mut settings = MailboxSettings::default();
        settings.topic.dlq_pause_per_minute = 1;
        settings.topic.attempts_max = 1;
        let mailbox = fixture.oncebox.mailbox(settings).unwrap();
        for id in ["1", "2", "3"] {
            mailbox.send(OutgoingMessage::new("t", id)).await.unwrap();
        }
        for _ in 0..2 {
            let [envelope] = &mailbox.receive(Receive::new("t").messages(1)).await.unwrap().envelopes[..]
            else {
                panic!("three messages were sent")
            };
            mailbox.nack(envelope.receipt, None).await.unwrap();
            fixture.oncebox.maintenance().run_once().await.unwrap();
        }
        assert!(mailbox.receive(Receive::new("t")).await.unwrap().is_empty());
        assert_eq!(mailbox.operator("ann").paused().await.unwrap()[0].pause, Pause::Receiving);
    });
}
