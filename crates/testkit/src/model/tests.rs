//! Tests of the model itself: a rule that it gets wrong is a rule that no store is checked against.

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Batch, Budget, Claim, DeadReason, Delivery, Divergence, Fence, Hold, Keep, Key,
    LastError, Lease, MessageState, MessageSummary, NewMessage, Operated, Order, Owner, Partition, Payload,
    Settled, Snapshot, Span, Timestamp, Topic, Uid,
};

use super::accept::NO_BOUND;
use super::{Illegal, Model};

const FULL: Accepted = Accepted::Saturated { retry_after: Duration::ZERO, bound: NO_BOUND };

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_000 + millis)
}

fn span(millis: u64) -> Span {
    Span::lease(Duration::from_millis(millis)).unwrap()
}

fn message(uid: u128, payload: &'static str) -> NewMessage {
    let key = Key::inbox("source", format!("id {uid}")).unwrap();
    let mut message = NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(payload).unwrap());
    message.uid = Some(Uid::from_u128(uid));
    message
}

fn partitioned(uid: u128) -> NewMessage {
    let mut message = message(uid, "");
    message.content.partition = Some(Partition::new("p").unwrap());
    message
}

/// A claim of `batch` messages for 10 ms.
fn claim(batch: u32) -> Claim {
    let inbox = message(1, "").key.namespace;
    Claim::new(inbox, Owner::new(1).unwrap(), span(10), Batch::new(batch).unwrap())
}

/// The delivery that a store returns for a message with this fence; the model corrects the rest.
pub(crate) fn delivered(message: Snapshot, fence: u64) -> Option<Delivery> {
    let lease =
        Lease { owner: Owner::new(1).unwrap(), fence: Fence::new(fence).unwrap(), until: Timestamp::EPOCH };
    Some(Delivery {
        uid: message.uid,
        number: message.number,
        key: message.key,
        content: message.content?,
        fingerprint: message.fingerprint?,
        hash: message.hash,
        trace: message.trace,
        accepted_at: message.accepted_at,
        last_seen_at: message.last_seen_at,
        attempts: message.attempts,
        deliveries: message.deliveries,
        last_error: message.last_error,
        lease,
    })
}

fn all_delivered(model: &Model, deliveries: &[(u128, u64)]) -> Vec<Delivery> {
    deliveries.iter().map(|(uid, fence)| delivered(get(model, *uid), *fence).unwrap()).collect()
}

fn deliver(model: &mut Model, batch: u32, deliveries: &[(u128, u64)]) -> Result<Vec<Delivery>, Illegal> {
    let actual = all_delivered(model, deliveries);
    model.claim(&claim(batch), &actual)
}

fn get(model: &Model, uid: u128) -> Snapshot {
    model.clone().get(&Uid::from_u128(uid).into(), None).unwrap().unwrap()
}

#[test]
fn a_lease_that_lapses_at_the_limit_makes_the_message_dead_at_its_end() {
    let mut model = Model::new(at(0));
    let mut limited = message(1, "");
    limited.policy.attempts_max = NonZeroU32::new(2);
    model.accept(&limited, &FULL).unwrap();
    deliver(&mut model, 1, &[(1, 1)]).unwrap();
    model.advance_to(at(10));
    assert_eq!(get(&model, 1).attempts, 1);
    deliver(&mut model, 1, &[(1, 2)]).unwrap();
    model.advance_to(at(19));
    assert_eq!(get(&model, 1).state, MessageState::Processing);
    model.advance_to(at(500));
    let dead = get(&model, 1);
    assert_eq!((dead.dead, dead.finished_at), (Some(DeadReason::Exhausted), Some(at(20))));
}

#[test]
fn expiry_waits_for_the_lease_and_spends_no_attempt() {
    let mut model = Model::new(at(0));
    let mut short_lived = message(1, "");
    short_lived.content.expires = Some(at(5));
    model.accept(&short_lived, &FULL).unwrap();
    deliver(&mut model, 1, &[(1, 1)]).unwrap();
    model.advance_to(at(9));
    assert_eq!(get(&model, 1).state, MessageState::Processing);
    model.advance_to(at(30));
    let dead = get(&model, 1);
    assert_eq!((dead.dead, dead.finished_at, dead.attempts), (Some(DeadReason::Expired), Some(at(10)), 1));

    let mut late = message(2, "");
    late.content.expires = Some(at(7));
    let accepted = model.accept(&late, &FULL).unwrap();
    assert_eq!(accepted.summary().unwrap().state, MessageState::Processing);
    assert_eq!(get(&model, 2).finished_at, Some(at(30)));
}

#[test]
fn in_a_partition_a_retry_blocks_and_a_future_due_time_does_not() {
    let mut model = Model::new(at(0));
    let mut later = partitioned(1);
    later.content.due = Some(at(50));
    for message in [later, partitioned(2), partitioned(3)] {
        model.accept(&message, &FULL).unwrap();
    }
    deliver(&mut model.clone(), 1, &[(3, 1)]).unwrap_err();
    let first = deliver(&mut model, 5, &[(2, 1)]).unwrap();
    deliver(&mut model.clone(), 5, &[]).unwrap();
    let settled = model.settle(&first[0].abandon(span(100), LastError::new("E: no")));
    assert_eq!(settled, Settled::Retrying { at: at(100) });
    deliver(&mut model, 5, &[]).unwrap();
    model.advance_to(at(50));
    deliver(&mut model, 5, &[(1, 2)]).unwrap();
}

#[test]
fn a_lapsed_key_is_taken_over_and_the_older_message_stays() {
    let mut model = Model::new(at(0));
    let mut older = message(1, "");
    older.policy.hold = Hold { window: Duration::from_millis(20), keep: Keep::Window };
    model.accept(&older, &FULL).unwrap();
    let newer = NewMessage { uid: Some(Uid::from_u128(2)), ..older.clone() };
    model.advance_to(at(19));
    let again = model.accept(&newer, &FULL).unwrap();
    assert!(
        matches!(again, Accepted::Duplicate { summary: MessageSummary { uid, .. }, .. } if Some(uid) == older.uid)
    );
    model.advance_to(at(20));
    assert!(matches!(model.accept(&older, &FULL).unwrap(), Accepted::UidTaken(_)));
    assert!(matches!(model.accept(&newer, &FULL).unwrap(), Accepted::New { .. }));
    assert_eq!((get(&model, 1).keyed, get(&model, 2).keyed), (false, true));
    assert_eq!(model.get(&older.key.into(), None).unwrap().map(|found| found.uid), newer.uid);
}

#[test]
fn a_replaced_delivery_is_superseded_and_a_repeat_has_the_same_outcome() {
    let mut model = Model::new(at(0));
    model.accept(&message(1, "old"), &FULL).unwrap();
    let delivery = deliver(&mut model, 1, &[(1, 1)]).unwrap().remove(0);
    let newer = message(1, "new");
    assert_eq!(newer.policy.divergence, Divergence::Replace);
    assert!(matches!(model.accept(&newer, &FULL).unwrap(), Accepted::Replaced(_)));
    assert_eq!(model.settle(&delivery.ack()), Settled::Superseded);
    assert_eq!(model.settle(&delivery.ack()), Settled::Superseded);
    assert_eq!(model.settle(&delivery.release()), Settled::LeaseLost);
    let second = deliver(&mut model, 1, &[(1, 2)]).unwrap().remove(0);
    assert_eq!(second.content.payload.as_bytes(), b"new");
    assert_eq!(model.settle(&delivery.ack()), Settled::LeaseLost);
    assert_eq!(model.settle(&second.ack()), Settled::Done);
    assert_eq!(get(&model, 1).content, None);
}

#[test]
fn illegal_choices_are_reported() {
    let mut model = Model::new(at(0));
    model.accept(&message(1, "abc"), &FULL).unwrap();
    model.accept(&message(2, "abc"), &FULL).unwrap();
    let generated = NewMessage { uid: None, ..message(3, "") };
    let used = model.clone().accept(&message(1, ""), &FULL).unwrap();
    model.clone().accept(&generated, &used).expect_err("the uid is in use");
    deliver(&mut model.clone(), 1, &[(2, 1)]).expect_err("it is not the first of its lane");
    deliver(&mut model.clone(), 2, &[(1, 1)]).expect_err("one more is claimable");
    deliver(&mut model.clone(), 2, &[(1, 1), (2, 1)]).expect_err("the fence is in use");
    let delivery = deliver(&mut model, 1, &[(1, 7)]).unwrap().remove(0);
    model.settle(&delivery.release());
    deliver(&mut model.clone(), 1, &[(1, 7)]).expect_err("the fence was used before");
    let small = Claim { bytes_max: Some(5), ..claim(2) };
    let both = all_delivered(&model, &[(1, 8), (2, 9)]);
    model.clone().claim(&small, &both).expect_err("the second does not fit");
    model.claim(&small, &both[..1]).unwrap();
}

#[test]
fn a_done_message_is_forgotten_after_its_hold_and_ten_minutes() {
    let mut model = Model::new(at(0));
    let mut held = message(1, "");
    held.policy.hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_mins(11)) };
    model.accept(&held, &FULL).unwrap();
    let mark = Order { target: held.key.into(), action: Action::MarkProcessed { hold: held.policy.hold } };
    assert!(matches!(model.operate(&mark, &Operated::Unknown).unwrap(), Operated::Changed(_)));
    assert!(matches!(model.operate(&mark, &Operated::Unknown).unwrap(), Operated::Unchanged(_)));
    let budget = Budget::new(1);
    let end = at(11 * 60_000);
    assert_eq!(model.next_maintenance(&budget), Some(end));
    model.advance_to(at(11 * 60_000 - 1));
    assert_eq!(model.maintain(&budget), 0);
    model.advance_to(end);
    assert_eq!(model.maintain(&budget), 1);
}
