//! Failing batches, and calls beyond the limits. Time is paused, so a caller that is never answered fails its test at
//! once.

use std::error::Error as _;
use std::time::Duration;

use oncebox::layers::coalesce::CoalesceOptions;
use oncebox_core::{Accepted, Bound, Error, ErrorKind, Store};

use super::harness::{Call, Harness, idle, numbers};
use super::items::message;
use super::mock_store::Reply;
use crate::timed::within;

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_direct_call_gets_the_error_of_the_store() {
    let harness = Harness::new();
    let call = harness.accept([1]);
    harness.inner.reply(0, Reply::Fail(Error::new(ErrorKind::Invalid, "one of a kind")));
    assert_eq!(call.await.unwrap_err().to_string(), "one of a kind");
    assert_eq!(harness.inner.calls().await.len(), 1);
}

async fn waiting_three() -> (Harness, [Call<Vec<Accepted>>; 3]) {
    let harness = Harness::busy().await;
    let waiting = [harness.accept([3]), harness.accept([4, 5]), harness.accept([6])];
    harness.free([0]).await;
    assert_eq!(harness.later_calls().await, [[3, 4, 5, 6]]);
    (harness, waiting)
}

/// If the call were repeated, a message that was stored would be reported as a duplicate of itself.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_batch_with_an_unknown_outcome_fails_for_all_callers_and_is_not_repeated() {
    for error in [
        Error::new(ErrorKind::Unavailable, "no answer").with_source("the line is cut"),
        Error::saturated(Duration::from_secs(7), Bound::new(Bound::KEYS, 1, 1)),
        Error::new(ErrorKind::Corrupt, "a page is torn"),
        Error::new(ErrorKind::Closed, "closed meanwhile"),
    ] {
        let (harness, waiting) = waiting_three().await;
        harness.inner.reply(10, Reply::Fail(error.clone()));
        for call in waiting {
            let received = within("a caller of the failed batch is answered", call).await.unwrap_err();
            assert_eq!((received.kind(), received.to_string()), (error.kind(), error.to_string()));
            assert_eq!(received.retry_after(), error.retry_after());
            let source = |error: &Error| error.source().map(ToString::to_string);
            assert_eq!(source(&received), source(&error));
        }
        assert_eq!(harness.later_calls().await.len(), 1);
        // Its slot and its keys are free.
        let again = tokio::spawn(harness.accept_later([3, 4, 5, 6]));
        idle().await;
        harness.free([11]).await;
        assert_eq!(numbers(&again.await.unwrap().unwrap()), [3, 4, 5, 6]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_invalid_call_in_a_batch_fails_alone() {
    for kind in [ErrorKind::Invalid, ErrorKind::Unsupported] {
        for bad in 3..8 {
            let harness = Harness::busy().await;
            let waiting: Vec<_> = (3..8).map(|item| harness.accept([item, item + 100])).collect();
            harness.free([0]).await;
            harness.inner.reject(bad);
            harness.inner.reply(10, Reply::Fail(Error::new(kind, "something is wrong with the batch")));
            for (call, item) in waiting.into_iter().zip(3..) {
                match call.await {
                    Ok(outcomes) => {
                        assert_ne!(item, bad);
                        assert_eq!(numbers(&outcomes), [item, item + 100]);
                    }
                    Err(error) => {
                        assert_eq!((item, error.kind()), (bad, ErrorKind::Invalid));
                        assert_eq!(error.to_string(), "an item is rejected");
                    }
                }
            }
            let calls = harness.later_calls().await;
            assert!(calls.iter().all(|call| call.len() % 2 == 0), "no call is split: {calls:?}");
            assert!(calls.len() <= 7, "split in half, not one by one: {calls:?}");
        }
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_store_that_panics_or_omits_an_outcome_leaves_no_caller_waiting() {
    for reply in [Reply::Panic, Reply::TooFew] {
        let (harness, waiting) = waiting_three().await;
        let next = harness.accept([3]);
        harness.inner.reply(10, reply);
        for call in waiting {
            assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        tokio::spawn(next);
        assert_eq!(harness.later_calls().await[1..], [[3]]);
        // No slot is lost: 3 uses one, 2 has used the other until here.
        harness.free([1]).await;
        let _in_flight = harness.accept([9]);
        assert_eq!(harness.later_calls().await[2..], [[9]]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn the_number_of_waiting_calls_is_limited() {
    let mut options = CoalesceOptions::DEFAULT;
    options.waiting_calls_max = 3;
    let harness = Harness::with(options);
    tokio::spawn(harness.accept_later([1]));
    tokio::spawn(harness.accept_later([2]));
    harness.inner.call(1).await;
    let mut waiting: Vec<_> = (3..6).map(|item| harness.accept([item])).collect();
    let refused = harness.store.accept(&[message(6)]).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Saturated, true));
    // A call that waits for its key counts as well, and other operations have their own queues.
    assert_eq!(harness.store.accept(&[message(1)]).await.unwrap_err().kind(), ErrorKind::Saturated);
    let _extending = harness.extend([1]);
    waiting.pop();
    idle().await;
    waiting.push(harness.accept([6]));
    assert_eq!(harness.store.accept(&[message(7)]).await.unwrap_err().kind(), ErrorKind::Saturated);
    // Calls in a batch no longer count as waiting.
    harness.free([0]).await;
    let _waiting = [harness.accept([7]), harness.accept([8]), harness.accept([9])];
    assert_eq!(harness.store.accept(&[message(10)]).await.unwrap_err().kind(), ErrorKind::Saturated);
    harness.inner.answer_all();
    for (call, item) in waiting.into_iter().zip([3, 4, 6]) {
        assert_eq!(numbers(&call.await.unwrap()), [item]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn closing_fails_waiting_calls_and_calls_in_flight_continue() {
    let (harness, in_batch) = waiting_three().await;
    let waiting = [harness.accept([7]), harness.accept([3]), harness.accept([7])];
    let extending = harness.extend([7]);
    harness.store.close().await.unwrap();
    for call in waiting {
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Closed);
    }
    assert_eq!(extending.await.unwrap_err().kind(), ErrorKind::Closed);
    // A later call fails at once, although every slot is in use.
    let later = harness.store.accept(&[message(3)]).await.unwrap_err();
    assert_eq!((later.kind(), later.to_string().as_str()), (ErrorKind::Closed, "closed underneath"));
    harness.inner.answer(10);
    for (call, expected) in in_batch.into_iter().zip([&[3][..], &[4, 5], &[6]]) {
        assert_eq!(numbers(&call.await.unwrap()), expected);
    }
    idle().await;
    harness.store.close().await.unwrap();
}
