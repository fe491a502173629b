//! What becomes of callers whose group fails, and of those for whom there is no room. Time is paused: a caller that is never
//! answered fails its test at once.

use std::error::Error as _;
use std::time::Duration;

use oncebox::layers::coalesce::Options;
use oncebox_core::{Accepted, Bound, Error, Kind, Store};

use super::inner::Reply;
use super::items::message;
use super::world::{Call, World, idle, numbers};
use crate::timed::within;

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn whoever_is_alone_gets_the_error_of_the_store() {
    let world = World::new();
    let call = world.accept([1]);
    world.inner.reply(0, Reply::Fail(Error::new(Kind::Invalid, "one of a kind")));
    assert_eq!(call.await.unwrap_err().to_string(), "one of a kind");
    assert_eq!(world.inner.calls().await.len(), 1);
}

async fn waiting_three() -> (World, [Call<Vec<Accepted>>; 3]) {
    let world = World::busy().await;
    let waiting = [world.accept([3]), world.accept([4, 5]), world.accept([6])];
    world.free([0]).await;
    assert_eq!(world.later_calls().await, [[3, 4, 5, 6]]);
    (world, waiting)
}

/// Repeated, a message that did come in would be called a duplicate of itself.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_group_of_unknown_outcome_has_failed_for_everybody_and_is_not_repeated() {
    for error in [
        Error::new(Kind::Unavailable, "no answer").with_source("the line is cut"),
        Error::saturated(Duration::from_secs(7), Bound::new(Bound::KEYS, 1, 1)),
        Error::new(Kind::Corrupt, "a page is torn"),
        Error::new(Kind::Closed, "closed meanwhile"),
    ] {
        let (world, waiting) = waiting_three().await;
        world.inner.reply(10, Reply::Fail(error.clone()));
        for call in waiting {
            let told = within("a caller of the failed group is answered", call).await.unwrap_err();
            assert_eq!((told.kind(), told.to_string()), (error.kind(), error.to_string()));
            assert_eq!(told.retry_after(), error.retry_after());
            let below = |error: &Error| error.source().map(ToString::to_string);
            assert_eq!(below(&told), below(&error));
        }
        assert_eq!(world.later_calls().await.len(), 1);
        // Its place and its keys are free.
        let again = tokio::spawn(world.accept_later([3, 4, 5, 6]));
        idle().await;
        world.free([11]).await;
        assert_eq!(numbers(&again.await.unwrap().unwrap()), [3, 4, 5, 6]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn where_nothing_has_happened_what_is_wrong_fails_alone() {
    for kind in [Kind::Invalid, Kind::Unsupported] {
        for bad in 3..8 {
            let world = World::busy().await;
            let waiting: Vec<_> = (3..8).map(|item| world.accept([item, item + 100])).collect();
            world.free([0]).await;
            world.inner.refuse(bad);
            world.inner.reply(10, Reply::Fail(Error::new(kind, "something is wrong with the group")));
            for (call, item) in waiting.into_iter().zip(3..) {
                match call.await {
                    Ok(outcomes) => {
                        assert_ne!(item, bad);
                        assert_eq!(numbers(&outcomes), [item, item + 100]);
                    }
                    Err(error) => {
                        assert_eq!((item, error.kind()), (bad, Kind::Invalid));
                        assert_eq!(error.to_string(), "an item is refused");
                    }
                }
            }
            let calls = world.later_calls().await;
            assert!(calls.iter().all(|call| call.len() % 2 == 0), "no call is split: {calls:?}");
            assert!(calls.len() <= 7, "halves, not one by one: {calls:?}");
        }
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_store_that_panics_or_forgets_an_outcome_leaves_nobody_waiting() {
    for reply in [Reply::Panic, Reply::TooFew] {
        let (world, waiting) = waiting_three().await;
        let next = world.accept([3]);
        world.inner.reply(10, reply);
        for call in waiting {
            assert_eq!(call.await.unwrap_err().kind(), Kind::Unavailable);
        }
        tokio::spawn(next);
        assert_eq!(world.later_calls().await[1..], [[3]]);
        // And no place is lost: 3 has one, 2 has the other until here.
        world.free([1]).await;
        let _under_way = world.accept([9]);
        assert_eq!(world.later_calls().await[2..], [[9]]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn only_so_many_calls_wait() {
    let mut options = Options::DEFAULT;
    options.waiting_calls_max = 3;
    let world = World::with(options);
    tokio::spawn(world.accept_later([1]));
    tokio::spawn(world.accept_later([2]));
    world.inner.call(1).await;
    let mut waiting: Vec<_> = (3..6).map(|item| world.accept([item])).collect();
    let refused = world.store.accept(&[message(6)]).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (Kind::Saturated, true));
    // One that waits for its key waits as well, and other kinds have lines of their own.
    assert_eq!(world.store.accept(&[message(1)]).await.unwrap_err().kind(), Kind::Saturated);
    let _extending = world.extend([1]);
    waiting.pop();
    waiting.push(world.accept([6]));
    assert_eq!(world.store.accept(&[message(7)]).await.unwrap_err().kind(), Kind::Saturated);
    // Those in a group do not wait any more.
    world.free([0]).await;
    let _waiting = [world.accept([7]), world.accept([8]), world.accept([9])];
    assert_eq!(world.store.accept(&[message(10)]).await.unwrap_err().kind(), Kind::Saturated);
    world.inner.answer_all();
    for (call, item) in waiting.into_iter().zip([3, 4, 6]) {
        assert_eq!(numbers(&call.await.unwrap()), [item]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn closing_answers_those_who_wait_and_what_is_under_way_goes_on() {
    let (world, in_a_group) = waiting_three().await;
    let waiting = [world.accept([7]), world.accept([3]), world.accept([7])];
    let extending = world.extend([7]);
    world.store.close().await.unwrap();
    for call in waiting {
        assert_eq!(call.await.unwrap_err().kind(), Kind::Closed);
    }
    assert_eq!(extending.await.unwrap_err().kind(), Kind::Closed);
    // Though every place is taken.
    let later = world.store.accept(&[message(3)]).await.unwrap_err();
    assert_eq!((later.kind(), later.to_string().as_str()), (Kind::Closed, "closed underneath"));
    world.inner.answer(10);
    for (call, expected) in in_a_group.into_iter().zip([&[3][..], &[4, 5], &[6]]) {
        assert_eq!(numbers(&call.await.unwrap()), expected);
    }
    idle().await;
    world.store.close().await.unwrap();
}
