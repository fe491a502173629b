//! What a group waits for before it goes, and for how long.

use std::time::Duration;

use tokio::time::sleep;

use super::items::settlement;
use super::world::{World, idle, numbers};

/// Two places are taken, by calls 0 and 1; two callers accept as one group, call 2, and then want to settle.
async fn two_callers() -> World {
    let world = World::new();
    for item in [8, 9] {
        tokio::spawn(world.accept_later([item]));
    }
    idle().await;
    for item in [1, 2] {
        let (accept, settle) = (world.accept_later([item]), world.work_later(vec![settlement(item)], vec![]));
        tokio::spawn(async move {
            accept.await.unwrap();
            settle.await.unwrap();
        });
    }
    idle().await;
    world.free([0]).await;
    assert_eq!(world.inner.calls().await, [vec![8], vec![9], vec![1, 2]]);
    world
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn who_was_answered_together_goes_together_though_there_are_places() {
    let world = two_callers().await;
    world.free([2]).await;
    assert_eq!(world.inner.calls().await[3..], [[1, 2]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn who_has_something_else_to_do_is_not_waited_for_for_long() {
    let world = World::busy().await;
    let _callers = [world.accept([3]), world.accept([4])];
    world.free([0]).await;
    world.free([10]).await;
    tokio::spawn(world.accept_later([5]));
    assert_eq!(world.later_calls().await, [vec![3, 4], vec![5]]);
}

/// Three items are under way; one more of another kind comes.
async fn a_large_one_and_a_small_one() -> World {
    let world = World::new();
    tokio::spawn(world.accept_later([1, 2, 3]));
    idle().await;
    tokio::spawn(world.work_later(vec![settlement(4)], vec![]));
    assert_eq!(world.inner.calls().await, [[1, 2, 3]]);
    world
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_smaller_group_waits_until_a_larger_one_has_ended_and_takes_along_who_comes() {
    let world = a_large_one_and_a_small_one().await;
    tokio::spawn(world.work_later(vec![settlement(5)], vec![]));
    idle().await;
    world.free([0]).await;
    assert_eq!(world.inner.calls().await[1..], [[4, 5]]);
}

/// A caller may have something else to do than to poll its call.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn nobody_stands_still_because_a_caller_does() {
    let world = World::new();
    tokio::spawn(world.accept_later([1, 2, 3]));
    idle().await;
    let _not_polled_again = world.accept([4]);
    let other = tokio::spawn(world.accept_later([5]));
    idle().await;
    world.free([0]).await;
    assert_eq!(world.inner.calls().await[1..], [[4, 5]]);
    world.free([1]).await;
    assert_eq!(numbers(&other.await.unwrap().unwrap()), [5]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_larger_one_that_takes_long_is_waited_for_no_longer() {
    let world = a_large_one_and_a_small_one().await;
    sleep(Duration::from_millis(4)).await;
    assert_eq!(world.inner.calls().await.len(), 1);
    sleep(Duration::from_millis(2)).await;
    assert_eq!(world.inner.calls().await[1..], [[4]]);
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn nobody_waits_for_what_is_as_large_as_it_and_a_heartbeat_for_nothing() {
    let world = a_large_one_and_a_small_one().await;
    tokio::spawn(world.observe_later([6, 7, 8]));
    assert_eq!(world.inner.calls().await[1..], [[6, 7, 8]]);
    tokio::spawn(world.extend_later([9]));
    assert_eq!(world.inner.calls().await[2..], [[9]]);
}
