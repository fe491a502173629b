//! Every caller gets its own outcomes.

use oncebox_core::{Begun, Extended, Observed, Settled, Timestamp, Worked};

use super::harness::{Harness, numbers, started};
use super::items::{claim, settlement, summary};

#[tokio::test(crate = "crate::timed")]
async fn every_operation_returns_each_caller_its_own_outcomes() {
    let harness = Harness::busy().await;
    let accepting = [harness.accept(10..13), harness.accept([13]), harness.accept(14..16)];
    let observing = [started(harness.observe_later(10..13)), started(harness.observe_later([13]))];
    let beginning = [started(harness.begin_later([10])), started(harness.begin_later(11..14))];
    let extending = [harness.extend(10..13), harness.extend([13])];
    harness.inner.answer_all();
    for (call, expected) in accepting.into_iter().zip([10..13, 13..14, 14..16]) {
        assert_eq!(numbers(&call.await.unwrap()), expected.collect::<Vec<_>>());
    }
    for (call, expected) in observing.into_iter().zip([10..13, 13..14]) {
        let expected: Vec<_> = expected.map(|item| Observed::First(summary(item))).collect();
        assert_eq!(call.await.unwrap(), expected);
    }
    for (call, expected) in beginning.into_iter().zip([10..11, 11..14]) {
        let expected: Vec<_> = expected.map(|item| Begun::Processed(summary(item))).collect();
        assert_eq!(call.await.unwrap(), expected);
    }
    for (call, expected) in extending.into_iter().zip([10..13, 13..14]) {
        let expected: Vec<_> = expected.map(|item| Extended::Until(Timestamp::from_millis(item))).collect();
        assert_eq!(call.await.unwrap(), expected);
    }
    assert_eq!(harness.later_calls().await.len(), 4, "one batch per operation");
}

fn owners(worked: &Worked) -> Vec<Vec<u128>> {
    let owner = |delivery: &oncebox_core::Delivery| delivery.lease.owner.as_u128();
    worked.deliveries.iter().map(|deliveries| deliveries.iter().map(owner).collect()).collect()
}

#[tokio::test(crate = "crate::timed")]
async fn all_settlements_of_a_batch_come_before_its_claims() {
    let harness = Harness::busy().await;
    let both = harness.work(vec![settlement(10), settlement(11)], vec![claim(3, 2)]);
    let claims = harness.work(vec![], vec![claim(4, 1), claim(5, 3)]);
    let settles = harness.work(vec![settlement(12)], vec![]);
    harness.inner.answer_all();
    let settled = |worked: &Worked, items: &[u64]| {
        let at = |item: &u64| Settled::Retrying { at: Timestamp::from_millis(*item) };
        worked.settled == items.iter().map(at).collect::<Vec<_>>()
    };
    let (both, claims, settles) = (both.await.unwrap(), claims.await.unwrap(), settles.await.unwrap());
    assert_eq!(harness.later_calls().await, [[10, 11, 12, 3, 4, 5]]);
    assert!(settled(&both, &[10, 11]) && settled(&claims, &[]) && settled(&settles, &[12]));
    assert_eq!(owners(&both), [[3, 3]]);
    assert_eq!(owners(&claims), [vec![4], vec![5; 3]]);
    assert!(settles.deliveries.is_empty());
}
