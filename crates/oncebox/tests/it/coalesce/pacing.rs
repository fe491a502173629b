//! What a batch waits for before it starts, and for how long.

use std::time::Duration;

use tokio::time::sleep;

use super::harness::{Harness, idle, numbers};
use super::items::settlement;

/// Calls 0 and 1 use both slots; two callers accept in one batch, call 2, and then settle.
async fn two_callers() -> Harness {
    let harness = Harness::new();
    for item in [8, 9] {
        tokio::spawn(harness.accept_later([item]));
    }
    idle().await;
    for item in [1, 2] {
        let (accept, settle) =
            (harness.accept_later([item]), harness.work_later(vec![settlement(item)], vec![]));
        tokio::spawn(async move {
            accept.await.unwrap();
            settle.await.unwrap();
        });
    }
    idle().await;
    harness.free([0]).await;
    assert_eq!(harness.inner.calls().await, [vec![8], vec![9], vec![1, 2]]);
    harness
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn callers_answered_together_are_batched_together_even_if_slots_are_free() {
    let harness = two_callers().await;
    harness.free([2]).await;
    assert_eq!(harness.inner.calls().await[3..], [[1, 2]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_batch_waits_only_briefly_for_expected_callers() {
    let harness = Harness::busy().await;
    let _callers = [harness.accept([3]), harness.accept([4])];
    harness.free([0]).await;
    harness.free([10]).await;
    tokio::spawn(harness.accept_later([5]));
    assert_eq!(harness.later_calls().await, [vec![3, 4], vec![5]]);
}

/// A call with three items is in flight; a call of another operation with one item arrives.
async fn large_and_small_call() -> Harness {
    let harness = Harness::new();
    tokio::spawn(harness.accept_later([1, 2, 3]));
    idle().await;
    tokio::spawn(harness.work_later(vec![settlement(4)], vec![]));
    assert_eq!(harness.inner.calls().await, [[1, 2, 3]]);
    harness
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_smaller_batch_waits_for_a_larger_one_and_collects_new_calls() {
    let harness = large_and_small_call().await;
    tokio::spawn(harness.work_later(vec![settlement(5)], vec![]));
    idle().await;
    harness.free([0]).await;
    assert_eq!(harness.inner.calls().await[1..], [[4, 5]]);
}

/// A caller may not poll its call for a long time.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_caller_that_is_not_polled_does_not_block_its_batch() {
    let harness = Harness::new();
    tokio::spawn(harness.accept_later([1, 2, 3]));
    idle().await;
    let _not_polled_again = harness.accept([4]);
    let other = tokio::spawn(harness.accept_later([5]));
    idle().await;
    harness.free([0]).await;
    assert_eq!(harness.inner.calls().await[1..], [[4, 5]]);
    harness.free([1]).await;
    assert_eq!(numbers(&other.await.unwrap().unwrap()), [5]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_smaller_batch_waits_only_briefly_for_a_larger_one() {
    let harness = large_and_small_call().await;
    sleep(Duration::from_millis(4)).await;
    assert_eq!(harness.inner.calls().await.len(), 1);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(harness.inner.calls().await[1..], [[4]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn equal_batches_do_not_wait_and_heartbeats_never_wait() {
    let harness = large_and_small_call().await;
    tokio::spawn(harness.observe_later([6, 7, 8]));
    assert_eq!(harness.inner.calls().await[1..], [[6, 7, 8]]);
    tokio::spawn(harness.extend_later([9]));
    assert_eq!(harness.inner.calls().await[2..], [[9]]);
}
