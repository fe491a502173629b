//! What a repeat does after a call of unknown outcome: the contract of every method, kept by every store.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begun, Budget, Claim, DeadReason, Error, Extended, Kind, Observed, Operated, Order,
    PageSize, Query, ReadyTopics, Ref, RequestId, Scope, Settled, State, StoreExt, TopicQuery,
};

use super::{Fault, FaultPlan, FaultyStore, Operation};
use crate::conformance::kit::{
    Checked, Draft, LEASE, claim, error, ids, key, message, owner, seconds, sighting, span,
};
use crate::fixture::{Fixture, TestResult};

/// The fixture with a faulty store in front of its own.
fn faulty(fixture: Fixture) -> (Fixture, FaultPlan) {
    let plan = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(fixture.store, plan.clone()));
    (Fixture { store, time: fixture.time }, plan)
}

/// Checks that a call failed as one of unknown outcome.
fn lost<T: std::fmt::Debug>(answer: Checked<T>) -> TestResult {
    let error = answer.err().ok_or("the call was answered")?;
    let kind = error.downcast_ref::<Error>().map(Error::kind);
    if kind == Some(Kind::Unavailable) { Ok(()) } else { Err(error) }
}

/// A call that fails before its commit has changed nothing, whatever it was.
/// Holds: RULE-13.
pub async fn a_call_that_fails_before_changes_nothing(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.take().await?;
    let before = fixture.list(&Query::all(key("1").namespace)).await?;
    fixture.pass(seconds(1)).await;
    let order = |action| Order { target: Ref::from(key("2")), action };
    for _ in 0..7 {
        plan.next(Fault::FailBefore);
    }
    lost(fixture.observe(sighting(key("1"))).await)?;
    lost(fixture.accept(&message("3")).await)?;
    lost(fixture.try_begin(&key("4"), owner(1)).await)?;
    lost(fixture.settle(delivery.ack()).await)?;
    lost(fixture.claim(&claim(1)).await)?;
    lost(fixture.extend(delivery.extend(span(LEASE))).await)?;
    lost(fixture.store.operate(&[order(Action::Cancel)]).await.map_err(Into::into))?;
    assert_eq!(fixture.list(&Query::all(key("1").namespace)).await?, before);
    Ok(())
}

/// A message that was accepted without an answer is a duplicate of itself, with the first receipt.
/// Holds: IBX-014, CMD-04, MBX-I-2, RULE-06.
pub async fn a_lost_accept_is_repeated_as_a_duplicate(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, Fault::FailAfterCommit);
    lost(fixture.accept(&message("1")).await)?;
    let receipt = fixture.read(key("1")).await?.receipt();
    fixture.pass(seconds(1)).await;
    let again = fixture.again(&message("1")).await?;
    assert_eq!(again, Accepted::Duplicate { receipt, diverged: false });
    assert_eq!(ids(&fixture.claim(&claim(10)).await?), ["1"]);
    Ok(())
}

/// A sighting without an answer comes again, at no cost.
/// Holds: IBX-005, RULE-04.
pub async fn a_lost_sighting_comes_again(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Observe, Fault::FailAfterCommit);
    lost(fixture.observe(sighting(key("1"))).await)?;
    let seen = fixture.read(key("1")).await?;
    let again = fixture.observe(sighting(key("1"))).await?;
    assert_eq!(again, Observed::Again { receipt: seen.receipt(), diverged: false });
    assert_eq!((seen.state, seen.attempts), (State::Seen, 0));
    Ok(())
}

/// A settlement without an answer gets on repeat the answer that was lost, and counts once.
/// Holds: MBX-I-3, RULE-06, RULE-17.
pub async fn a_lost_settlement_is_answered_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2", "3", "4"].map(message)).await?;
    let deliveries = fixture.claim(&claim(4)).await?;
    let at = fixture.now().await.after(seconds(600));
    let reason = DeadReason::Failed;
    for (settlement, expected) in [
        (deliveries[0].ack(), Settled::Done),
        (deliveries[1].abandon(span(seconds(600)), error("boom")), Settled::Retrying { at }),
        (deliveries[2].fail(error("boom")), Settled::Dead { reason }),
        (deliveries[3].release(), Settled::Released),
    ] {
        plan.next_of(Operation::Work, Fault::FailAfterCommit);
        lost(fixture.settle(settlement.clone()).await)?;
        let before = fixture.read(settlement.uid).await?;
        assert_eq!(fixture.settle(settlement.clone()).await?, expected);
        assert_eq!(fixture.read(settlement.uid).await?, before);
    }
    Ok(())
}

/// A settlement that failed before its commit counts when it is repeated under the same lease.
/// Holds: RULE-05, RULE-06.
pub async fn a_settlement_that_failed_before_counts_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    plan.next_of(Operation::Work, Fault::FailBefore);
    lost(fixture.settle(delivery.ack()).await)?;
    assert_eq!(fixture.read(delivery.uid).await?.lease(), Some(&delivery.lease));
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A claim without an answer gets its deliveries on repeat, if it has a request id.
/// Holds: RULE-06.
pub async fn a_lost_claim_gets_its_deliveries_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(2) };
    plan.next_of(Operation::Work, Fault::FailAfterCommit);
    lost(fixture.claim(&request).await)?;
    let deliveries = fixture.claim(&request).await?;
    assert_eq!(ids(&deliveries), ["1", "2"]);
    for delivery in deliveries {
        assert_eq!((delivery.attempts, delivery.deliveries), (0, 1));
        assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    }
    Ok(())
}

/// A claim without an answer and without a request id claims other messages; the first come back with their leases.
/// Holds: MBX-I-1, RULE-06, RULE-07.
pub async fn a_lost_claim_without_a_request_id_comes_back(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2"].map(message)).await?;
    plan.next_of(Operation::Work, Fault::FailAfterCommit);
    lost(fixture.claim(&claim(1)).await)?;
    assert_eq!(fixture.take().await?.key.id.as_str(), "2");
    fixture.pass(LEASE).await;
    let again = fixture.take().await?;
    assert_eq!((again.key.id.as_str(), again.attempts), ("1", 1));
    Ok(())
}

/// A call of work without an answer is repeated whole: what it settled and what it claimed are the same again.
/// Holds: RULE-06, RULE-13.
pub async fn a_lost_call_of_work_is_repeated_whole(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let delivery = fixture.take().await?;
    let (settlements, claims) =
        ([delivery.ack()], [Claim { request: Some(RequestId::from_u128(5)), ..claim(1) }]);
    plan.next_of(Operation::Work, Fault::FailAfterCommit);
    lost(fixture.store.work(&settlements, &claims).await.map_err(Into::into))?;
    let worked = fixture.store.work(&settlements, &claims).await?;
    assert_eq!(worked.settled, [Settled::Done]);
    assert_eq!(ids(&worked.deliveries[0]), ["2"]);
    Ok(())
}

/// An order without an answer changes nothing on repeat; an erased message is unknown.
/// Holds: RULE-04.
pub async fn a_lost_order_is_unchanged_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    for action in [Action::Cancel, Action::REDRIVE] {
        plan.next_of(Operation::Operate, Fault::FailAfterCommit);
        lost(fixture.order(key("1"), action.clone()).await)?;
        let before = fixture.read(key("1")).await?;
        assert_eq!(fixture.order(key("1"), action).await?, Operated::Unchanged(before.receipt()));
        assert_eq!(fixture.read(key("1")).await?, before);
    }
    plan.next_of(Operation::Operate, Fault::FailAfterCommit);
    lost(fixture.order(key("1"), Action::Erase).await)?;
    assert_eq!(fixture.order(key("1"), Action::Erase).await?, Operated::Unknown);
    Ok(())
}

/// A key that was leased without an answer is busy until that lease ends, for its owner too.
/// Holds: LDG-05, RULE-16.
pub async fn a_lost_begin_is_busy_until_its_lease_ends(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Begin, Fault::FailAfterCommit);
    lost(fixture.try_begin(&key("1"), owner(1)).await)?;
    let until = fixture.now().await.after(LEASE);
    assert_eq!(fixture.try_begin(&key("1"), owner(1)).await?, Begun::Busy { until });
    fixture.pass(LEASE).await;
    fixture.begin(&key("1")).await?;
    Ok(())
}

/// An extension and upkeep without an answer are repeated without harm.
/// Holds: RULE-05.
pub async fn a_lost_extension_and_upkeep_are_harmless(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    plan.next_of(Operation::Extend, Fault::FailAfterCommit);
    lost(fixture.extend(delivery.extend(span(LEASE * 2))).await)?;
    let until = fixture.now().await.after(LEASE * 2);
    assert_eq!(fixture.extend(delivery.extend(span(LEASE * 2))).await?, Extended::Until(until));
    plan.next_of(Operation::Upkeep, Fault::FailAfterCommit);
    lost(fixture.upkeep(&Budget::new(10)).await)?;
    fixture.upkeep(&Budget::new(10)).await?;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A read that fails before or after it was made changes nothing, and the next one is answered.
/// Holds: RULE-13.
pub async fn a_lost_read_is_read_again(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let namespace = key("1").namespace;
    let (query, topics) = (Query::all(namespace), ReadyTopics::first(namespace));
    let (scope, counted) = (Scope::all(namespace), TopicQuery::first(namespace));
    let (store, target) = (&fixture.store, [Ref::from(key("1"))]);
    let before = (
        store.get(&target).await?,
        store.page(&query).await?,
        store.counts(&scope).await?,
        store.ready_topics(&topics).await?,
        store.usage().await?,
        store.topic_counts(&counted).await?,
        store.with_key(&key("1"), PageSize::MAX).await?,
    );
    let reads = [
        Operation::Get,
        Operation::WithKey,
        Operation::Page,
        Operation::Counts,
        Operation::ReadyTopics,
        Operation::Usage,
        Operation::TopicCounts,
    ];
    for fault in [Fault::FailBefore, Fault::FailAfterCommit] {
        for operation in reads {
            plan.next_of(operation, fault);
        }
        lost(store.get(&target).await.map_err(Into::into))?;
        lost(store.with_key(&key("1"), PageSize::MAX).await.map_err(Into::into))?;
        lost(store.page(&query).await.map_err(Into::into))?;
        lost(store.counts(&scope).await.map_err(Into::into))?;
        lost(store.ready_topics(&topics).await.map_err(Into::into))?;
        lost(store.usage().await.map_err(Into::into))?;
        lost(store.topic_counts(&counted).await.map_err(Into::into))?;
        assert_eq!(plan.left(), 0);
    }
    assert_eq!(store.get(&target).await?, before.0);
    assert_eq!(store.page(&query).await?, before.1);
    assert_eq!(store.counts(&scope).await?, before.2);
    assert_eq!(store.ready_topics(&topics).await?, before.3);
    assert_eq!(store.usage().await?, before.4);
    assert_eq!(store.topic_counts(&counted).await?, before.5);
    assert_eq!(store.with_key(&key("1"), PageSize::MAX).await?, before.6);
    Ok(())
}

/// A caller that gives up while its call is delayed has called nothing.
/// Holds: RULE-13.
pub async fn a_delayed_call_that_is_given_up_did_nothing(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, Fault::Delay(seconds(3_600)));
    let given_up = tokio::time::timeout(Duration::ZERO, fixture.accept(&message("1"))).await;
    assert!(given_up.is_err());
    assert_eq!(fixture.find(key("1")).await?, None);
    plan.next_of(Operation::Accept, Fault::Delay(Duration::ZERO));
    fixture.accept(&message("1")).await?;
    Ok(())
}

/// A caller that gives up a call that never answers finds on repeat that it happened.
/// Holds: IBX-014, RULE-06.
pub async fn a_call_that_never_answers_happened(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, Fault::Hang);
    let store = fixture.store.clone();
    let hanging = tokio::spawn(async move { store.accept_one(&message("1").correlation("first")).await });
    let stored = loop {
        match fixture.find(key("1")).await? {
            Some(stored) => break stored,
            None if hanging.is_finished() => return Err("the call was answered".into()),
            None => tokio::task::yield_now().await,
        }
    };
    assert!(!hanging.is_finished());
    hanging.abort();
    let again = fixture.again(&message("1")).await?;
    assert_eq!(again, Accepted::Duplicate { receipt: stored.receipt(), diverged: false });
    Ok(())
}
