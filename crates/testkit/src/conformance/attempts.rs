//! Attempts: which deliveries count as ended badly, and what happens at the limit.

use oncebox_core::{DeadReason, LastError, Namespace, Policy, Settled, State};

use super::kit::{Draft, LEASE, TICK, claim_in, days, error, key_in, message, message_for, span};
use crate::fixture::{Fixture, TestResult};

/// The abandon that spends the last attempt makes the message Dead, with the count and the error to look at.
/// Holds: MBX-I-1, MBX-I-4, RULE-07.
/// Replays L-T7.
pub async fn the_last_abandon_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(3)).await?;
    for _ in 0..2 {
        let delivery = fixture.take().await?;
        let settled = fixture.settle(delivery.abandon(span(TICK), error("early"))).await?;
        assert!(matches!(settled, Settled::Retrying { .. }), "{settled:?}");
        fixture.pass(TICK).await;
    }
    let delivery = fixture.take().await?;
    let settled = fixture.settle(delivery.abandon(span(TICK), error("last"))).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.state, dead.dead), (State::Dead, Some(DeadReason::Exhausted)));
    assert_eq!((dead.attempts, dead.deliveries, dead.last_error), (3, 3, error("last")));
    assert_eq!((dead.finished_at, dead.retry_at), (Some(fixture.now().await), None));
    fixture.pass(days(1)).await;
    fixture.expect_claimable(&[]).await
}

/// The lease that lapses with the last attempt makes the message Dead at the lease's end, whoever notices when.
/// Holds: CMD-20, MBX-I-1, MBX-I-4, RULE-05, RULE-07.
pub async fn the_last_lapse_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(2)).await?;
    fixture.take().await?;
    fixture.pass(LEASE).await;
    let delivery = fixture.take().await?;
    assert_eq!(
        delivery.last_error,
        Some(LastError::lapsed()),
        "the next worker sees what became of the one before"
    );
    fixture.pass(days(1)).await;
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.state, dead.dead), (State::Dead, Some(DeadReason::Exhausted)));
    assert_eq!((dead.attempts, dead.finished_at), (2, Some(delivery.lease.until)));
    assert_eq!(dead.last_error, Some(LastError::lapsed()));
    fixture.expect_claimable(&[]).await
}

/// Releases never lead to the limit.
/// Holds: RULE-07.
pub async fn releases_do_not_count_towards_the_limit(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(2)).await?;
    fixture.take().await?;
    fixture.pass(LEASE).await;
    for _ in 0..5 {
        let delivery = fixture.take().await?;
        assert_eq!(delivery.attempts, 1);
        fixture.settle(delivery.release()).await?;
    }
    fixture.expect_claimable(&["1"]).await
}

/// A message without a limit of attempts never dies of them.
/// Holds: RULE-07.
pub async fn without_a_limit_nothing_is_exhausted(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").change(|message| message.policy.attempts_max = None)).await?;
    for attempts in 0..30 {
        let delivery = fixture.take().await?;
        assert_eq!(delivery.attempts, attempts);
        fixture.settle(delivery.abandon(span(TICK), None)).await?;
        fixture.pass(TICK).await;
    }
    Ok(())
}

/// The inbox gives a message ten attempts, commands and mailbox give five.
/// Holds: RULE-07.
pub async fn each_face_has_its_own_limit(fixture: Fixture) -> TestResult {
    for (namespace, limit) in [(Namespace::Inbox, 10), (Namespace::Commands, 5), (Namespace::Mailbox, 5)] {
        let receipt = fixture.accept(&message_for(key_in(namespace, "shop", "1"))).await?;
        let mut tries = 0;
        while let Some(delivery) = fixture.claim(&claim_in(namespace, 1)).await?.pop() {
            tries += 1;
            fixture.settle(delivery.abandon(span(TICK), None)).await?;
            fixture.pass(TICK).await;
        }
        assert_eq!(tries, limit, "{namespace}");
        assert_eq!(fixture.read(receipt.uid).await?.state, State::Dead);
    }
    Ok(())
}

/// The limit is that of the message's acceptance; a later duplicate brings no other.
/// Holds: RULE-07, RULE-08.
pub async fn the_limit_is_set_at_acceptance(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    fixture.again(&message("1").payload("second").attempts_max(9)).await?;
    fixture
        .again(&message("1").payload("second").change(|message| message.policy = Policy::COMMANDS))
        .await?;
    let delivery = fixture.take().await?;
    let settled = fixture.settle(delivery.abandon(span(TICK), None)).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    Ok(())
}
