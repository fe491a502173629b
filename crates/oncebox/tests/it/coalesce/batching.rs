//! Which calls are batched together, and which wait for each other.

use std::num::NonZeroUsize;
use std::task::Poll;
use std::time::Duration;

use oncebox::layers::coalesce::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX, CoalesceOptions};
use oncebox_core::{Claim, ErrorKind, NewMessage, Payload, RequestId, Store, Uid};

use tokio::time::sleep;

use super::harness::{Call, Harness, idle, numbers, poll, started};
use super::items::{claim, key, message, settlement};

/// A call that is alone needs no task, no copy and no runtime.
#[test]
fn a_call_that_is_alone_runs_on_its_callers_task() {
    let harness = Harness::new();
    let (store, messages) = (harness.store.clone(), vec![message(1), message(2)]);
    let address = messages.as_ptr().addr();
    let mut call = started(Box::pin(async move { store.accept(&messages).await }));
    assert_eq!(harness.inner.address(), address);
    harness.inner.answer(0);
    let Poll::Ready(Ok(outcomes)) = poll(&mut call) else { panic!("the call was answered") };
    assert_eq!(numbers(&outcomes), [1, 2]);
}

#[tokio::test(crate = "crate::timed")]
async fn queued_calls_are_sent_as_one_batch_when_a_slot_is_free() {
    let harness = Harness::busy().await;
    let waiting = [harness.accept([3]), harness.accept([4, 5]), harness.accept([6])];
    assert_eq!(harness.later_calls().await.len(), 0);
    harness.free([0]).await;
    assert_eq!(harness.later_calls().await, [[3, 4, 5, 6]]);
    // Both slots are in use again.
    let late = [harness.accept([7]), harness.accept([8])];
    assert_eq!(harness.later_calls().await.len(), 1);
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await[1], [7, 8]);
    for (call, expected) in waiting.into_iter().zip([&[3][..], &[4, 5], &[6]]) {
        assert_eq!(numbers(&call.await.unwrap()), expected);
    }
    harness.free([11]).await;
    for (call, expected) in late.into_iter().zip([7, 8]) {
        assert_eq!(numbers(&call.await.unwrap()), [expected]);
    }
}

#[tokio::test(crate = "crate::timed")]
async fn an_answered_caller_can_join_the_next_batch() {
    let harness = Harness::busy().await;
    for item in [3, 4] {
        let (first, next) = (harness.accept_later([item]), harness.accept_later([10 * item]));
        tokio::spawn(async move {
            first.await.unwrap();
            next.await.unwrap();
        });
    }
    idle().await;
    harness.free([0]).await;
    tokio::spawn(harness.accept_later([5]));
    assert_eq!(harness.later_calls().await, [[3, 4]]);
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await[1..], [[5, 30, 40]]);
}

#[tokio::test(crate = "crate::timed")]
async fn two_batches_of_an_operation_are_in_flight_by_default() {
    for batches in 1..4 {
        let mut options = CoalesceOptions::DEFAULT;
        if batches != 2 {
            options.batches_max = NonZeroUsize::new(batches).unwrap();
        }
        let harness = Harness::with(options);
        for item in 1..=5 {
            tokio::spawn(harness.accept_later([item]));
            idle().await;
        }
        assert_eq!(harness.inner.calls().await.len(), batches);
        harness.free([0]).await;
        assert_eq!(harness.inner.calls().await.len(), batches + 1);
        harness.free([batches]).await;
        assert_eq!(harness.inner.calls().await.len(), batches + 1, "no call waits any more");
    }
}

#[tokio::test(crate = "crate::timed")]
async fn batches_follow_each_other_and_all_slots_are_reused() {
    let harness = Harness::new();
    for round in 0..5 {
        for item in 0..10 {
            tokio::spawn(harness.accept_later([round * 10 + item]));
            if item < 2 {
                idle().await;
            }
        }
        let start = 3 * usize::try_from(round).unwrap();
        assert_eq!(harness.inner.calls().await.len(), start + 2);
        harness.free([start, start + 2, start + 1]).await;
    }
}

/// The sizes of the batches of the waiting calls, if both slots become free one after the other. Time is paused, so a
/// smaller batch waits for a larger one without delay.
async fn sizes(harness: &Harness, first: usize) -> Vec<usize> {
    harness.free([first, first + 1]).await;
    sleep(Duration::from_millis(6)).await;
    harness.later_calls().await.iter().map(Vec::len).collect()
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_number_of_items_in_a_batch_is_limited() {
    let most = BATCH_ITEMS_MAX as u64;
    let harness = Harness::busy().await;
    let _waiting = [harness.accept(1_000..1_100), harness.accept(2_000..1_900 + most), harness.accept([3])];
    assert_eq!(sizes(&harness, 0).await, [BATCH_ITEMS_MAX, 1]);
    // A single call with more items is sent alone and not split.
    let harness = Harness::busy().await;
    let _waiting = [harness.accept(1_000..1_001 + most), harness.accept([3]), harness.accept([4])];
    assert_eq!(sizes(&harness, 0).await, [BATCH_ITEMS_MAX + 1, 2]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_payload_size_of_a_batch_is_limited() {
    let of = |item, bytes: u64| {
        let payload = Payload::new(vec![0; usize::try_from(bytes).unwrap()]).unwrap();
        vec![NewMessage::new(message(item).key, message(item).content.topic, payload)]
    };
    let harness = Harness::busy().await;
    let half = BATCH_BYTES_MAX / 2;
    let _waiting = [of(3, half), of(4, half), of(5, 1)].map(|messages| harness.accept_messages(messages));
    assert_eq!(sizes(&harness, 0).await, [2, 1]);
    // A single larger call is sent alone and not split.
    let harness = Harness::busy().await;
    let big = [of(3, half), of(4, half), of(5, 1)].concat();
    let _waiting = [big, of(6, 0), of(7, 0)].map(|messages| harness.accept_messages(messages));
    assert_eq!(sizes(&harness, 0).await, [3, 2]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_number_of_messages_claimed_by_a_batch_is_limited() {
    let harness = Harness::new();
    for item in [1, 2] {
        tokio::spawn(harness.work_later(vec![settlement(item)], vec![]));
    }
    harness.inner.call(1).await;
    let _waiting = [6_000, 4_000, 1].map(|messages| harness.work(vec![], vec![claim(7, messages)]));
    harness.free([0, 1]).await;
    sleep(Duration::from_millis(6)).await;
    let sizes: Vec<_> = harness.inner.calls().await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, 1, 2, 1]);
}

/// Which of these calls have been answered.
fn answered<T, const N: usize>(calls: &mut [Option<Call<T>>; N]) -> [bool; N] {
    calls.each_mut().map(|call| {
        if call.as_mut().is_some_and(|call| poll(call).is_ready()) {
            *call = None;
        }
        call.is_none()
    })
}

#[tokio::test(crate = "crate::timed")]
async fn a_key_is_never_in_two_calls_in_flight_and_its_calls_keep_their_order() {
    let harness = Harness::busy().await;
    let mut waiting = [3, 3, 4, 3].map(|item| Some(harness.accept([item])));
    harness.free([0, 1]).await;
    assert_eq!(harness.later_calls().await, [[3, 4]], "a slot is free, but 3 is in flight");
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await[1..], [[3]]);
    assert_eq!(answered(&mut waiting), [true, false, true, false]);
    harness.free([11]).await;
    assert_eq!(harness.later_calls().await[2..], [[3]]);
    assert_eq!(answered(&mut waiting), [true, true, true, false]);
    harness.free([12]).await;
    assert_eq!(answered(&mut waiting), [true; 4]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_call_waits_for_its_key_even_if_a_slot_is_free_and_other_calls_do_not() {
    let harness = Harness::new();
    tokio::spawn(harness.accept_later([1]));
    harness.inner.call(0).await;
    let _waiting = harness.accept([1]);
    assert_eq!(harness.inner.calls().await, [[1]]);
    tokio::spawn(harness.accept_later([2]));
    assert_eq!(harness.inner.calls().await, [[1], [2]]);
    harness.free([1, 0]).await;
    assert_eq!(harness.inner.calls().await, [[1], [2], [1]]);
}

#[tokio::test(crate = "crate::timed")]
async fn no_call_overtakes_another_that_waits_for_the_same_key() {
    let harness = Harness::new();
    tokio::spawn(harness.accept_later([1]));
    harness.inner.call(0).await;
    // Key 2 is free, but an earlier call still waits for it; key 3 is needed by one call only.
    let mut waiting =
        [harness.accept([1, 2]), harness.accept([2]), harness.accept([3, 2]), harness.accept([1])].map(Some);
    tokio::spawn(harness.accept_later([4]));
    assert_eq!(harness.inner.calls().await, [vec![1], vec![4]]);
    harness.free([1, 0]).await;
    assert_eq!(harness.inner.calls().await[2..], [[1, 2]]);
    harness.free([2]).await;
    assert_eq!(harness.inner.calls().await[3..], [[2, 1]]);
    assert_eq!(answered(&mut waiting), [true, false, false, false]);
    harness.free([3]).await;
    assert_eq!(harness.inner.calls().await[4..], [[3, 2]]);
    harness.free([4]).await;
    assert_eq!(answered(&mut waiting), [true; 4]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_call_can_contain_a_key_twice() {
    let harness = Harness::busy().await;
    let _waiting = [harness.accept([3, 3]), harness.accept([4, 3, 4]), harness.accept([5])];
    harness.free([0]).await;
    assert_eq!(harness.later_calls().await, [[3, 3, 5]]);
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await[1..], [[4, 3, 4]]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_uid_is_never_in_two_calls_in_flight() {
    let harness = Harness::busy().await;
    let with_uid = |item| vec![NewMessage { uid: Some(Uid::from_u128(9)), ..message(item) }];
    let _waiting =
        [with_uid(3), with_uid(4), vec![message(5)]].map(|messages| harness.accept_messages(messages));
    harness.free([0]).await;
    assert_eq!(harness.later_calls().await, [[3, 5]]);
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await[1..], [[4]]);
}

/// Makes a call twice and another call once: only the first and the other one are in the first batch. Uids and request
/// ids conflict like keys.
async fn assert_conflict<T: Send + 'static>(make: impl Fn(&Harness, u64) -> Call<T>, batches: [&[u64]; 2]) {
    let harness = Harness::busy().await;
    for item in [3, 3, 4] {
        tokio::spawn(make(&harness, item));
    }
    assert_eq!(harness.later_calls().await.len(), 0);
    harness.inner.answer_all();
    // Each of the two batches waits for callers that do not come.
    idle().await;
    assert_eq!(harness.later_calls().await, batches);
}

#[tokio::test(crate = "crate::timed")]
async fn no_operation_has_conflicting_calls_in_flight() {
    let batches: [&[u64]; 2] = [&[3, 4], &[3]];
    assert_conflict(|harness, item| harness.accept_later([item]), batches).await;
    assert_conflict(|harness, item| harness.extend_later([item]), batches).await;
    assert_conflict(|harness, item| harness.work_later(vec![settlement(item)], vec![]), batches).await;
    assert_conflict(|harness, item| harness.observe_later([item]), batches).await;
    assert_conflict(|harness, item| harness.begin_later([item]), batches).await;
    let requested = |item: u64| Claim { request: Some(RequestId::from_u128(1)), ..claim(item, 1) };
    assert_conflict(|harness, item| harness.work_later(vec![], vec![requested(item)]), batches).await;
}

#[tokio::test(crate = "crate::timed")]
async fn claims_without_a_request_id_are_batched_even_for_one_owner() {
    let harness = Harness::busy().await;
    for _ in 0..3 {
        tokio::spawn(harness.work_later(vec![], vec![claim(3, 1)]));
    }
    assert_eq!(harness.later_calls().await.len(), 0);
    harness.inner.answer_all();
    assert_eq!(harness.later_calls().await, [[3, 3, 3]]);
}

/// A heartbeat must not wait for a settlement.
#[tokio::test(crate = "crate::timed")]
async fn operations_do_not_wait_for_each_other() {
    let harness = Harness::new();
    let _settling = harness.work(vec![settlement(1)], vec![]);
    let _extending = harness.extend([1]);
    let _accepting = [harness.accept([1]), harness.accept([2]), harness.accept([3])];
    let (_observing, _beginning) = (started(harness.observe_later([1])), started(harness.begin_later([1])));
    assert_eq!(harness.inner.calls().await.len(), 6, "all but the third accept");
}

#[tokio::test(crate = "crate::timed")]
async fn other_operations_pass_through_and_empty_calls_do_not_wait() {
    let harness = Harness::busy().await;
    harness.inner.reject(u64::MAX);
    assert!(harness.store.capabilities().atomic_calls);
    assert_eq!(harness.store.accept(&[]).await.unwrap(), []);
    assert_eq!(harness.store.extend(&[]).await.unwrap(), []);
    assert_eq!(harness.store.work(&[], &[]).await.unwrap(), oncebox_core::Worked::default());
    assert_eq!(harness.store.get(&[key(1).into()]).await.unwrap(), [None]);
    assert_eq!(harness.store.usage().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(harness.later_calls().await.len(), 4);
}
