//! Attempts: which deliveries count as failed, and what happens at the limit.

use std::num::NonZeroU32;

use oncebox_core::{Claim, DeadReason, LastError, MessageState, Namespace, Policy, Settled};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, TICK, claim, claim_in, days, error, key_in, message, message_for, span};

/// The abandon that spends the last attempt makes the message Dead, with its attempts and error for inspection.
/// Holds: MBX-I-1, MBX-I-4, RULE-07.
/// Replays L-T7.
pub async fn the_last_abandon_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(3)).await?;
    for _ in 0..2 {
        let delivery = fixture.claim_one().await?;
        let settled = fixture.settle(delivery.abandon(span(TICK), error("early"))).await?;
        assert!(matches!(settled, Settled::Retrying { .. }), "{settled:?}");
        fixture.advance(TICK).await;
    }
    let delivery = fixture.claim_one().await?;
    let settled = fixture.settle(delivery.abandon(span(TICK), error("last"))).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Exhausted)));
    assert_eq!((dead.attempts, dead.deliveries, dead.last_error), (3, 3, error("last")));
    assert_eq!((dead.finished_at, dead.retry_at), (Some(fixture.now().await), None));
    fixture.advance(days(1)).await;
    fixture.expect_claimable(&[]).await
}

/// The lease that lapses with the last attempt makes the message Dead at the end of the lease, whenever that is
/// noticed.
/// Holds: CMD-20, MBX-I-1, MBX-I-4, RULE-05, RULE-07.
pub async fn the_last_lapse_makes_a_message_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(2)).await?;
    fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let delivery = fixture.claim_one().await?;
    assert_eq!(
        delivery.last_error,
        Some(LastError::lapsed()),
        "the next worker sees why the last delivery failed"
    );
    fixture.advance(days(1)).await;
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Exhausted)));
    assert_eq!((dead.attempts, dead.finished_at), (2, Some(delivery.lease.until)));
    assert_eq!(dead.last_error, Some(LastError::lapsed()));
    fixture.expect_claimable(&[]).await
}

/// Releases do not count towards the limit.
/// Holds: RULE-07.
pub async fn releases_do_not_count_towards_the_limit(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(2)).await?;
    fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    for _ in 0..5 {
        let delivery = fixture.claim_one().await?;
        assert_eq!(delivery.attempts, 1);
        fixture.settle(delivery.release()).await?;
    }
    fixture.expect_claimable(&["1"]).await
}

/// The ledger has no limit of attempts: its messages are never exhausted.
/// Holds: RULE-07.
pub async fn in_the_ledger_nothing_is_exhausted(fixture: Fixture) -> TestResult {
    let key = key_in(Namespace::Ledger, "shop", "1");
    fixture.accept(&message_for(key)).await?;
    for attempts in 0..30 {
        let delivery = fixture.claim_one_by(&claim_in(Namespace::Ledger, 1)).await?;
        assert_eq!(delivery.attempts, attempts);
        fixture.settle(delivery.abandon(span(TICK), None)).await?;
        fixture.advance(TICK).await;
    }
    Ok(())
}

/// The sender's limit applies if there is one; else the claimer's, whether the worker reports a failure or its lease
/// lapses; else the default of the namespace.
/// Holds: RULE-07, CMD-16.
pub async fn the_limit_is_the_sender_s_then_the_claimer_s_then_the_default(fixture: Fixture) -> TestResult {
    let cases = [
        (None, None, 10),
        (None, Some(3), 3),
        (None, Some(12), 12),
        (Some(2), Some(5), 2),
        (Some(4), Some(1), 4),
    ];
    for (number, (sender, claimer, tries)) in cases.into_iter().enumerate() {
        for silent in [false, true] {
            let id = format!("{number}-{silent}");
            let sent = message(&id).change(|message| message.policy.attempts_max = limit(sender));
            let summary = fixture.accept(&sent).await?;
            let claim = Claim { attempts_max: limit(claimer), ..claim(1) };
            let mut tried = 0;
            while let Some(delivery) = fixture.claim(&claim).await?.pop() {
                tried += 1;
                if silent {
                    fixture.advance(LEASE).await;
                } else {
                    fixture.settle(delivery.abandon(span(TICK), None)).await?;
                    fixture.advance(TICK).await;
                }
            }
            assert_eq!(tried, tries, "sender {sender:?}, claimer {claimer:?}, silent {silent}");
            assert_eq!(fixture.read(summary.uid).await?.dead, Some(DeadReason::Exhausted));
        }
    }
    Ok(())
}

/// Each lease keeps the limit of the claim that it was granted to, regardless of later claims.
/// Holds: RULE-07.
pub async fn a_lease_keeps_the_limit_of_its_claim(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let patient = Claim { attempts_max: limit(Some(5)), ..claim(1) };
    let strict = Claim { attempts_max: limit(Some(2)), ..claim(1) };
    for _ in 0..2 {
        let delivery = fixture.claim_one_by(&patient).await?;
        fixture.settle(delivery.abandon(span(TICK), None)).await?;
        fixture.advance(TICK).await;
    }
    let delivery = fixture.claim_one_by(&strict).await?;
    let settled = fixture.settle(delivery.abandon(span(TICK), None)).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    Ok(())
}

fn limit(attempts: Option<u32>) -> Option<NonZeroU32> {
    attempts.and_then(NonZeroU32::new)
}

/// The inbox allows ten attempts per message, commands five, the mailbox sixteen.
/// Holds: RULE-07.
pub async fn each_namespace_has_its_own_limit(fixture: Fixture) -> TestResult {
    for (namespace, limit) in [(Namespace::Inbox, 10), (Namespace::Commands, 5), (Namespace::Mailbox, 16)] {
        let summary = fixture.accept(&message_for(key_in(namespace, "shop", "1"))).await?;
        let mut tries = 0;
        while let Some(delivery) = fixture.claim(&claim_in(namespace, 1)).await?.pop() {
            tries += 1;
            fixture.settle(delivery.abandon(span(TICK), None)).await?;
            fixture.advance(TICK).await;
        }
        assert_eq!(tries, limit, "{namespace}");
        assert_eq!(fixture.read(summary.uid).await?.state, MessageState::Dead);
    }
    Ok(())
}

/// The limit is set when the message is accepted; a later duplicate does not change it.
/// Holds: RULE-07, RULE-08.
pub async fn the_limit_is_set_at_acceptance(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    fixture.accept_again(&message("1").payload("second").attempts_max(9)).await?;
    fixture
        .accept_again(&message("1").payload("second").change(|message| message.policy = Policy::COMMANDS))
        .await?;
    let delivery = fixture.claim_one().await?;
    let settled = fixture.settle(delivery.abandon(span(TICK), None)).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
    Ok(())
}
