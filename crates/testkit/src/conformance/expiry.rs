//! Expiry: when a message is too old to be processed.

use oncebox_core::{DeadReason, MessageState, Settled};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, TICK, claim, days, error, key, message, seconds, span};

const EXPIRED: Settled = Settled::Dead { reason: DeadReason::Expired };

/// A message that is not leased is Dead from its expiry on, to the millisecond, and no attempt is spent.
/// Holds: RULE-05, RULE-12, RULE-23.
pub async fn a_message_expires_at_its_instant(fixture: Fixture) -> TestResult {
    let expires = fixture.now().await.after(seconds(10));
    let summary = fixture.accept(&message("1").expires(expires)).await?;
    fixture.advance_almost(seconds(10)).await;
    assert_eq!(fixture.read(summary.uid).await?.state, MessageState::Processing);
    fixture.expect_claimable(&["1"]).await?;
    fixture.advance(seconds(5)).await;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    let dead = fixture.read(summary.uid).await?;
    assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Expired)));
    assert_eq!((dead.finished_at, dead.attempts), (Some(expires), 0));
    Ok(())
}

/// At the instant of its expiry, a message has expired.
/// Holds: RULE-12.
pub async fn an_expired_message_is_not_claimed_at_its_instant(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(seconds(10)))).await?;
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    assert_eq!(fixture.read(key("1")).await?.dead, Some(DeadReason::Expired));
    Ok(())
}

/// A message that had expired before it was accepted is never delivered.
/// Holds: RULE-12.
pub async fn a_message_may_be_expired_when_it_is_accepted(fixture: Fixture) -> TestResult {
    let expires = fixture.now().await;
    fixture.advance(seconds(1)).await;
    let summary = fixture.accept(&message("1").expires(expires)).await?;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    let dead = fixture.read(summary.uid).await?;
    assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Expired)));
    assert_eq!(dead.finished_at, Some(summary.accepted_at));
    Ok(())
}

/// A message also expires while it waits for its due time or its retry time.
/// Holds: RULE-12.
pub async fn a_waiting_message_expires(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    let expires = now.after(seconds(10));
    fixture.accept(&message("1").expires(expires)).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(days(1)), None)).await?;
    fixture.accept(&message("2").expires(expires).due(now.after(days(1)))).await?;
    fixture.advance(seconds(10)).await;
    for (id, attempts) in [("1", 1), ("2", 0)] {
        let dead = fixture.read(key(id)).await?;
        assert_eq!((dead.dead, dead.attempts, dead.retry_at), (Some(DeadReason::Expired), attempts, None));
    }
    Ok(())
}

/// Expiry does not end a current lease: its worker can still acknowledge.
/// Holds: RULE-12.
pub async fn expiry_does_not_end_a_lease(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(seconds(10)))).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance_almost(LEASE).await;
    let leased = fixture.read(delivery.uid).await?;
    assert_eq!((leased.state, leased.lease()), (MessageState::Processing, Some(&delivery.lease)));
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A message that expired during its lease is Dead when it is abandoned; no attempt is spent, the error is kept.
/// Holds: RULE-12.
pub async fn an_expired_message_dies_when_it_is_abandoned(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(seconds(10))).attempts_max(1)).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.settle(delivery.abandon(span(TICK), error("boom"))).await?, EXPIRED);
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Expired), 0));
    assert_eq!((dead.finished_at, dead.last_error), (Some(fixture.now().await), error("boom")));
    Ok(())
}

/// A message that expired during its lease is Dead when it is released.
/// Holds: RULE-12.
pub async fn an_expired_message_dies_when_it_is_released(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(seconds(10)))).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.settle(delivery.release()).await?, EXPIRED);
    assert_eq!(fixture.read(delivery.uid).await?.attempts, 0);
    Ok(())
}

/// A message that expired during a lease that lapses is Dead from the end of the lease on, and an attempt is spent.
/// Holds: RULE-07, RULE-12.
pub async fn an_expired_message_dies_when_its_lease_ends(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(seconds(10)))).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(days(1)).await;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Expired), 1));
    assert_eq!(dead.finished_at, Some(delivery.lease.until));
    Ok(())
}

/// If a lease ends at the instant of the expiry, the end of the lease takes effect first.
/// Holds: RULE-07, RULE-12.
pub async fn a_lease_ends_before_its_message_expires(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").expires(fixture.now().await.after(LEASE)).attempts_max(1)).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.dead, dead.attempts), (Some(DeadReason::Exhausted), 1));
    Ok(())
}

/// Newer content sets its own expiry.
/// Holds: RULE-08, RULE-12.
pub async fn a_replaced_message_has_a_new_expiry(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    fixture.accept(&message("1").expires(now.after(seconds(10)))).await?;
    fixture.accept_again(&message("1").payload("second").expires(now.after(seconds(60)))).await?;
    fixture.advance_almost(seconds(60)).await;
    fixture.expect_claimable(&["1"]).await?;
    fixture.advance(TICK).await;
    fixture.expect_claimable(&[]).await
}
