//! Who goes with whom, and who waits for whom.

use std::num::NonZeroUsize;
use std::task::Poll;

use oncebox::layers::coalesce::{GROUP_BYTES_MAX, GROUP_ITEMS_MAX, Options};
use oncebox_core::{Claim, Kind, NewMessage, Payload, RequestId, Store, Uid};

use super::items::{claim, key, message, settlement};
use super::world::{Call, World, idle, made, numbers, poll};

/// No task, no copy, no runtime: a call that finds a place is made where its caller is.
#[test]
fn a_call_that_finds_a_place_is_made_by_its_caller() {
    let world = World::new();
    let (store, messages) = (world.store.clone(), vec![message(1), message(2)]);
    let address = messages.as_ptr().addr();
    let mut call = made(Box::pin(async move { store.accept(&messages).await }));
    assert_eq!(world.inner.address(), address);
    world.inner.answer(0);
    let Poll::Ready(Ok(outcomes)) = poll(&mut call) else { panic!("it has been answered") };
    assert_eq!(numbers(&outcomes), [1, 2]);
}

#[tokio::test(crate = "crate::timed")]
async fn what_has_gathered_goes_together_when_a_place_is_free() {
    let world = World::busy().await;
    let waiting = [world.accept([3]), world.accept([4, 5]), world.accept([6])];
    assert_eq!(world.later_calls().await.len(), 0);
    world.free([0]).await;
    assert_eq!(world.later_calls().await, [[3, 4, 5, 6]]);
    // Both places are taken again.
    let late = [world.accept([7]), world.accept([8])];
    assert_eq!(world.later_calls().await.len(), 1);
    world.free([10]).await;
    assert_eq!(world.later_calls().await[1], [7, 8]);
    for (call, expected) in waiting.into_iter().zip([&[3][..], &[4, 5], &[6]]) {
        assert_eq!(numbers(&call.await.unwrap()), expected);
    }
    world.free([11]).await;
    for (call, expected) in late.into_iter().zip([7, 8]) {
        assert_eq!(numbers(&call.await.unwrap()), [expected]);
    }
}

#[tokio::test(crate = "crate::timed")]
async fn who_has_been_answered_may_join_the_next_group() {
    let world = World::busy().await;
    for item in [3, 4] {
        let (first, next) = (world.accept_later([item]), world.accept_later([10 * item]));
        tokio::spawn(async move {
            first.await.unwrap();
            next.await.unwrap();
        });
    }
    idle().await;
    world.free([0]).await;
    tokio::spawn(world.accept_later([5]));
    assert_eq!(world.later_calls().await, [[3, 4]]);
    world.free([10]).await;
    assert_eq!(world.later_calls().await[1..], [[5, 30, 40]]);
}

#[tokio::test(crate = "crate::timed")]
async fn two_groups_of_a_kind_are_under_way_unless_it_is_said_otherwise() {
    for groups in 1..4 {
        let mut options = Options::DEFAULT;
        if groups != 2 {
            options.groups_max = NonZeroUsize::new(groups).unwrap();
        }
        let world = World::with(options);
        for item in 1..=5 {
            tokio::spawn(world.accept_later([item]));
        }
        assert_eq!(world.inner.calls().await.len(), groups);
        world.free([0]).await;
        assert_eq!(world.inner.calls().await.len(), groups + 1);
        world.free([groups]).await;
        assert_eq!(world.inner.calls().await.len(), groups + 1, "nobody waits any more");
    }
}

#[tokio::test(crate = "crate::timed")]
async fn groups_follow_each_other_and_all_places_are_used_again() {
    let world = World::new();
    for round in 0..5 {
        for item in 0..10 {
            tokio::spawn(world.accept_later([round * 10 + item]));
        }
        let start = 3 * usize::try_from(round).unwrap();
        assert_eq!(world.inner.calls().await.len(), start + 2);
        world.free([start, start + 2, start + 1]).await;
    }
}

/// The sizes of the groups that these calls go in, if both places become free one after the other.
async fn sizes(world: &World, first: usize) -> Vec<usize> {
    world.free([first, first + 1]).await;
    world.later_calls().await.iter().map(Vec::len).collect()
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_has_a_bounded_number_of_items() {
    let most = GROUP_ITEMS_MAX as u64;
    let world = World::busy().await;
    let _waiting = [world.accept(1_000..1_100), world.accept(2_000..1_900 + most), world.accept([3])];
    assert_eq!(sizes(&world, 0).await, [GROUP_ITEMS_MAX, 1]);
    // Whoever has more alone goes alone, and is not split.
    let world = World::busy().await;
    let _waiting = [world.accept(1_000..1_001 + most), world.accept([3]), world.accept([4])];
    assert_eq!(sizes(&world, 0).await, [GROUP_ITEMS_MAX + 1, 2]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_has_a_bounded_payload() {
    let of = |item, bytes: u64| {
        let payload = Payload::new(vec![0; usize::try_from(bytes).unwrap()]).unwrap();
        vec![NewMessage::new(message(item).key, message(item).content.topic, payload)]
    };
    let world = World::busy().await;
    let half = GROUP_BYTES_MAX / 2;
    let _waiting = [of(3, half), of(4, half), of(5, 1)].map(|messages| world.accept_messages(messages));
    assert_eq!(sizes(&world, 0).await, [2, 1]);
    // Whoever is over it alone goes alone, and is not split.
    let world = World::busy().await;
    let big = [of(3, half), of(4, half), of(5, 1)].concat();
    let _waiting = [big, of(6, 0), of(7, 0)].map(|messages| world.accept_messages(messages));
    assert_eq!(sizes(&world, 0).await, [3, 2]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_group_claims_as_many_messages_as_a_call_may_claim() {
    let world = World::new();
    let under_way = [world.work(vec![settlement(1)], vec![]), world.work(vec![settlement(2)], vec![])];
    let _waiting = [6_000, 4_000, 1].map(|messages| world.work(vec![], vec![claim(7, messages)]));
    drop(under_way);
    let sizes: Vec<_> = world.inner.calls().await.iter().map(Vec::len).collect();
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
async fn a_key_is_never_in_two_calls_under_way_and_its_calls_keep_their_order() {
    let world = World::busy().await;
    let mut waiting = [3, 3, 4, 3].map(|item| Some(world.accept([item])));
    world.free([0, 1]).await;
    assert_eq!(world.later_calls().await, [[3, 4]], "a place is free, but 3 is under way");
    world.free([10]).await;
    assert_eq!(world.later_calls().await[1..], [[3]]);
    assert_eq!(answered(&mut waiting), [true, false, true, false]);
    world.free([11]).await;
    assert_eq!(world.later_calls().await[2..], [[3]]);
    assert_eq!(answered(&mut waiting), [true, true, true, false]);
    world.free([12]).await;
    assert_eq!(answered(&mut waiting), [true; 4]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_call_waits_for_its_key_though_a_place_is_free_and_others_do_not() {
    let world = World::new();
    tokio::spawn(world.accept_later([1]));
    world.inner.call(0).await;
    let _waiting = world.accept([1]);
    assert_eq!(world.inner.calls().await, [[1]]);
    tokio::spawn(world.accept_later([2]));
    assert_eq!(world.inner.calls().await, [[1], [2]]);
    world.free([1, 0]).await;
    assert_eq!(world.inner.calls().await, [[1], [2], [1]]);
}

#[tokio::test(crate = "crate::timed")]
async fn nobody_passes_who_waits_for_the_same_key() {
    let world = World::new();
    tokio::spawn(world.accept_later([1]));
    world.inner.call(0).await;
    // 2 is free, but whoever came first has not had it yet; 3 is nobody's business.
    let mut waiting =
        [world.accept([1, 2]), world.accept([2]), world.accept([3, 2]), world.accept([1])].map(Some);
    tokio::spawn(world.accept_later([4]));
    assert_eq!(world.inner.calls().await, [vec![1], vec![4]]);
    world.free([1, 0]).await;
    assert_eq!(world.inner.calls().await[2..], [[1, 2]]);
    world.free([2]).await;
    assert_eq!(world.inner.calls().await[3..], [[2, 1]]);
    assert_eq!(answered(&mut waiting), [true, false, false, false]);
    world.free([3]).await;
    assert_eq!(world.inner.calls().await[4..], [[3, 2]]);
    world.free([4]).await;
    assert_eq!(answered(&mut waiting), [true; 4]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_key_twice_in_one_call_is_that_calls_own_business() {
    let world = World::busy().await;
    let _waiting = [world.accept([3, 3]), world.accept([4, 3, 4]), world.accept([5])];
    world.free([0]).await;
    assert_eq!(world.later_calls().await, [[3, 3, 5]]);
    world.free([10]).await;
    assert_eq!(world.later_calls().await[1..], [[4, 3, 4]]);
}

#[tokio::test(crate = "crate::timed")]
async fn a_given_uid_is_never_in_two_calls_under_way() {
    let world = World::busy().await;
    let with_uid = |item| vec![NewMessage { uid: Some(Uid::from_u128(9)), ..message(item) }];
    let _waiting =
        [with_uid(3), with_uid(4), vec![message(5)]].map(|messages| world.accept_messages(messages));
    world.free([0]).await;
    assert_eq!(world.later_calls().await, [[3, 5]]);
    world.free([10]).await;
    assert_eq!(world.later_calls().await[1..], [[4]]);
}

/// What is true of keys is true of uids and of requests: of this call twice and another one, only the first and the other go.
async fn is_kept_apart<T: Send + 'static>(make: impl Fn(&World, u64) -> Call<T>, groups: [&[u64]; 2]) {
    let world = World::busy().await;
    for item in [3, 3, 4] {
        tokio::spawn(make(&world, item));
    }
    assert_eq!(world.later_calls().await.len(), 0);
    world.inner.answer_all();
    assert_eq!(world.later_calls().await, groups);
}

#[tokio::test(crate = "crate::timed")]
async fn every_kind_keeps_apart_what_is_about_the_same() {
    let apart: [&[u64]; 2] = [&[3, 4], &[3]];
    is_kept_apart(|world, item| world.accept_later([item]), apart).await;
    is_kept_apart(|world, item| world.extend_later([item]), apart).await;
    is_kept_apart(|world, item| world.work_later(vec![settlement(item)], vec![]), apart).await;
    is_kept_apart(|world, item| world.observe_later([item]), apart).await;
    is_kept_apart(|world, item| world.begin_later([item]), apart).await;
    let requested = |item: u64| Claim { request: Some(RequestId::from_u128(1)), ..claim(item, 1) };
    is_kept_apart(|world, item| world.work_later(vec![], vec![requested(item)]), apart).await;
}

#[tokio::test(crate = "crate::timed")]
async fn claims_without_a_request_go_together_whoever_makes_them() {
    let world = World::busy().await;
    for _ in 0..3 {
        tokio::spawn(world.work_later(vec![], vec![claim(3, 1)]));
    }
    assert_eq!(world.later_calls().await.len(), 0);
    world.inner.answer_all();
    assert_eq!(world.later_calls().await, [[3, 3, 3]]);
}

/// A heartbeat must not stand behind a settlement.
#[tokio::test(crate = "crate::timed")]
async fn kinds_do_not_wait_for_each_other() {
    let world = World::new();
    let _settling = world.work(vec![settlement(1)], vec![]);
    let _extending = world.extend([1]);
    let _accepting = [world.accept([1]), world.accept([2]), world.accept([3])];
    let (_observing, _beginning) = (made(world.observe_later([1])), made(world.begin_later([1])));
    assert_eq!(world.inner.calls().await.len(), 6, "all but the third accept");
}

#[tokio::test(crate = "crate::timed")]
async fn everything_else_passes_and_an_empty_call_does_not_wait() {
    let world = World::busy().await;
    world.inner.refuse(u64::MAX);
    assert!(world.store.capabilities().atomic_calls);
    assert_eq!(world.store.accept(&[]).await.unwrap(), []);
    assert_eq!(world.store.extend(&[]).await.unwrap(), []);
    assert_eq!(world.store.work(&[], &[]).await.unwrap(), oncebox_core::Worked::default());
    assert_eq!(world.store.get(&[key(1).into()]).await.unwrap(), [None]);
    assert_eq!(world.store.usage().await.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(world.later_calls().await.len(), 4);
}
