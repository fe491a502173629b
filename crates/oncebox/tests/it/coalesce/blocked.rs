//! Calls that are blocked by a lock: they leave their batch, and other calls continue.

use std::time::Duration;

use oncebox::layers::coalesce::BLOCKED_CALLS_MAX;
use oncebox_core::{Accepted, Error, ErrorKind, Store};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::harness::{Call, Harness, idle, numbers};
use super::items::{message, observation, settlement};
use super::mock_store::{Mode, Reply, blocked_error};

/// Items from this one on are blocked.
const BLOCKED: u64 = 1_000_000;

type Accepting = JoinHandle<Result<Vec<Accepted>, Error>>;

/// Starts a call on its own task.
async fn accepting(harness: &Harness, item: u64) -> Accepting {
    let call = tokio::spawn(harness.accept_later([item]));
    idle().await;
    call
}

/// The result of a call. Time is paused, so a call without an answer fails at once.
async fn result<T>(call: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), call).await.expect("the call is answered")
}

async fn outcome(call: Accepting) -> Vec<u64> {
    numbers(&result(call).await.unwrap().unwrap())
}

/// Calls 1 and 2 use both slots; three calls wait, and are sent as one batch when 1 is answered.
async fn batched() -> (Harness, [Call<Vec<Accepted>>; 3]) {
    let harness = Harness::with_blocking_store();
    for item in [1, 2] {
        accepting(&harness, item).await;
    }
    let waiting = [harness.accept([3]), harness.accept([4, 5]), harness.accept([6])];
    harness.free([0]).await;
    assert_eq!(harness.inner.calls().await[2..], [[3, 4, 5, 6]]);
    (harness, waiting)
}

/// The batch is blocked, and halving it finds the blocked call.
async fn block_the_second(harness: &Harness) {
    harness.inner.reply(2, Reply::Fail(blocked_error()));
    result(harness.inner.call(3)).await;
    harness.inner.answer(3);
    result(harness.inner.call(4)).await;
    harness.inner.reply(4, Reply::Fail(blocked_error()));
    result(harness.inner.call(5)).await;
    harness.inner.reply(5, Reply::Fail(blocked_error()));
    result(harness.inner.call(6)).await;
    harness.inner.answer(6);
    assert_eq!(harness.inner.calls().await[3..], [vec![3], vec![4, 5, 6], vec![4, 5], vec![6]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_blocked_call_frees_its_slot() {
    let harness = Harness::with_blocking_store();
    let (blocked, other) = (accepting(&harness, 1).await, accepting(&harness, 2).await);
    let waiting = accepting(&harness, 3).await;
    assert_eq!(harness.inner.calls().await, [[1], [2]], "both slots are in use");
    harness.inner.reply(0, Reply::Fail(blocked_error()));
    assert_eq!(harness.inner.calls().await[2..], [[3]]);
    assert_eq!(harness.blocking.calls().await, [[1]]);
    let same = accepting(&harness, 1).await;
    for (index, call) in [(1, other), (2, waiting)] {
        harness.inner.answer(index);
        outcome(call).await;
    }
    assert_eq!(
        harness.inner.calls().await.len(),
        3,
        "a call for the same key waits, although slots are free"
    );
    assert!(!blocked.is_finished());
    harness.blocking.answer(0);
    assert_eq!(outcome(blocked).await, [1]);
    result(harness.inner.call(3)).await;
    harness.inner.answer(3);
    assert_eq!(outcome(same).await, [1]);
    assert_eq!(harness.blocking.calls().await.len(), 1);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_blocked_call_leaves_its_batch() {
    let (harness, [first, blocked, last]) = batched().await;
    block_the_second(&harness).await;
    assert_eq!(
        (numbers(&result(first).await.unwrap()), numbers(&result(last).await.unwrap())),
        (vec![3], vec![6])
    );
    assert_eq!(harness.blocking.calls().await, [[4, 5]]);
    accepting(&harness, 7).await;
    assert_eq!(harness.inner.calls().await[7..], [[7]], "the slot of the batch is free again");
    harness.blocking.answer(0);
    assert_eq!(numbers(&result(blocked).await.unwrap()), [4, 5]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_blocked_call_that_panics_is_unavailable_for_its_caller() {
    let (harness, [_, blocked, _]) = batched().await;
    block_the_second(&harness).await;
    result(harness.blocking.call(0)).await;
    harness.blocking.reply(0, Reply::Panic);
    assert_eq!(result(blocked).await.unwrap_err().kind(), ErrorKind::Unavailable);
    harness.free([1]).await;
    accepting(&harness, 4).await;
    assert_eq!(harness.inner.calls().await[7..], [[4]], "its keys are free");
}

/// However many calls are blocked, the blocking store keeps connections for other calls.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn two_blocked_calls_that_observe_accept_or_begin_run_at_a_time() {
    let harness = Harness::with_blocking_store();
    harness.inner.set(Mode::Blocked { from: BLOCKED });
    let calls = [accepting(&harness, BLOCKED).await, accepting(&harness, BLOCKED + 1).await];
    tokio::spawn(harness.begin_later([BLOCKED + 2]));
    tokio::spawn(harness.observe_later([BLOCKED + 3]));
    assert_eq!(harness.blocking.calls().await, [[BLOCKED], [BLOCKED + 1]]);
    harness.blocking.answer(1);
    assert_eq!(harness.blocking.calls().await[2..], [[BLOCKED + 2]]);
    let [first, second] = calls;
    assert_eq!(outcome(second).await, [BLOCKED + 1]);
    assert!(!first.is_finished());
}

/// A lease would end before two accepts that are blocked for long: heartbeats and settlements do not wait for them.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn blocked_heartbeats_and_settlements_do_not_wait_for_blocked_accepts() {
    let harness = Harness::with_blocking_store();
    harness.inner.set(Mode::Blocked { from: BLOCKED });
    for item in BLOCKED..BLOCKED + 3 {
        accepting(&harness, item).await;
    }
    let work = tokio::spawn(harness.work_later(vec![settlement(BLOCKED + 3)], vec![]));
    idle().await;
    let extend = tokio::spawn(harness.extend_later([BLOCKED + 4]));
    assert_eq!(harness.blocking.calls().await, [[BLOCKED], [BLOCKED + 1], [BLOCKED + 3], [BLOCKED + 4]]);
    harness.blocking.answer(2);
    harness.blocking.answer(3);
    result(work).await.unwrap().unwrap();
    result(extend).await.unwrap().unwrap();
}

/// As many blocked calls as the limit allows.
async fn full() -> (Harness, Vec<Accepting>) {
    let harness = Harness::with_blocking_store();
    harness.inner.set(Mode::Blocked { from: BLOCKED });
    let calls: Vec<_> =
        (BLOCKED..).take(BLOCKED_CALLS_MAX).map(|item| tokio::spawn(harness.accept_later([item]))).collect();
    assert_eq!(harness.blocking.calls().await.len(), 2);
    assert!(calls.iter().all(|call| !call.is_finished()));
    (harness, calls)
}

fn assert_over_limit(error: &Error) {
    assert!(error.is_blocked() && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("too many"), "{error}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_call_beyond_the_limit_of_blocked_calls_is_rejected() {
    let (harness, mut calls) = full().await;
    let beyond = BLOCKED * 2;
    assert_over_limit(&result(harness.store.accept(&[message(beyond)])).await.unwrap_err());
    assert!(result(harness.store.observe(&[observation(beyond)])).await.unwrap_err().is_blocked());
    assert_eq!(harness.blocking.calls().await.len(), 2, "the call is not sent");
    let other = accepting(&harness, 1).await;
    let index = harness.inner.calls().await.len() - 1;
    harness.inner.answer(index);
    assert_eq!(outcome(other).await, [1], "unblocked calls succeed");
    // A call that ends frees capacity, and so does a call whose caller is dropped.
    harness.blocking.answer(0);
    assert_eq!(outcome(calls.remove(0)).await, [BLOCKED]);
    calls.pop().unwrap().abort();
    let next = [accepting(&harness, beyond).await, accepting(&harness, beyond + 1).await];
    assert_over_limit(&result(harness.store.accept(&[message(beyond + 2)])).await.unwrap_err());
    harness.blocking.answer_all();
    for (call, item) in calls.into_iter().zip(BLOCKED + 1..) {
        assert_eq!(outcome(call).await, [item]);
    }
    for (call, item) in next.into_iter().zip(beyond..) {
        assert_eq!(outcome(call).await, [item]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_call_beyond_the_limit_of_blocked_calls_fails_alone_in_its_batch() {
    let (harness, _calls) = full().await;
    let before = harness.inner.calls().await.len();
    for item in [1, 2] {
        accepting(&harness, item).await;
    }
    let [blocked, other] = [BLOCKED * 2, 3].map(|item| harness.accept([item]));
    harness.inner.answer(before);
    result(harness.inner.call(before + 4)).await;
    assert_eq!(harness.inner.calls().await[before + 2..], [vec![BLOCKED * 2, 3], vec![BLOCKED * 2], vec![3]]);
    assert_over_limit(&result(blocked).await.unwrap_err());
    harness.inner.answer(before + 4);
    assert_eq!(numbers(&result(other).await.unwrap()), [3]);
}
