//! Calls that the store never answers: they fail at a time limit, and later calls for the same keys continue.

use std::time::Duration;

use oncebox::layers::coalesce::{CALL_TIME_MAX, EXTEND_TIME_MAX};
use oncebox_core::{Error, ErrorKind};
use tokio::time::{Instant, timeout};

use super::harness::{Call, Harness, idle, numbers};
use super::mock_store::Mode;

/// A call that must be answered within an hour.
async fn result<T>(call: Call<T>) -> Result<T, Error> {
    timeout(Duration::from_secs(3_600), call).await.expect("the call is answered")
}

fn assert_unknown(error: &Error) {
    assert!(error.kind() == ErrorKind::Unavailable && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("the outcome is unknown: retry it"), "{error}");
}

/// From now on, the store answers new calls.
fn answer_new_calls(harness: &Harness) {
    harness.inner.set(Mode::AtOnce { rejected: None });
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_direct_call_without_an_answer_ends_at_its_time_limit() {
    let harness = Harness::new();
    let (began, direct) = (Instant::now(), harness.accept([1]));
    let same = tokio::spawn(harness.accept_later([1]));
    idle().await;
    answer_new_calls(&harness);
    assert_unknown(&result(direct).await.unwrap_err());
    assert_eq!(began.elapsed(), CALL_TIME_MAX);
    assert_eq!(numbers(&result(Box::pin(async { same.await.unwrap() })).await.unwrap()), [1]);
    assert_eq!(began.elapsed().as_secs(), CALL_TIME_MAX.as_secs());
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn batches_without_an_answer_free_their_slots_and_keys() {
    let harness = Harness::new();
    // One runs directly, and one in a batch: both slots are in use.
    let unanswered = [tokio::spawn(harness.accept_later([1])), tokio::spawn(harness.accept_later([2, 3]))];
    harness.inner.call(1).await;
    let began = Instant::now();
    let later = [harness.accept([2]), harness.accept([1]), harness.accept([4])];
    answer_new_calls(&harness);
    for (call, item) in later.into_iter().zip([2, 1, 4]) {
        assert_eq!(numbers(&result(call).await.unwrap()), [item]);
    }
    assert_eq!(began.elapsed().as_secs(), CALL_TIME_MAX.as_secs());
    for call in unanswered {
        assert_unknown(&call.await.unwrap().unwrap_err());
    }
    assert_eq!(harness.inner.cancelled(), 2);
}

/// A heartbeat that takes longer is of no use.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn heartbeats_have_a_shorter_time_limit() {
    let harness = Harness::new();
    let unanswered = [tokio::spawn(harness.extend_later([1])), tokio::spawn(harness.extend_later([2]))];
    harness.inner.call(1).await;
    let began = Instant::now();
    let same = harness.extend([2]);
    answer_new_calls(&harness);
    assert_eq!(result(same).await.unwrap().len(), 1);
    assert_eq!(began.elapsed().as_secs(), EXTEND_TIME_MAX.as_secs());
    for call in unanswered {
        assert_unknown(&call.await.unwrap().unwrap_err());
    }
}

/// A call that is blocked by another transaction waits for as long as the store lets it.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_blocked_call_has_no_time_limit() {
    let harness = Harness::with_blocking_store();
    harness.inner.set(Mode::Blocked { from: 0 });
    let blocked = tokio::spawn(harness.accept_later([1]));
    harness.blocking.call(0).await;
    tokio::time::sleep(CALL_TIME_MAX * 2).await;
    harness.blocking.answer(0);
    assert_eq!(numbers(&blocked.await.unwrap().unwrap()), [1]);
}
