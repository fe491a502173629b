//! Many tasks with random calls and callers that give up: every caller gets its own outcomes, and conflicting calls
//! never overlap.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncebox_core::{Claim, Extended, Observed, RequestId, Settled, Timestamp};
use oncebox_testkit::SplitMix;

use super::harness::{Call, Harness, numbers};
use super::items::{claim, settlement, summary};
use super::mock_store::Mode;

const TASKS: u64 = 24;
const CALLS: usize = 400;
/// Few enough that calls conflict all the time.
const ITEMS: u64 = 60;

/// The outcome of a call, unless its caller gives up after a random number of yields.
async fn wait_or_give_up<T>(call: Call<T>, random: &mut SplitMix) -> Option<T> {
    if random.below(3) > 0 {
        return Some(call.await.expect("nothing fails here"));
    }
    let yields = random.below(8);
    let give_up = async {
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = call => Some(answer.expect("nothing fails here")),
        () = give_up => None,
    }
}

fn some_items(random: &mut SplitMix) -> Vec<u64> {
    let items: BTreeSet<_> = (0..=random.below(4)).map(|_| 1 + random.below(ITEMS)).collect();
    items.into_iter().collect()
}

/// Makes a random call, and returns whether it was answered.
async fn make_call(harness: &Harness, random: &mut SplitMix) -> bool {
    let items = some_items(random);
    let times = || items.iter().map(|item| Timestamp::from_millis(*item));
    match random.below(4) {
        0 => {
            let outcomes = wait_or_give_up(harness.accept_later(items.clone()), random).await;
            outcomes.inspect(|outcomes| assert_eq!(numbers(outcomes), items)).is_some()
        }
        1 => {
            let outcomes = wait_or_give_up(harness.observe_later(items.clone()), random).await;
            let expected: Vec<_> = items.iter().map(|item| Observed::First(summary(*item))).collect();
            outcomes.inspect(|outcomes| assert_eq!(*outcomes, expected)).is_some()
        }
        2 => {
            let outcomes = wait_or_give_up(harness.extend_later(items.clone()), random).await;
            let expected: Vec<_> = times().map(Extended::Until).collect();
            outcomes.inspect(|outcomes| assert_eq!(*outcomes, expected)).is_some()
        }
        _ => {
            let settlements = items.iter().map(|item| settlement(*item)).collect();
            // Claims are recorded by their owners, which have a separate range of numbers.
            let owners = some_items(random);
            let claims =
                owners.iter().map(|owner| requested(1_000 + owner, 1 + u32::try_from(owner % 3).unwrap()));
            let worked = wait_or_give_up(harness.work_later(settlements, claims.collect()), random).await;
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
async fn thousands_of_calls_get_their_own_outcomes_without_conflicts() {
    let harness = Arc::new(Harness::new());
    harness.inner.set(Mode::Checking);
    let answered = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            let (harness, answered) = (harness.clone(), answered.clone());
            tokio::spawn(async move {
                let mut random = SplitMix::new(seed);
                for _ in 0..CALLS {
                    if make_call(&harness, &mut random).await {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        // Only a hang takes this long.
        tokio::time::timeout(Duration::from_secs(120), task).await.expect("no task hangs").unwrap();
    }
    assert_eq!(harness.inner.conflicts(), []);
    let (calls, answered) = (harness.inner.calls().await.len(), answered.load(Ordering::Relaxed));
    assert!(answered * 2 > CALLS * usize::try_from(TASKS).unwrap(), "{answered} answered");
    assert!(calls < answered, "{calls} store calls for {answered} answered calls");
    // All keys are free. Batches whose callers gave up may still be in flight; a call with all items waits for them.
    let all = || 1..=ITEMS;
    let settle = |items: std::ops::RangeInclusive<u64>| items.map(settlement).collect::<Vec<_>>();
    harness.accept_later(all()).await.unwrap();
    harness.observe_later(all()).await.unwrap();
    harness.extend_later(all()).await.unwrap();
    let claims = all().map(|owner| requested(1_000 + owner, 1)).collect();
    harness.work_later(settle(all()), claims).await.unwrap();
    // Every slot is free: as many calls as allowed are in flight at the same time. They are started one after another,
    // because two calls that arrive while a batch is collected are sent together.
    harness.inner.set(Mode::Scripted);
    let mut calls = harness.inner.calls().await.len();
    for items in [all(), ITEMS + 1..=2 * ITEMS] {
        start_and_wait(&harness, &mut calls, harness.accept_later(items.clone())).await;
        start_and_wait(&harness, &mut calls, harness.observe_later(items.clone())).await;
        start_and_wait(&harness, &mut calls, harness.extend_later(items.clone())).await;
        start_and_wait(&harness, &mut calls, harness.work_later(settle(items), vec![])).await;
    }
}

/// Starts a call, and waits until it reaches the store as the call with this number.
async fn start_and_wait<T: Send + 'static>(harness: &Harness, number: &mut usize, call: Call<T>) {
    tokio::spawn(call);
    let recorded = harness.inner.call(*number);
    tokio::time::timeout(Duration::from_secs(120), recorded).await.expect("a slot is free");
    *number += 1;
}

/// A claim with a request id; each owner has one.
fn requested(by: u64, messages: u32) -> Claim {
    Claim { request: Some(RequestId::from_u128(1)), ..claim(by, messages) }
}
