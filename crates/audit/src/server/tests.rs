//! Made-up responses: wrong ones must be rejected, correct ones accepted.

use std::collections::HashSet;

use super::{
    LeaseEnd, LedgerLease, ObservedBegin, ObservedDelivery, ObservedOp, ObservedOutcome, ServerHistory,
    payload,
};
use crate::Result;

fn delivery(attempt: u32, until: u64) -> ObservedDelivery {
    let (key, msg_id) = ("k".to_owned(), "m".to_owned());
    ObservedDelivery { key, msg_id, receipt: format!("r{attempt}"), attempt, until }
}

fn deliver(history: &mut ServerHistory, delivery: &ObservedDelivery, now: u64) -> Result<()> {
    history.messages.after_receive(delivery, payload(&delivery.key).as_bytes(), now)
}

fn settle(
    history: &mut ServerHistory,
    delivery: &ObservedDelivery,
    op: ObservedOp,
    outcome: ObservedOutcome,
    now: u64,
) -> Result<()> {
    history.messages.before_settle(delivery, op);
    history.messages.after_settle(delivery, op, outcome, now)
}

/// A history in which `k` was sent and answered with message `m`.
fn with_message() -> ServerHistory {
    let mut history = ServerHistory::default();
    let known = history.messages.before_send("k", None);
    history.messages.after_send("k", known, "m", false).unwrap();
    history
}

#[test]
fn answered_messages_must_be_acked_or_dead_in_the_end() {
    let mut history = with_message();
    assert!(history.messages.check_complete(&HashSet::new()).is_err(), "lost");
    assert_eq!(history.messages.check_complete(&HashSet::from(["m".to_owned()])), Ok(0), "a dead letter");
    history.messages.before_send("unanswered", None);
    let first = delivery(1, 100);
    deliver(&mut history, &first, 50).unwrap();
    assert!(history.messages.check_complete(&HashSet::new()).is_err(), "lost after a delivery");
    history.messages.before_settle(&first, ObservedOp::Ack);
    assert_eq!(history.messages.check_complete(&HashSet::new()), Ok(1), "the ack may have been carried out");
    history.messages.after_settle(&first, ObservedOp::Ack, ObservedOutcome::Applied, 60).unwrap();
    assert_eq!(history.messages.check_complete(&HashSet::new()), Ok(0));
    assert!(history.messages.check_complete(&HashSet::from(["m".to_owned()])).is_err(), "acked and dead");
}

#[test]
fn a_repeat_is_a_duplicate_of_the_first() {
    let mut history = with_message();
    assert!(history.messages.before_send("k", None));
    assert!(history.messages.after_send("k", true, "m", false).is_err(), "accepted as new again");
    assert!(history.messages.after_send("k", true, "other", true).is_err(), "another message");
    history.messages.after_send("k", true, "m", true).unwrap();
    let known = history.messages.before_send("new", None);
    assert!(history.messages.after_send("new", known, "n", true).is_err(), "a duplicate of nothing");
}

#[test]
fn one_of_two_concurrent_sends_is_accepted() {
    let mut history = ServerHistory::default();
    let known = [(); 2].map(|()| history.messages.before_send("k", None));
    assert_eq!(known, [false, false]);
    history.messages.after_send("k", false, "m", true).unwrap();
    history.messages.after_send("k", false, "m", false).unwrap();
    assert!(history.messages.after_send("k", false, "m", false).is_err(), "accepted as new twice");
}

#[test]
fn no_delivery_follows_an_ack() {
    let mut history = with_message();
    deliver(&mut history, &delivery(2, 100), 50).unwrap();
    settle(&mut history, &delivery(2, 100), ObservedOp::Ack, ObservedOutcome::Applied, 60).unwrap();
    deliver(&mut history, &delivery(1, 55), 61).unwrap();
    assert!(deliver(&mut history, &delivery(3, 200), 110).is_err());
}

#[test]
fn a_message_is_not_delivered_again_while_it_is_held() {
    let mut history = with_message();
    deliver(&mut history, &delivery(1, 100), 50).unwrap();
    assert!(deliver(&mut history, &delivery(2, 200), 99).is_err(), "both are current");
    deliver(&mut history, &delivery(2, 200), 100).unwrap();
    assert!(
        settle(&mut history, &delivery(1, 100), ObservedOp::Ack, ObservedOutcome::Applied, 101).is_err(),
        "too late"
    );
    settle(&mut history, &delivery(1, 100), ObservedOp::Ack, ObservedOutcome::Lost, 101).unwrap();
    assert!(
        settle(&mut history, &delivery(2, 200), ObservedOp::Ack, ObservedOutcome::Lost, 150).is_err(),
        "it is held"
    );
}

#[test]
fn an_extension_holds_until_a_settlement_is_sent() {
    let mut history = with_message();
    let first = delivery(1, 100);
    deliver(&mut history, &first, 50).unwrap();
    settle(&mut history, &first, ObservedOp::Extend, ObservedOutcome::Until(300), 60).unwrap();
    assert!(deliver(&mut history, &delivery(2, 400), 200).is_err());
    history.messages.before_settle(&first, ObservedOp::Nack);
    deliver(&mut history, &delivery(3, 400), 200).unwrap();
}

#[test]
fn after_an_ack_without_a_response_only_an_ack_must_succeed() {
    let mut history = with_message();
    let first = delivery(1, 100);
    deliver(&mut history, &first, 50).unwrap();
    history.messages.before_settle(&first, ObservedOp::Ack);
    settle(&mut history, &first, ObservedOp::Nack, ObservedOutcome::Lost, 60).unwrap();
    settle(&mut history, &first, ObservedOp::Extend, ObservedOutcome::Lost, 60).unwrap();
    assert!(settle(&mut history, &first, ObservedOp::Ack, ObservedOutcome::Lost, 60).is_err());
}

#[test]
fn unexpected_deliveries_are_rejected() {
    let mut history = with_message();
    assert!(history.messages.after_receive(&delivery(1, 100), b"other", 50).is_err(), "another payload");
    let unsent = ObservedDelivery { key: "unsent".to_owned(), ..delivery(1, 100) };
    assert!(deliver(&mut history, &unsent, 50).is_err(), "never sent");
    deliver(&mut history, &delivery(1, 40), 50).unwrap();
    let twin = ObservedDelivery { receipt: "other".to_owned(), ..delivery(1, 40) };
    assert!(deliver(&mut history, &twin, 50).is_err(), "the same number twice");
}

#[test]
fn one_message_of_a_partition_is_held_at_a_time() {
    let mut history = ServerHistory::default();
    for key in ["a", "b"] {
        history.messages.before_send(key, Some("p"));
    }
    let of = |key: &str| ObservedDelivery { key: key.to_owned(), msg_id: key.to_owned(), ..delivery(1, 100) };
    deliver(&mut history, &of("a"), 50).unwrap();
    assert!(deliver(&mut history, &of("b"), 50).is_err());
    history.messages.before_settle(&of("a"), ObservedOp::Ack);
    deliver(&mut history, &of("b"), 50).unwrap();
}

#[test]
fn a_processed_key_stays_processed() {
    let mut history = ServerHistory::default();
    let lease = LedgerLease { key: "k".to_owned(), id: "l".to_owned(), until: 100 };
    let processed = history.keys.before_call("k");
    assert!(
        history.keys.after_begin("k", processed, &ObservedBegin::Processed, 50).is_err(),
        "no client marked it"
    );
    history.keys.after_begin("k", processed, &ObservedBegin::Acquired(lease.clone()), 50).unwrap();
    history.keys.before_finish("k", LeaseEnd::MarkProcessed);
    assert!(history.keys.after_mark(&lease, false, 60).is_err(), "its lease is current");
    history.keys.after_mark(&lease, true, 60).unwrap();
    let processed = history.keys.before_call("k");
    assert!(processed);
    assert!(history.keys.after_begin("k", processed, &ObservedBegin::Busy, 70).is_err());
    assert!(history.keys.after_get("k", processed, "Pending").is_err());
    history.keys.after_get("k", processed, "Processed").unwrap();
}

#[test]
fn a_key_has_one_lease_at_a_time() {
    let mut history = ServerHistory::default();
    let lease = |id: &str, until| {
        ObservedBegin::Acquired(LedgerLease { key: "k".to_owned(), id: id.to_owned(), until })
    };
    history.keys.after_begin("k", false, &lease("one", 100), 50).unwrap();
    assert!(history.keys.after_begin("k", false, &lease("two", 200), 99).is_err(), "the first is current");
    history.keys.after_begin("k", false, &lease("three", 200), 100).unwrap();
    history.keys.before_finish("k", LeaseEnd::Release);
    history.keys.after_begin("k", false, &lease("four", 300), 150).unwrap();
}
