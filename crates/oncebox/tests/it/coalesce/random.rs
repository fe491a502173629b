//! Many tasks, random calls, callers that lose patience: every outcome belongs to its item, and nothing meets what it must not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncebox_core::{Claim, Extended, Observed, RequestId, Settled, Timestamp};
use oncebox_testkit::SplitMix;

use super::inner::Mode;
use super::items::{claim, receipt, settlement};
use super::world::{Call, World, numbers};

const TASKS: u64 = 24;
const CALLS: usize = 400;
/// So few that they meet all the time.
const ITEMS: u64 = 60;

/// The outcome of a call, unless its caller leaves after so many turns.
async fn patiently<T>(call: Call<T>, random: &mut SplitMix) -> Option<T> {
    if random.below(3) > 0 {
        return Some(call.await.expect("nothing fails here"));
    }
    let turns = random.below(8);
    let patience = async {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = call => Some(answer.expect("nothing fails here")),
        () = patience => None,
    }
}

fn some_items(random: &mut SplitMix) -> Vec<u64> {
    let items: BTreeSet<_> = (0..=random.below(4)).map(|_| 1 + random.below(ITEMS)).collect();
    items.into_iter().collect()
}

/// Makes a random call, and tells whether it was answered.
async fn make(world: &World, random: &mut SplitMix) -> bool {
    let items = some_items(random);
    let times = || items.iter().map(|item| Timestamp::from_millis(*item));
    match random.below(4) {
        0 => {
            let outcomes = patiently(world.accept_later(items.clone()), random).await;
            outcomes.inspect(|outcomes| assert_eq!(numbers(outcomes), items)).is_some()
        }
        1 => {
            let outcomes = patiently(world.observe_later(items.clone()), random).await;
            let expected: Vec<_> = items.iter().map(|item| Observed::First(receipt(*item))).collect();
            outcomes.inspect(|outcomes| assert_eq!(*outcomes, expected)).is_some()
        }
        2 => {
            let outcomes = patiently(world.extend_later(items.clone()), random).await;
            let expected: Vec<_> = times().map(Extended::Until).collect();
            outcomes.inspect(|outcomes| assert_eq!(*outcomes, expected)).is_some()
        }
        _ => {
            let settlements = items.iter().map(|item| settlement(*item)).collect();
            // Claims are noted by their owners, which have a range of their own.
            let owners = some_items(random);
            let claims =
                owners.iter().map(|owner| requested(1_000 + owner, 1 + u32::try_from(owner % 3).unwrap()));
            let worked = patiently(world.work_later(settlements, claims.collect()), random).await;
            let Some(worked) = worked else { return false };
            assert_eq!(worked.settled, times().map(|at| Settled::Retrying { at }).collect::<Vec<_>>());
            assert_eq!(worked.deliveries.len(), owners.len());
            for (deliveries, owner) in worked.deliveries.iter().zip(owners) {
                let count = 1 + usize::try_from(owner % 3).unwrap();
                assert_eq!(deliveries.len(), count);
                assert!(
                    deliveries.iter().all(|delivery| delivery.uid.as_u128() == u128::from(1_000 + owner))
                );
            }
            true
        }
    }
}

#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_calls_get_their_own_outcomes_and_none_meets_another_about_the_same() {
    let world = Arc::new(World::new());
    world.inner.set(Mode::Checking);
    let answered = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            let (world, answered) = (world.clone(), answered.clone());
            tokio::spawn(async move {
                let mut random = SplitMix::new(seed);
                for _ in 0..CALLS {
                    if make(&world, &mut random).await {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        // Only a hang is ever so late.
        tokio::time::timeout(Duration::from_secs(120), task).await.expect("nobody hangs").unwrap();
    }
    assert_eq!(world.inner.met(), []);
    let (calls, answered) = (world.inner.calls().await.len(), answered.load(Ordering::Relaxed));
    assert!(answered * 2 > CALLS * usize::try_from(TASKS).unwrap(), "{answered} answered");
    assert!(calls < answered, "{calls} calls of the store for {answered} that were answered");
    // Nothing is left behind. Groups whose callers left may be on their way still: whoever has every item comes after them.
    let all = || 1..=ITEMS;
    let settle = |items: std::ops::RangeInclusive<u64>| items.map(settlement).collect::<Vec<_>>();
    world.accept_later(all()).await.unwrap();
    world.observe_later(all()).await.unwrap();
    world.extend_later(all()).await.unwrap();
    let claims = all().map(|owner| requested(1_000 + owner, 1)).collect();
    world.work_later(settle(all()), claims).await.unwrap();
    // Every place is free: as many calls as may be are under way at once. One after another, for two that come while a group
    // gathers go together.
    world.inner.set(Mode::Told);
    let mut calls = world.inner.calls().await.len();
    for items in [all(), ITEMS + 1..=2 * ITEMS] {
        under_way(&world, &mut calls, world.accept_later(items.clone())).await;
        under_way(&world, &mut calls, world.observe_later(items.clone())).await;
        under_way(&world, &mut calls, world.extend_later(items.clone())).await;
        under_way(&world, &mut calls, world.work_later(settle(items), vec![])).await;
    }
}

/// Makes a call, the one with this number, and waits until it has reached the store.
async fn under_way<T: Send + 'static>(world: &World, number: &mut usize, call: Call<T>) {
    tokio::spawn(call);
    let noted = world.inner.call(*number);
    tokio::time::timeout(Duration::from_secs(120), noted).await.expect("a place is free");
    *number += 1;
}

/// A claim with a request, of which there is one for each owner.
fn requested(by: u64, messages: u32) -> Claim {
    Claim { request: Some(RequestId::from_u128(1)), ..claim(by, messages) }
}
