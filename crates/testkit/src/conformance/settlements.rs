//! Settlements: what ack, abandon, fail and release do, and which lease they need.

use oncebox_core::{
    Backoff, DeadReason, Delivery, Fence, GrantEnd, MessageState, Settled, Settlement, StoreExt, Uid,
    Verdict, VerdictKind,
};

use crate::fixture::{Fixture, SplitMix, TestResult};
use crate::kit::{Draft, TICK, claim, days, error, key, message, owner, seconds, span};

/// One settlement of each kind.
fn one_of_each(delivery: &Delivery) -> [Settlement; 4] {
    [delivery.ack(), delivery.abandon(span(seconds(1)), None), delivery.fail(None), delivery.release()]
}

/// An acknowledged message is Done now; its lease has ended, and its content is removed.
/// Holds: IBX-044, IBX-049, RULE-14.
/// Replays I-T11, L-T2, L-T39.
pub async fn an_ack_makes_a_message_done(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").correlation("story")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(seconds(5)).await;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    let done = fixture.read(delivery.uid).await?;
    assert_eq!((done.state, done.finished_at), (MessageState::Done, Some(fixture.now().await)));
    assert!(done.lease().is_none() && done.content.is_none() && done.dead.is_none());
    assert_eq!((done.attempts, done.deliveries, done.trace.correlation()), (0, 1, Some("story")));
    assert_eq!((done.key, done.fingerprint), (delivery.key, Some(delivery.fingerprint)));
    let end = done.grant.as_ref().and_then(|grant| grant.end);
    assert_eq!(end, Some(GrantEnd::Settled(VerdictKind::Ack, Settled::Done)));
    Ok(())
}

/// With `keep_finished`, a Done message keeps its content and its last error; otherwise neither.
/// Holds: RULE-14.
pub async fn a_done_message_keeps_its_content_only_if_asked(fixture: Fixture) -> TestResult {
    for keep in [true, false] {
        let sent = message(&keep.to_string()).change(|message| message.policy.keep_finished = keep);
        let summary = fixture.accept(&sent).await?;
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.abandon(span(TICK), error("boom"))).await?;
        fixture.advance(TICK).await;
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.ack()).await?;
        let done = fixture.read(summary.uid).await?;
        assert_eq!(done.content, Some(sent.content).filter(|_| keep));
        assert_eq!(done.last_error, error("boom").filter(|_| keep));
    }
    Ok(())
}

/// A settlement by another owner changes nothing, whatever its kind, without an error.
/// Holds: IBX-045, IBX-046, IBX-054, IBX-055, IBX-062, IBX-063, RULE-05.
/// Replays I-T14.
pub async fn another_owner_cannot_settle(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let before = fixture.read(delivery.uid).await?;
    let foreign = one_of_each(&delivery).map(|settlement| Settlement { owner: owner(2), ..settlement });
    assert_eq!(fixture.store.settle(&foreign).await?, [Settled::LeaseLost; 4]);
    assert_eq!(fixture.read(delivery.uid).await?, before);
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A settlement with another fence changes nothing, even by the owner.
/// Holds: RULE-05, RULE-17.
pub async fn another_fence_cannot_settle(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let released = fixture.claim_one().await?;
    fixture.settle(released.release()).await?;
    let delivery = fixture.claim_one().await?;
    let before = fixture.read(delivery.uid).await?;
    let next = Fence::new(delivery.lease.fence.get() + 1)?;
    for fence in [released.lease.fence, next] {
        let others = one_of_each(&delivery).map(|settlement| Settlement { fence, ..settlement });
        assert_eq!(fixture.store.settle(&others).await?, [Settled::LeaseLost; 4]);
    }
    assert_eq!(fixture.read(delivery.uid).await?, before);
    Ok(())
}

/// Settlements of unknown or never leased messages are ignored; the others of the call take effect.
/// Holds: IBX-046, IBX-055, IBX-063.
pub async fn unknown_messages_are_ignored(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    let waiting = fixture.read(key("2")).await?;
    let unknown = Settlement { uid: Uid::from_u128(404), ..delivery.ack() };
    let unleased = Settlement { uid: waiting.uid, ..delivery.ack() };
    let settled = fixture.store.settle(&[unknown, unleased, delivery.ack()]).await?;
    assert_eq!(settled, [Settled::LeaseLost, Settled::LeaseLost, Settled::Done]);
    assert_eq!(fixture.read(waiting.uid).await?, waiting);
    Ok(())
}

/// An abandoned message loses its lease, spends an attempt, and is redelivered after its delay, to the millisecond.
/// Holds: IBX-042, IBX-050, IBX-051, IBX-053, IBX-056, MBX-I-1.
/// Replays I-T12, L-T21, L-T22, L-T43.
pub async fn an_abandoned_message_is_redelivered_after_its_delay(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let at = fixture.now().await.after(seconds(90));
    assert_eq!(fixture.settle(delivery.abandon(span(seconds(90)), None)).await?, Settled::Retrying { at });
    let waiting = fixture.read(delivery.uid).await?;
    assert_eq!((waiting.state, waiting.attempts, waiting.retry_at), (MessageState::Processing, 1, Some(at)));
    assert!(waiting.lease().is_none());
    fixture.advance_almost(seconds(90)).await;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(TICK).await;
    let next = fixture.claim_one().await?;
    assert_eq!((next.attempts, next.deliveries), (1, 2));
    assert_eq!(fixture.read(delivery.uid).await?.retry_at, None);
    Ok(())
}

/// With the inbox's backoff, a message is redelivered after two seconds, then after four.
/// Holds: IBX-052, RULE-10.
pub async fn the_default_delays_are_two_and_four_seconds(fixture: Fixture) -> TestResult {
    let mut rng = SplitMix::new(1);
    fixture.accept(&message("1")).await?;
    for delay in [seconds(2), seconds(4)] {
        let delivery = fixture.claim_one().await?;
        let backoff = Backoff::INBOX.delay(delivery.attempts, &mut rng);
        let at = fixture.now().await.after(delay);
        assert_eq!(fixture.settle(delivery.abandon(backoff, None)).await?, Settled::Retrying { at });
        fixture.advance_almost(delay).await;
        assert_eq!(fixture.claim(&claim(1)).await?, []);
        fixture.advance(TICK).await;
    }
    assert_eq!(fixture.claim_one().await?.attempts, 2);
    Ok(())
}

/// The error of an abandon is kept and shown to the next worker; an abandon without one keeps the earlier error.
/// Holds: IBX-057.
/// Replays L-T42.
pub async fn the_last_error_is_kept(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    for (given, kept) in [("boom", "boom"), ("", "boom"), ("bang: twice", "bang: twice")] {
        let delivery = fixture.claim_one().await?;
        fixture.settle(delivery.abandon(span(TICK), error(given))).await?;
        assert_eq!(fixture.read(delivery.uid).await?.last_error, error(kept));
        fixture.advance(TICK).await;
    }
    assert_eq!(fixture.claim_one().await?.last_error, error("bang: twice"));
    Ok(())
}

/// A failed message is Dead now, with the reason and the error of its worker; no attempt is spent.
/// Holds: IBX-060, IBX-061, IBX-065, MBX-I-4, RULE-07, RULE-14.
/// Replays I-T13.
pub async fn a_failed_message_is_dead(fixture: Fixture) -> TestResult {
    let sent = message("1");
    fixture.accept(&sent).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(seconds(5)).await;
    let settled = fixture.settle(delivery.fail(error("NoSuchCustomer: 9"))).await?;
    assert_eq!(settled, Settled::Dead { reason: DeadReason::Failed });
    let dead = fixture.read(delivery.uid).await?;
    assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Failed)));
    assert_eq!((dead.finished_at, dead.attempts), (Some(fixture.now().await), 0));
    assert_eq!((dead.last_error.as_ref(), dead.lease()), (error("NoSuchCustomer: 9").as_ref(), None));
    assert_eq!(dead.content, Some(sent.content));
    Ok(())
}

/// Any reason that a worker gives for a death is recorded.
/// Holds: RULE-07.
pub async fn every_reason_for_a_death_is_recorded(fixture: Fixture) -> TestResult {
    use DeadReason::{Cancelled, Exhausted, Expired, Failed, Integrity, Undecodable, Unhandled};
    for reason in [Failed, Exhausted, Expired, Cancelled, Integrity, Unhandled, Undecodable] {
        fixture.accept(&message(&format!("{reason:?}"))).await?;
        let delivery = fixture.claim_one().await?;
        let settled = fixture.settle(delivery.settle(Verdict::Fail { reason, error: None })).await?;
        assert_eq!(settled, Settled::Dead { reason });
        assert_eq!(fixture.read(delivery.uid).await?.dead, Some(reason));
    }
    Ok(())
}

/// A released message is ready at once; no attempt is spent, but the delivery counts.
/// Holds: RULE-07.
pub async fn a_released_message_is_ready_at_once(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    for deliveries in 1..=5 {
        let delivery = fixture.claim_one().await?;
        assert_eq!((delivery.attempts, delivery.deliveries), (0, deliveries));
        assert_eq!(fixture.settle(delivery.release()).await?, Settled::Released);
    }
    Ok(())
}

/// An acknowledgement is final: no later settlement changes it.
/// Holds: IBX-047, MBX-G-3, MBX-I-3.
/// Replays I-T4.
pub async fn an_ack_is_final(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    for late in one_of_each(&done).into_iter().skip(1) {
        assert_eq!(fixture.settle(late).await?, Settled::LeaseLost);
    }
    fixture.advance(days(1)).await;
    fixture.expect_claimable(&[]).await?;
    assert_eq!(fixture.read(done.uid).await?.state, MessageState::Done);
    Ok(())
}
