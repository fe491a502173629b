//! Calls that somebody else holds up: they stand aside, and the others go on.

use std::time::Duration;

use oncebox::layers::coalesce::ASIDE_MAX;
use oncebox_core::{Accepted, Error, Kind, Store};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::inner::{Mode, Reply, held_up};
use super::items::{extension, message};
use super::world::{Call, World, idle, numbers};

/// Items from here on are held up.
const HELD: u64 = 1_000_000;

type Accepting = JoinHandle<Result<Vec<Accepted>, Error>>;

/// Makes a call of its own task, which goes on by itself.
async fn accepting(world: &World, item: u64) -> Accepting {
    let call = tokio::spawn(world.accept_later([item]));
    idle().await;
    call
}

/// What comes of it. Time is paused, so nobody waits for what never comes.
async fn told<T>(call: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), call).await.expect("it is answered")
}

async fn outcome(call: Accepting) -> Vec<u64> {
    numbers(&told(call).await.unwrap().unwrap())
}

/// Both places are taken, by 1 and 2; three calls wait, and go as one when 1 is answered.
async fn grouped() -> (World, [Call<Vec<Accepted>>; 3]) {
    let world = World::apart();
    for item in [1, 2] {
        accepting(&world, item).await;
    }
    let waiting = [world.accept([3]), world.accept([4, 5]), world.accept([6])];
    world.free([0]).await;
    assert_eq!(world.inner.calls().await[2..], [[3, 4, 5, 6]]);
    (world, waiting)
}

/// The group is told, and what is held up in it is found by halving.
async fn hold_up_the_second(world: &World) {
    world.inner.reply(2, Reply::Fail(held_up()));
    told(world.inner.call(3)).await;
    world.inner.answer(3);
    told(world.inner.call(4)).await;
    world.inner.reply(4, Reply::Fail(held_up()));
    told(world.inner.call(5)).await;
    world.inner.reply(5, Reply::Fail(held_up()));
    told(world.inner.call(6)).await;
    world.inner.answer(6);
    assert_eq!(world.inner.calls().await[3..], [vec![3], vec![4, 5, 6], vec![4, 5], vec![6]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_call_that_is_held_up_gives_its_place_to_others() {
    let world = World::apart();
    let (held, other) = (accepting(&world, 1).await, accepting(&world, 2).await);
    let waiting = accepting(&world, 3).await;
    assert_eq!(world.inner.calls().await, [[1], [2]], "both places are taken");
    world.inner.reply(0, Reply::Fail(held_up()));
    assert_eq!(world.inner.calls().await[2..], [[3]]);
    assert_eq!(world.patient.calls().await, [[1]]);
    let same = accepting(&world, 1).await;
    for (index, call) in [(1, other), (2, waiting)] {
        world.inner.answer(index);
        outcome(call).await;
    }
    assert_eq!(world.inner.calls().await.len(), 3, "who wants the same waits, though places are free");
    assert!(!held.is_finished());
    world.patient.answer(0);
    assert_eq!(outcome(held).await, [1]);
    told(world.inner.call(3)).await;
    world.inner.answer(3);
    assert_eq!(outcome(same).await, [1]);
    assert_eq!(world.patient.calls().await.len(), 1);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_call_that_is_held_up_leaves_its_group() {
    let (world, [first, held, last]) = grouped().await;
    hold_up_the_second(&world).await;
    assert_eq!(
        (numbers(&told(first).await.unwrap()), numbers(&told(last).await.unwrap())),
        (vec![3], vec![6])
    );
    assert_eq!(world.patient.calls().await, [[4, 5]]);
    accepting(&world, 7).await;
    assert_eq!(world.inner.calls().await[7..], [[7]], "the place of the group is free again");
    world.patient.answer(0);
    assert_eq!(numbers(&told(held).await.unwrap()), [4, 5]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_call_of_a_group_that_is_given_up_aside_is_told_so() {
    let (world, [_, held, _]) = grouped().await;
    hold_up_the_second(&world).await;
    told(world.patient.call(0)).await;
    world.patient.reply(0, Reply::Panic);
    assert_eq!(told(held).await.unwrap_err().kind(), Kind::Unavailable);
    world.free([1]).await;
    accepting(&world, 4).await;
    assert_eq!(world.inner.calls().await[7..], [[4]], "nobody has its keys any more");
}

/// However many are held up, the patient store keeps connections for others.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn two_of_those_aside_are_made_at_a_time_whatever_their_kind() {
    let world = World::apart();
    world.inner.set(Mode::HeldUp { from: HELD });
    let calls = [accepting(&world, HELD).await, accepting(&world, HELD + 1).await];
    tokio::spawn(world.extend_later([HELD + 2]));
    assert_eq!(world.patient.calls().await, [[HELD], [HELD + 1]]);
    world.patient.answer(1);
    assert_eq!(world.patient.calls().await[2..], [[HELD + 2]]);
    let [first, second] = calls;
    assert_eq!(outcome(second).await, [HELD + 1]);
    assert!(!first.is_finished());
}

/// So many calls aside that there is room for no more.
async fn full() -> (World, Vec<Accepting>) {
    let world = World::apart();
    world.inner.set(Mode::HeldUp { from: HELD });
    let calls: Vec<_> =
        (HELD..).take(ASIDE_MAX).map(|item| tokio::spawn(world.accept_later([item]))).collect();
    assert_eq!(world.patient.calls().await.len(), 2);
    assert!(calls.iter().all(|call| !call.is_finished()));
    (world, calls)
}

fn is_one_too_many(error: &Error) {
    assert!(error.is_held_up() && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("too many"), "{error}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn one_too_many_aside_is_told_that_it_is_held_up() {
    let (world, mut calls) = full().await;
    let beyond = HELD * 2;
    is_one_too_many(&told(world.store.accept(&[message(beyond)])).await.unwrap_err());
    assert!(told(world.store.extend(&[extension(beyond)])).await.unwrap_err().is_held_up());
    assert_eq!(world.patient.calls().await.len(), 2, "it is not made");
    let other = accepting(&world, 1).await;
    let index = world.inner.calls().await.len() - 1;
    world.inner.answer(index);
    assert_eq!(outcome(other).await, [1], "what nobody holds up is served");
    // One that ends makes room, and so does one whose caller leaves.
    world.patient.answer(0);
    assert_eq!(outcome(calls.remove(0)).await, [HELD]);
    calls.pop().unwrap().abort();
    let next = [accepting(&world, beyond).await, accepting(&world, beyond + 1).await];
    is_one_too_many(&told(world.store.accept(&[message(beyond + 2)])).await.unwrap_err());
    world.patient.answer_all();
    for (call, item) in calls.into_iter().zip(HELD + 1..) {
        assert_eq!(outcome(call).await, [item]);
    }
    for (call, item) in next.into_iter().zip(beyond..) {
        assert_eq!(outcome(call).await, [item]);
    }
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn one_too_many_in_a_group_fails_alone() {
    let (world, _calls) = full().await;
    let before = world.inner.calls().await.len();
    for item in [1, 2] {
        accepting(&world, item).await;
    }
    let [held, other] = [HELD * 2, 3].map(|item| world.accept([item]));
    world.inner.answer(before);
    told(world.inner.call(before + 4)).await;
    assert_eq!(world.inner.calls().await[before + 2..], [vec![HELD * 2, 3], vec![HELD * 2], vec![3]]);
    is_one_too_many(&told(held).await.unwrap_err());
    world.inner.answer(before + 4);
    assert_eq!(numbers(&told(other).await.unwrap()), [3]);
}
