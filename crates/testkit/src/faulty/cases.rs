//! Repeating calls with an unknown outcome: the *Repeat* clauses of the [`oncebox_core::Store`] contract.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begun, Budget, Claim, DeadReason, Error, ErrorKind, Extended, MessageQuery, MessageRef,
    MessageState, Observed, Operated, Order, PageSize, ReadyTopics, RequestId, Scope, Settled, StoreExt,
    TopicQuery,
};

use super::{FaultPlan, FaultyStore, InjectedFault, Operation};
use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, Draft, LEASE, claim, error, ids, key, message, observation, owner, seconds, span};

/// The fixture with a faulty store in front of its own.
fn faulty(fixture: Fixture) -> (Fixture, FaultPlan) {
    let plan = FaultPlan::default();
    let store = Arc::new(FaultyStore::new(fixture.store, plan.clone()));
    (Fixture { store, time: fixture.time }, plan)
}

/// Checks that a call failed with an unknown outcome.
fn lost<T: std::fmt::Debug>(answer: Checked<T>) -> TestResult {
    let error = answer.err().ok_or("the call succeeded")?;
    let kind = error.downcast_ref::<Error>().map(Error::kind);
    if kind == Some(ErrorKind::Unavailable) { Ok(()) } else { Err(error) }
}

/// A call that fails before its commit has changed nothing, whichever call it is.
/// Holds: RULE-13.
pub async fn a_call_that_fails_before_changes_nothing(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    let before = fixture.list(&MessageQuery::all(key("1").namespace)).await?;
    fixture.advance(seconds(1)).await;
    let order = |action| Order { target: MessageRef::from(key("2")), action };
    for _ in 0..7 {
        plan.next(InjectedFault::FailBefore);
    }
    lost(fixture.observe(observation(key("1"))).await)?;
    lost(fixture.accept(&message("3")).await)?;
    lost(fixture.try_begin(&key("4"), owner(1)).await)?;
    lost(fixture.settle(delivery.ack()).await)?;
    lost(fixture.claim(&claim(1)).await)?;
    lost(fixture.extend(delivery.extend(span(LEASE))).await)?;
    lost(fixture.store.operate(&[order(Action::Cancel)]).await.map_err(Into::into))?;
    assert_eq!(fixture.list(&MessageQuery::all(key("1").namespace)).await?, before);
    Ok(())
}

/// Repeating a lost accept returns a duplicate with the first summary.
/// Holds: IBX-014, CMD-04, MBX-I-2, RULE-06.
pub async fn a_lost_accept_is_repeated_as_a_duplicate(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, InjectedFault::FailAfterCommit);
    lost(fixture.accept(&message("1")).await)?;
    let summary = fixture.read(key("1")).await?.summary();
    fixture.advance(seconds(1)).await;
    let again = fixture.accept_again(&message("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary, diverged: false });
    assert_eq!(ids(&fixture.claim(&claim(10)).await?), ["1"]);
    Ok(())
}

/// Repeating a lost observation is harmless.
/// Holds: IBX-005, RULE-04.
pub async fn a_lost_observation_can_be_repeated(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Observe, InjectedFault::FailAfterCommit);
    lost(fixture.observe(observation(key("1"))).await)?;
    let seen = fixture.read(key("1")).await?;
    let again = fixture.observe(observation(key("1"))).await?;
    assert_eq!(again, Observed::Again { summary: seen.summary(), diverged: false });
    assert_eq!((seen.state, seen.attempts), (MessageState::Seen, 0));
    Ok(())
}

/// Repeating a lost settlement returns the lost outcome, and the settlement takes effect once.
/// Holds: MBX-I-3, RULE-06, RULE-17.
pub async fn a_lost_settlement_has_the_same_outcome_on_repeat(fixture: Fixture) -> TestResult {
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
        plan.next_of(Operation::Work, InjectedFault::FailAfterCommit);
        lost(fixture.settle(settlement.clone()).await)?;
        let before = fixture.read(settlement.uid).await?;
        assert_eq!(fixture.settle(settlement.clone()).await?, expected);
        assert_eq!(fixture.read(settlement.uid).await?, before);
    }
    Ok(())
}

/// A settlement that failed before its commit takes effect when it is repeated under the same lease.
/// Holds: RULE-05, RULE-06.
pub async fn a_settlement_that_failed_before_takes_effect_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    plan.next_of(Operation::Work, InjectedFault::FailBefore);
    lost(fixture.settle(delivery.ack()).await)?;
    assert_eq!(fixture.read(delivery.uid).await?.lease(), Some(&delivery.lease));
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// Repeating a lost claim with a request id returns its deliveries.
/// Holds: RULE-06.
pub async fn a_lost_claim_gets_its_deliveries_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(2) };
    plan.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    lost(fixture.claim(&request).await)?;
    let deliveries = fixture.claim(&request).await?;
    assert_eq!(ids(&deliveries), ["1", "2"]);
    for delivery in deliveries {
        assert_eq!((delivery.attempts, delivery.deliveries), (0, 1));
        assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    }
    Ok(())
}

/// Repeating a lost claim without a request id claims other messages; the first ones are redelivered after their
/// leases.
/// Holds: MBX-I-1, RULE-06, RULE-07.
pub async fn a_lost_claim_without_a_request_id_is_redelivered(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2"].map(message)).await?;
    plan.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    lost(fixture.claim(&claim(1)).await)?;
    assert_eq!(fixture.claim_one().await?.key.id.as_str(), "2");
    fixture.advance(LEASE).await;
    let again = fixture.claim_one().await?;
    assert_eq!((again.key.id.as_str(), again.attempts), ("1", 1));
    Ok(())
}

/// Repeating a lost work call returns the same outcomes and the same deliveries.
/// Holds: RULE-06, RULE-13.
pub async fn a_lost_work_call_is_repeated_as_a_whole(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let delivery = fixture.claim_one().await?;
    let (settlements, claims) =
        ([delivery.ack()], [Claim { request: Some(RequestId::from_u128(5)), ..claim(1) }]);
    plan.next_of(Operation::Work, InjectedFault::FailAfterCommit);
    lost(fixture.store.work(&settlements, &claims).await.map_err(Into::into))?;
    let worked = fixture.store.work(&settlements, &claims).await?;
    assert_eq!(worked.settled, [Settled::Done]);
    assert_eq!(ids(&worked.deliveries[0]), ["2"]);
    Ok(())
}

/// Repeating a lost order changes nothing; an erased message is unknown.
/// Holds: RULE-04.
pub async fn a_lost_order_is_unchanged_on_repeat(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    for action in [Action::Cancel, Action::REDRIVE] {
        plan.next_of(Operation::Operate, InjectedFault::FailAfterCommit);
        lost(fixture.order(key("1"), action.clone()).await)?;
        let before = fixture.read(key("1")).await?;
        assert_eq!(fixture.order(key("1"), action).await?, Operated::Unchanged(before.summary()));
        assert_eq!(fixture.read(key("1")).await?, before);
    }
    plan.next_of(Operation::Operate, InjectedFault::FailAfterCommit);
    lost(fixture.order(key("1"), Action::Erase).await)?;
    assert_eq!(fixture.order(key("1"), Action::Erase).await?, Operated::Unknown);
    Ok(())
}

/// A key that was leased by a lost begin is busy until that lease ends, even for its owner.
/// Holds: LDG-05, RULE-16.
pub async fn a_lost_begin_is_busy_until_its_lease_ends(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Begin, InjectedFault::FailAfterCommit);
    lost(fixture.try_begin(&key("1"), owner(1)).await)?;
    let until = fixture.now().await.after(LEASE);
    assert_eq!(fixture.try_begin(&key("1"), owner(1)).await?, Begun::Busy { until });
    fixture.advance(LEASE).await;
    fixture.begin(&key("1")).await?;
    Ok(())
}

/// Repeating a lost extension or lost maintenance is harmless.
/// Holds: RULE-05.
pub async fn a_lost_extension_and_maintenance_are_harmless(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    plan.next_of(Operation::Extend, InjectedFault::FailAfterCommit);
    lost(fixture.extend(delivery.extend(span(LEASE * 2))).await)?;
    let until = fixture.now().await.after(LEASE * 2);
    assert_eq!(fixture.extend(delivery.extend(span(LEASE * 2))).await?, Extended::Until(until));
    plan.next_of(Operation::Maintain, InjectedFault::FailAfterCommit);
    lost(fixture.maintain(&Budget::new(10)).await)?;
    fixture.maintain(&Budget::new(10)).await?;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A read that fails before or after it was executed changes nothing, and the next one succeeds.
/// Holds: RULE-13.
pub async fn a_lost_read_can_be_repeated(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    fixture.accept(&message("1")).await?;
    let namespace = key("1").namespace;
    let (query, topics) = (MessageQuery::all(namespace), ReadyTopics::first(namespace));
    let (scope, counted) = (Scope::all(namespace), TopicQuery::first(namespace));
    let (store, target) = (&fixture.store, [MessageRef::from(key("1"))]);
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
    for fault in [InjectedFault::FailBefore, InjectedFault::FailAfterCommit] {
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

/// A delayed call that its caller cancels has no effect.
/// Holds: RULE-13.
pub async fn a_cancelled_delayed_call_did_nothing(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, InjectedFault::Delay(seconds(3_600)));
    let given_up = tokio::time::timeout(Duration::ZERO, fixture.accept(&message("1"))).await;
    assert!(given_up.is_err());
    assert_eq!(fixture.find(key("1")).await?, None);
    plan.next_of(Operation::Accept, InjectedFault::Delay(Duration::ZERO));
    fixture.accept(&message("1")).await?;
    Ok(())
}

/// A call that never returns may have taken effect: a repeat after its cancellation shows it.
/// Holds: IBX-014, RULE-06.
pub async fn a_call_that_never_returns_took_effect(fixture: Fixture) -> TestResult {
    let (fixture, plan) = faulty(fixture);
    plan.next_of(Operation::Accept, InjectedFault::Hang);
    let store = fixture.store.clone();
    let hanging = tokio::spawn(async move { store.accept_one(&message("1").correlation("first")).await });
    let stored = loop {
        match fixture.find(key("1")).await? {
            Some(stored) => break stored,
            None if hanging.is_finished() => return Err("the call returned".into()),
            None => tokio::task::yield_now().await,
        }
    };
    assert!(!hanging.is_finished());
    hanging.abort();
    let again = fixture.accept_again(&message("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary: stored.summary(), diverged: false });
    Ok(())
}
