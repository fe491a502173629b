//! Callers that go away: the others do not notice.

use std::task::Poll;

use oncebox_core::{Accepted, Kind};
use tokio::runtime::{Builder, Runtime};

use super::inner::Reply;
use super::world::{Call, World, idle, numbers, poll};

#[tokio::test(crate = "crate::timed")]
async fn a_call_that_is_dropped_while_it_waits_does_not_happen() {
    let world = World::busy().await;
    let [first, second, third] = [world.accept([3]), world.accept([4]), world.accept([5])];
    drop(second);
    world.free([0]).await;
    assert_eq!(world.later_calls().await, [[3, 5]]);
    drop(first);
    world.free([10]).await;
    assert_eq!(numbers(&third.await.unwrap()), [5]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_caller_that_is_dropped_while_it_waits_keeps_nobody_from_its_keys() {
    let world = World::new();
    tokio::spawn(world.accept_later([1]));
    world.inner.call(0).await;
    // 2 is free but for the one that waits for 1 as well; a place is free all the time.
    let blocked = world.accept([1, 2]);
    let (behind, last) = (world.accept([2]), world.accept([1]));
    assert_eq!(world.inner.calls().await.len(), 1);
    drop(blocked);
    assert_eq!(world.inner.call(1).await, [2]);
    world.free([1]).await;
    assert_eq!(numbers(&behind.await.unwrap()), [2]);
    world.free([0]).await;
    assert_eq!(world.inner.call(2).await, [1]);
    world.free([2]).await;
    assert_eq!(numbers(&last.await.unwrap()), [1]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_goes_on_without_those_who_leave_and_holds_their_keys_until_it_ends() {
    let world = World::busy().await;
    let [first, second] = [world.accept([3]), world.accept([4])];
    world.free([0, 1]).await;
    drop(first);
    let next = world.accept([3]);
    assert_eq!(world.later_calls().await, [[3, 4]]);
    world.free([10]).await;
    assert_eq!(numbers(&second.await.unwrap()), [4]);
    assert_eq!(world.later_calls().await[1..], [[3]]);
    world.free([11]).await;
    assert_eq!(numbers(&next.await.unwrap()), [3]);
    assert_eq!(world.inner.cancelled(), 0);
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_that_everybody_left_ends_and_frees_its_place() {
    let world = World::busy().await;
    drop({
        let group = [world.accept([3]), world.accept([4])];
        world.free([0]).await;
        group
    });
    let waiting = world.accept([5]);
    world.free([10]).await;
    assert_eq!(world.later_calls().await, [vec![3, 4], vec![5]]);
    assert_eq!(world.inner.cancelled(), 0);
    world.free([11]).await;
    assert_eq!(numbers(&waiting.await.unwrap()), [5]);
}

/// Nobody is left of it who could set going what it held up.
#[tokio::test(crate = "crate::timed")]
async fn a_group_that_everybody_left_sets_going_all_that_waited_for_it() {
    let world = World::busy().await;
    let group = [world.accept([3]), world.accept([4])];
    world.free([0, 1]).await;
    drop(group);
    let _too_much_for_one =
        [world.accept((3..4).chain(10_000..16_000)), world.accept((4..5).chain(20_000..26_000))];
    world.free([10]).await;
    let sizes: Vec<_> = world.later_calls().await.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 6_001, 6_001]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_that_everybody_left_and_that_panics_wakes_those_who_wait() {
    let world = World::busy().await;
    let group = world.accept([3]);
    world.free([0]).await;
    drop(group);
    tokio::spawn(world.accept_later([5]));
    assert_eq!(world.later_calls().await, [[3]]);
    world.inner.reply(10, Reply::Panic);
    assert_eq!(world.later_calls().await, [[3], [5]]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_call_by_itself_ends_with_its_caller_and_the_next_go_on() {
    let world = World::new();
    let [alone, other] = [world.accept([1]), world.accept([2])];
    let [same_key, another] = [world.accept([1]), world.accept([3])];
    drop(alone);
    assert_eq!(world.inner.cancelled(), 1);
    assert_eq!(world.inner.call(2).await, [1, 3]);
    world.inner.answer_all();
    assert_eq!(numbers(&same_key.await.unwrap()), [1]);
    assert_eq!(numbers(&another.await.unwrap()), [3]);
    assert_eq!(numbers(&other.await.unwrap()), [2]);
}

/// Six calls, two of them about the same, one of which goes away after so many steps: all others get what is theirs, and
/// then every place and key is free.
#[tokio::test(crate = "crate::timed")]
async fn whoever_leaves_whenever_the_others_get_their_outcomes() {
    const ITEMS: [&[u64]; 6] = [&[1], &[2], &[3], &[3, 4], &[5], &[4]];
    for (victim, leaves_at) in (0..ITEMS.len()).flat_map(|victim| (0..14).map(move |at| (victim, at))) {
        let world = World::new();
        let mut calls = ITEMS.map(|items| Some(world.accept(items.iter().copied())));
        // At even moments a call of the store is answered, at odd ones callers hear of it.
        for moment in 0..14 {
            if moment == leaves_at {
                calls[victim] = None;
                idle().await;
            }
            if moment % 2 == 0 {
                world.inner.answer_oldest();
            } else {
                hear(&mut calls, &ITEMS);
            }
            idle().await;
        }
        assert!(calls.iter().all(Option::is_none), "somebody waits: {victim} {leaves_at}");
        let before = world.inner.calls().await.len();
        for items in [[1, 2, 3], [4, 5, 6]] {
            tokio::spawn(world.accept_later(items));
            idle().await;
        }
        assert_eq!(world.inner.calls().await[before..], [[1, 2, 3], [4, 5, 6]], "{victim} {leaves_at}");
    }
}

/// Polls every caller; those that are answered have to have their own outcomes.
fn hear(calls: &mut [Option<Call<Vec<Accepted>>>], items: &[&[u64]]) {
    for (call, items) in calls.iter_mut().zip(items) {
        let Some(Poll::Ready(outcomes)) = call.as_mut().map(poll) else { continue };
        assert_eq!(numbers(&outcomes.unwrap()), *items);
        *call = None;
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// A future that is dropped where no runtime is cannot start anything: those who wait do, when they are polled.
#[test]
fn a_place_that_is_freed_outside_of_a_runtime_is_found() {
    let runtime = runtime();
    let world = World::new();
    let alone = [world.accept([1]), world.accept([2])];
    let waiting = runtime.spawn(world.accept_later([3]));
    runtime.block_on(idle());
    drop(alone);
    runtime.block_on(async {
        // Whoever comes now does not pass the one that waits.
        let late = world.accept([4]);
        assert_eq!(world.inner.call(2).await, [3, 4]);
        world.free([2]).await;
        assert_eq!(numbers(&waiting.await.unwrap().unwrap()), [3]);
        assert_eq!(numbers(&late.await.unwrap()), [4]);
        // And if nobody comes, it is woken.
        let alone = [world.accept([1]), world.accept([2])];
        let waiting = tokio::spawn(world.accept_later([3]));
        idle().await;
        std::thread::spawn(move || drop(alone)).join().unwrap();
        assert_eq!(world.inner.call(5).await, [3]);
        world.free([5]).await;
        assert_eq!(numbers(&waiting.await.unwrap().unwrap()), [3]);
    });
}

/// A runtime goes, and with it the task of a group whose callers live elsewhere.
#[test]
fn the_end_of_a_runtime_leaves_nobody_waiting_in_another() {
    let (short, long) = (runtime(), runtime());
    let world = World::new();
    let alone = [world.accept([1]), world.accept([2])];
    let in_a_group = long.spawn(world.accept_later([3]));
    long.block_on(idle());
    short.block_on(async {
        drop(alone);
        assert_eq!(world.inner.call(2).await, [3]);
    });
    let behind = long.spawn(world.accept_later([3]));
    long.block_on(idle());
    drop(short);
    long.block_on(async {
        assert_eq!(in_a_group.await.unwrap().unwrap_err().kind(), Kind::Unavailable);
        assert_eq!(world.inner.call(3).await, [3]);
        world.free([3]).await;
        assert_eq!(numbers(&behind.await.unwrap().unwrap()), [3]);
    });
}

/// The group's task is dropped before it has begun.
#[test]
fn a_group_that_never_began_is_given_up() {
    let (short, long) = (runtime(), runtime());
    let world = World::new();
    let alone = [world.accept([1]), world.accept([2])];
    let in_a_group = long.spawn(world.accept_later([3]));
    long.block_on(idle());
    {
        let _entered = short.enter();
        drop(alone);
    }
    drop(short);
    long.block_on(async {
        assert_eq!(in_a_group.await.unwrap().unwrap_err().kind(), Kind::Unavailable);
        let _free = [world.accept([3]), world.accept([4])];
        assert_eq!(world.inner.calls().await[2..], [[3], [4]]);
    });
}
