//! Dropped callers: they do not affect other callers.

use std::task::Poll;

use oncebox_core::{Accepted, ErrorKind};
use tokio::runtime::{Builder, Runtime};

use super::harness::{Call, Harness, idle, numbers, poll};
use super::mock_store::Reply;

#[tokio::test(crate = "crate::timed")]
async fn a_call_dropped_while_it_is_queued_does_not_happen() {
    let harness = Harness::busy().await;
    let [first, second, third] = [harness.accept([3]), harness.accept([4]), harness.accept([5])];
    drop(second);
    harness.free([0]).await;
    assert_eq!(harness.later_calls().await, [[3, 5]]);
    drop(first);
    harness.free([10]).await;
    assert_eq!(numbers(&third.await.unwrap()), [5]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_call_dropped_while_it_is_queued_frees_its_keys() {
    let harness = Harness::new();
    tokio::spawn(harness.accept_later([1]));
    harness.inner.call(0).await;
    // Key 2 is only needed by the call that also waits for key 1; a slot is free all the time.
    let blocked = harness.accept([1, 2]);
    let (behind, last) = (harness.accept([2]), harness.accept([1]));
    assert_eq!(harness.inner.calls().await.len(), 1);
    drop(blocked);
    assert_eq!(harness.inner.call(1).await, [2]);
    harness.free([1]).await;
    assert_eq!(numbers(&behind.await.unwrap()), [2]);
    harness.free([0]).await;
    assert_eq!(harness.inner.call(2).await, [1]);
    harness.free([2]).await;
    assert_eq!(numbers(&last.await.unwrap()), [1]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_batch_continues_without_dropped_callers_and_holds_their_keys_until_it_ends() {
    let harness = Harness::busy().await;
    let [first, second] = [harness.accept([3]), harness.accept([4])];
    harness.free([0, 1]).await;
    drop(first);
    let next = harness.accept([3]);
    assert_eq!(harness.later_calls().await, [[3, 4]]);
    harness.free([10]).await;
    assert_eq!(numbers(&second.await.unwrap()), [4]);
    assert_eq!(harness.later_calls().await[1..], [[3]]);
    harness.free([11]).await;
    assert_eq!(numbers(&next.await.unwrap()), [3]);
    assert_eq!(harness.inner.cancelled(), 0);
}

#[tokio::test(crate = "crate::timed")]
async fn a_batch_whose_callers_were_all_dropped_ends_and_frees_its_slot() {
    let harness = Harness::busy().await;
    drop({
        let batch = [harness.accept([3]), harness.accept([4])];
        harness.free([0]).await;
        batch
    });
    let waiting = harness.accept([5]);
    harness.free([10]).await;
    assert_eq!(harness.later_calls().await, [vec![3, 4], vec![5]]);
    assert_eq!(harness.inner.cancelled(), 0);
    harness.free([11]).await;
    assert_eq!(numbers(&waiting.await.unwrap()), [5]);
}

/// The batch has no caller left that could start the waiting calls.
#[tokio::test(crate = "crate::timed")]
async fn a_batch_whose_callers_were_all_dropped_starts_all_waiting_calls() {
    let harness = Harness::busy().await;
    let batch = [harness.accept([3]), harness.accept([4])];
    harness.free([0, 1]).await;
    drop(batch);
    let _too_many_for_one_batch =
        [harness.accept((3..4).chain(10_000..16_000)), harness.accept((4..5).chain(20_000..26_000))];
    harness.free([10]).await;
    let sizes: Vec<_> = harness.later_calls().await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 6_001, 6_001]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_batch_without_callers_that_panics_wakes_waiting_calls() {
    let harness = Harness::busy().await;
    let batch = harness.accept([3]);
    harness.free([0]).await;
    drop(batch);
    tokio::spawn(harness.accept_later([5]));
    assert_eq!(harness.later_calls().await, [[3]]);
    harness.inner.reply(10, Reply::Panic);
    assert_eq!(harness.later_calls().await, [[3], [5]]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_direct_call_ends_with_its_caller_and_queued_calls_start() {
    let harness = Harness::new();
    let [alone, other] = [harness.accept([1]), harness.accept([2])];
    idle().await;
    let [same_key, another] = [harness.accept([1]), harness.accept([3])];
    drop(alone);
    assert_eq!(harness.inner.cancelled(), 1);
    assert_eq!(harness.inner.call(2).await, [1, 3]);
    harness.inner.answer_all();
    assert_eq!(numbers(&same_key.await.unwrap()), [1]);
    assert_eq!(numbers(&another.await.unwrap()), [3]);
    assert_eq!(numbers(&other.await.unwrap()), [2]);
}

/// Six calls, some with common keys; one of them is dropped after a number of steps. All others get their own outcomes,
/// and then every slot and key is free.
#[tokio::test(crate = "crate::timed")]
async fn a_caller_dropped_at_any_step_does_not_affect_the_others() {
    const ITEMS: [&[u64]; 6] = [&[1], &[2], &[3], &[3, 4], &[5], &[4]];
    for (victim, dropped_at) in (0..ITEMS.len()).flat_map(|victim| (0..14).map(move |at| (victim, at))) {
        let harness = Harness::new();
        let mut calls = ITEMS.map(|items| Some(harness.accept(items.iter().copied())));
        // At even steps a store call is answered, at odd steps callers are polled.
        for step in 0..14 {
            if step == dropped_at {
                calls[victim] = None;
                idle().await;
            }
            if step % 2 == 0 {
                harness.inner.answer_oldest();
            } else {
                poll_all(&mut calls, &ITEMS);
            }
            idle().await;
        }
        assert!(calls.iter().all(Option::is_none), "a caller still waits: {victim} {dropped_at}");
        let before = harness.inner.calls().await.len();
        for items in [[1, 2, 3], [4, 5, 6]] {
            tokio::spawn(harness.accept_later(items));
            idle().await;
        }
        assert_eq!(harness.inner.calls().await[before..], [[1, 2, 3], [4, 5, 6]], "{victim} {dropped_at}");
    }
}

/// Polls every caller; answered callers must have their own outcomes.
fn poll_all(calls: &mut [Option<Call<Vec<Accepted>>>], items: &[&[u64]]) {
    for (call, items) in calls.iter_mut().zip(items) {
        let Some(Poll::Ready(outcomes)) = call.as_mut().map(poll) else { continue };
        assert_eq!(numbers(&outcomes.unwrap()), *items);
        *call = None;
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// A direct call may be dropped outside of a runtime.
#[test]
fn a_slot_freed_outside_of_a_runtime_is_used() {
    let runtime = runtime();
    let harness = Harness::new();
    let alone = harness.accept([1]);
    let _in_batch = runtime.spawn(harness.accept_later([2]));
    let waiting = runtime.spawn(harness.accept_later([1]));
    runtime.block_on(harness.inner.call(1));
    drop(alone);
    runtime.block_on(async {
        assert_eq!(harness.inner.call(2).await, [1]);
        harness.free([2]).await;
        assert_eq!(numbers(&waiting.await.unwrap().unwrap()), [1]);
        // The dispatcher waits for nothing else, and is woken from another thread.
        let waiting = [tokio::spawn(harness.accept_later([2])), tokio::spawn(harness.accept_later([3]))];
        assert_eq!(harness.inner.call(3).await, [3]);
        let gone = harness.accept([3, 4]);
        let behind = tokio::spawn(harness.accept_later([4]));
        idle().await;
        std::thread::spawn(move || drop(gone)).join().unwrap();
        harness.free([1]).await;
        assert_eq!(harness.inner.call(4).await, [2, 4]);
        harness.inner.answer_all();
        for (call, item) in waiting.into_iter().chain([behind]).zip([2, 3, 4]) {
            assert_eq!(numbers(&call.await.unwrap().unwrap()), [item]);
        }
    });
}

/// A runtime shuts down, and with it the dispatcher and a batch, whose callers run on another runtime. What was in
/// flight has failed, what waited goes on there, and a direct call still holds its key and its slot.
#[test]
fn shutting_down_a_runtime_leaves_no_caller_of_another_runtime_waiting() {
    let (short, long) = (runtime(), runtime());
    let harness = Harness::new();
    let direct = harness.accept([1]);
    let first = short.spawn(harness.accept_later([2]));
    short.block_on(harness.inner.call(1));
    let in_batch = long.spawn(harness.accept_later([3]));
    long.block_on(idle());
    harness.inner.answer(1);
    short.block_on(async {
        assert_eq!(numbers(&first.await.unwrap().unwrap()), [2]);
        assert_eq!(harness.inner.call(2).await, [3]);
    });
    let behind = [3, 1].map(|item| long.spawn(harness.accept_later([item])));
    long.block_on(idle());
    drop(short);
    long.block_on(async {
        assert_eq!(in_batch.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(harness.inner.call(3).await, [3]);
        harness.free([3]).await;
        assert_eq!(harness.inner.calls().await.len(), 4, "the direct call is still in flight");
        harness.free([0]).await;
        drop(direct);
        assert_eq!(harness.inner.call(4).await, [1]);
        harness.free([4]).await;
        for (call, item) in behind.into_iter().zip([3, 1]) {
            assert_eq!(numbers(&call.await.unwrap().unwrap()), [item]);
        }
    });
}

/// The runtime shuts down before the dispatcher has seen the call.
#[test]
fn a_call_that_was_not_in_flight_moves_to_the_runtime_of_its_caller() {
    let (short, long) = (runtime(), runtime());
    let harness = Harness::new();
    let direct = harness.accept([1]);
    let mut moved = {
        let _entered = short.enter();
        harness.accept([2])
    };
    drop(short);
    long.block_on(async {
        assert!(poll(&mut moved).is_pending());
        assert_eq!(harness.inner.call(1).await, [2]);
        harness.free([1]).await;
        assert_eq!(numbers(&moved.await.unwrap()), [2]);
        harness.free([0]).await;
        assert_eq!(numbers(&direct.await.unwrap()), [1]);
    });
}

/// The dispatcher cannot be started.
#[test]
fn a_call_on_a_runtime_that_is_shut_down_fails() {
    let short = runtime();
    let handle = short.handle().clone();
    drop(short);
    let harness = Harness::new();
    let _direct = harness.accept([1]);
    let _entered = handle.enter();
    let Poll::Ready(Err(error)) = poll(&mut harness.accept_later([2])) else { panic!("it cannot wait") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
