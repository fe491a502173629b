//! Claiming and settling: I-T1 to I-T16.

use std::time::Duration;

use oncebox::{
    ErrorKind, Message, MessageState, Oncebox, WorkQueue,
    message::{DeadReason, Key},
    operator::Operated,
    queue::{Owner, Settled},
};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, key, on_every_store};

const LEASE: Duration = Duration::from_secs(30);

/// The ids of the messages that an owner claims.
async fn claimed(queue: &WorkQueue, owner: Owner) -> Vec<String> {
    let deliveries = queue.claim(owner, LEASE, 10).await.unwrap();
    deliveries.iter().map(|delivery| delivery.key.id.to_string()).collect()
}

/// Enqueues and claims message `1`.
async fn held(fixture: &Fixture) -> (WorkQueue, Owner) {
    fixture.enqueue("t", "1").await;
    let queue = fixture.oncebox.queue();
    let owner = queue.new_owner();
    assert_eq!(claimed(&queue, owner).await, ["1"]);
    (queue, owner)
}

/// Replays I-T1.
#[test]
fn i_t1_a_claim_on_an_empty_inbox_gets_nothing() {
    on_every_store(async |fixture| {
        let queue = fixture.oncebox.queue();
        assert_eq!(queue.claim(queue.new_owner(), LEASE, 10).await.unwrap(), []);
    });
}

/// Replays I-T2.
#[test]
fn i_t2_a_claim_gets_enqueued_messages() {
    on_every_store(async |fixture| {
        held(&fixture).await;
    });
}

/// Replays I-T3.
#[test]
fn i_t3_a_message_that_is_due_later_is_not_claimed() {
    on_every_store(async |fixture| {
        let later = Message::new("t", "test", "1").due_in(Duration::from_secs(600));
        fixture.oncebox.inbox().enqueue(later).await.unwrap();
        let queue = fixture.oncebox.queue();
        assert!(claimed(&queue, queue.new_owner()).await.is_empty());
    });
}

/// Replays I-T4.
#[test]
fn i_t4_an_acknowledged_message_is_not_claimed_again() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        queue.ack(owner, &[key("1")]).await.unwrap();
        fixture.advance(LEASE);
        assert!(claimed(&queue, owner).await.is_empty());
    });
}

/// A delay of zero is rejected; an untried message is released and claimable at once.
/// Replays I-T5.
#[test]
fn i_t5_a_released_message_is_claimable_at_once() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        let refused = queue.abandon(owner, &[key("1")], None, Some(Duration::ZERO)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(queue.release(owner, &[key("1")]).await.unwrap(), [Settled::Released]);
        assert_eq!(claimed(&queue, owner).await, ["1"]);
    });
}

/// Replays I-T6.
#[test]
fn i_t6_a_failed_message_is_not_claimed_again() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        queue.fail(owner, &[key("1")], "no").await.unwrap();
        fixture.advance(LEASE);
        assert!(claimed(&queue, owner).await.is_empty());
    });
}

/// Replays I-T7.
#[test]
fn i_t7_a_message_is_read_as_it_was_enqueued() {
    on_every_store(async |fixture| {
        let message = Message::new("order.placed", "shop", "1").text("payload");
        fixture.oncebox.inbox().enqueue(message).await.unwrap();
        let key = Key::inbox("shop", "1").unwrap();
        let found = fixture.oncebox.queue().get(&key).await.unwrap().unwrap();
        let content = found.content.unwrap();
        assert_eq!((found.key, content.topic.as_str()), (key, "order.placed"));
        assert_eq!(content.payload.as_bytes(), b"payload");
    });
}

/// An operator redrives it, and the audit log names the operator.
/// Replays I-T8.
#[test]
fn i_t8_a_dead_message_is_redriven_and_claimable() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        queue.fail(owner, &[key("1")], "no").await.unwrap();
        let redriven = fixture.oncebox.operator("ann").redrive(key("1")).await.unwrap();
        assert!(matches!(redriven, Operated::Changed(_)));
        assert_eq!(claimed(&queue, owner).await, ["1"]);
    });
}

/// Replays I-T9.
#[test]
fn i_t9_a_claim_marks_processing_and_owner() {
    on_every_store(async |fixture| {
        let (_, owner) = held(&fixture).await;
        let found = fixture.show("1").await;
        assert_eq!(found.state, MessageState::Processing);
        assert_eq!(found.lease().map(|lease| lease.owner), Some(owner));
    });
}

/// Replays I-T10.
#[test]
fn i_t10_one_of_two_concurrent_claims_gets_the_message() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let mut claimers = JoinSet::new();
        for _ in 0..2 {
            let queue = Oncebox::builder().on(fixture.store.clone()).unwrap().queue();
            claimers.spawn(async move { claimed(&queue, queue.new_owner()).await });
        }
        assert_eq!(claimers.join_all().await.concat(), ["1"]);
    });
}

/// Replays I-T11.
#[test]
fn i_t11_an_acknowledgement_sets_done_and_the_time_and_clears_the_owner() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        fixture.advance(Duration::from_secs(3));
        assert_eq!(queue.ack(owner, &[key("1")]).await.unwrap(), [Settled::Done]);
        let done = fixture.show("1").await;
        assert_eq!((done.state, done.lease()), (MessageState::Done, None));
        assert_eq!(done.finished_at, Some(done.accepted_at.after(Duration::from_secs(3))));
    });
}

/// It stays Processing: Seen is the state of messages that were never enqueued.
/// Replays I-T12.
#[test]
fn i_t12_an_abandoned_message_has_no_owner_and_waits() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        let settled = queue.abandon(owner, &[key("1")], Some("busy"), None).await.unwrap();
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.lease()), (MessageState::Processing, None));
        assert_eq!(settled, [Settled::Retrying { at: found.retry_at.unwrap() }]);
    });
}

/// Replays I-T13.
#[test]
fn i_t13_a_failed_message_is_dead_and_has_no_owner() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        let settled = queue.fail(owner, &[key("1")], "no").await.unwrap();
        assert_eq!(settled, [Settled::Dead { reason: DeadReason::Failed }]);
        let found = fixture.show("1").await;
        assert_eq!((found.state, found.lease()), (MessageState::Dead, None));
    });
}

/// The other owner gets `LeaseLost`.
/// Replays I-T14.
#[test]
fn i_t14_an_acknowledgement_by_another_owner_changes_nothing() {
    on_every_store(async |fixture| {
        let (queue, owner) = held(&fixture).await;
        let before = fixture.show("1").await;
        let other = Oncebox::builder().on(fixture.store.clone()).unwrap().queue();
        for (queue, stranger) in [(&queue, queue.new_owner()), (&other, owner)] {
            assert_eq!(queue.ack(stranger, &[key("1")]).await.unwrap(), [Settled::LeaseLost]);
            assert_eq!(fixture.show("1").await, before);
        }
        assert_eq!(before.lease().map(|lease| lease.owner), Some(owner));
    });
}

/// Attempts are deliveries that failed.
/// Replays I-T15.
#[test]
fn i_t15_a_fresh_message_has_no_attempt() {
    on_every_store(async |fixture| {
        fixture.enqueue("t", "1").await;
        let found = fixture.show("1").await;
        assert_eq!((found.attempts, found.deliveries), (0, 0));
        let (state, last_error, finished_at) = (found.state, found.last_error, found.finished_at);
        assert_eq!((state, last_error, finished_at), (MessageState::Processing, None, None));
        assert_eq!(found.last_seen_at, found.accepted_at);
    });
}

/// The result is `None`, not an error.
/// Replays I-T16.
#[test]
fn i_t16_an_unknown_message_is_not_found() {
    on_every_store(async |fixture| {
        assert_eq!(fixture.oncebox.queue().get(&key("unknown")).await.unwrap(), None);
    });
}
