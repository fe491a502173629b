//! Leases on keys without content: the ledger's `begin`.

use oncebox_core::{
    Action, Begun, DeadReason, Extended, Extension, Key, MessageState, Namespace, Policy, Settled, Verdict,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    LEASE, TICK, claim, claim_in, days, error, key, key_in, message, observation, owner, seconds, settlement,
    span,
};

fn ledger_key() -> Key {
    key_in(Namespace::Ledger, "orders:billing", "1")
}

/// An unknown key is acquired: it is Seen, with a lease from now on.
/// Holds: LDG-05, RULE-04, RULE-16.
pub async fn an_unknown_key_is_acquired(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    assert_eq!((lease.owner, lease.until), (owner(1), fixture.now().await.after(LEASE)));
    let begun = fixture.read(ledger_key()).await?;
    assert_eq!((begun.uid, begun.state, begun.lease()), (uid, MessageState::Seen, Some(&lease)));
    Ok(())
}

/// A key that was only observed can be acquired.
/// Holds: LDG-05, RULE-04.
pub async fn an_observed_key_is_acquired(fixture: Fixture) -> TestResult {
    let seen = fixture.observe_new(observation(ledger_key())).await?;
    assert_eq!(fixture.begin(&ledger_key()).await?.0, seen.uid);
    Ok(())
}

/// A leased key is busy until its lease ends, for every caller; such a call is neither a delivery nor an observation.
/// Holds: LDG-05, LDG-08, RULE-16.
pub async fn a_leased_key_is_busy_for_all_owners(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    let before = fixture.read(uid).await?;
    fixture.advance_almost(LEASE).await;
    for asking in [owner(1), owner(2)] {
        assert_eq!(fixture.try_begin(&ledger_key(), asking).await?, Begun::Busy { until: lease.until });
    }
    assert_eq!(fixture.read(uid).await?, before);
    Ok(())
}

/// When the lease ends, the key can be acquired again with a higher fence; the late owner cannot settle.
/// Holds: LDG-05, LDG-06, LDG-07, RULE-05, RULE-16.
pub async fn a_lapsed_begin_is_taken_over(fixture: Fixture) -> TestResult {
    let (uid, late) = fixture.begin(&ledger_key()).await?;
    fixture.advance(LEASE).await;
    let (again, lease) = fixture.begin(&ledger_key()).await?;
    assert_eq!(again, uid);
    assert!(lease.fence > late.fence);
    for verdict in [Verdict::Ack, Verdict::Release] {
        assert_eq!(fixture.settle(settlement(uid, &late, verdict)).await?, Settled::LeaseLost);
    }
    assert_eq!(fixture.read(uid).await?.lease(), Some(&lease));
    Ok(())
}

/// A key that is marked processed under its lease is Done, and later calls return that.
/// Holds: LDG-05, LDG-06.
pub async fn a_begun_key_is_marked_processed_under_its_lease(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    assert_eq!(fixture.settle(settlement(uid, &lease, Verdict::Ack)).await?, Settled::Done);
    let done = fixture.read(uid).await?;
    assert_eq!((done.state, done.finished_at), (MessageState::Done, Some(fixture.now().await)));
    assert_eq!(fixture.try_begin(&ledger_key(), owner(2)).await?, Begun::Processed(done.summary()));
    Ok(())
}

/// Without a lease, marking is unconditional: the key is Done, and a current lease is lost.
/// Holds: LDG-06, RULE-04.
pub async fn a_mark_without_a_lease_is_unconditional(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    let mark = Action::MarkProcessed { hold: Policy::LEDGER.hold };
    assert_eq!(fixture.change(ledger_key(), mark).await?.state, MessageState::Done);
    assert_eq!(fixture.settle(settlement(uid, &lease, Verdict::Ack)).await?, Settled::LeaseLost);
    assert_eq!(fixture.read(uid).await?.state, MessageState::Done);
    Ok(())
}

/// A released key is free at once, and stays Seen.
/// Holds: LDG-07.
pub async fn a_released_key_is_free_at_once(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    assert_eq!(fixture.settle(settlement(uid, &lease, Verdict::Release)).await?, Settled::Released);
    let free = fixture.read(uid).await?;
    assert_eq!((free.state, free.lease(), free.attempts), (MessageState::Seen, None, 0));
    assert_eq!(fixture.begin(&ledger_key()).await?.0, uid);
    Ok(())
}

/// A key shows how often it was leased, when it was first seen, when it was last leased, and until when it is leased.
/// Holds: LDG-08, RULE-07.
pub async fn a_key_shows_its_deliveries_and_times(fixture: Fixture) -> TestResult {
    let first_seen = fixture.now().await;
    for deliveries in 1..=3 {
        let (uid, lease) = fixture.begin(&ledger_key()).await?;
        let read = fixture.read(uid).await?;
        assert_eq!((read.deliveries, read.attempts), (deliveries, deliveries - 1));
        assert_eq!((read.accepted_at, read.last_seen_at), (first_seen, fixture.now().await));
        assert_eq!(read.lease().map(|lease| lease.until), Some(lease.until));
        fixture.advance(LEASE + seconds(5)).await;
    }
    Ok(())
}

/// A key that has content, or is Dead, cannot be begun.
/// Holds: LDG-05, RULE-04.
pub async fn a_key_with_content_or_dead_is_invalid(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    let before = fixture.read(summary.uid).await?;
    assert_eq!(fixture.try_begin(&key("1"), owner(1)).await?, Begun::Invalid);
    assert_eq!(fixture.read(summary.uid).await?, before);
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    let fail = Verdict::Fail { reason: DeadReason::Failed, error: error("boom") };
    fixture.settle(settlement(uid, &lease, fail)).await?;
    assert_eq!(fixture.try_begin(&ledger_key(), owner(1)).await?, Begun::Invalid);
    Ok(())
}

/// A key without content is never claimable, however its lease ends.
/// Holds: IBX-031, RULE-04.
pub async fn a_begun_key_is_never_claimable(fixture: Fixture) -> TestResult {
    for verdict in [Verdict::Release, Verdict::Abandon { delay: span(TICK), error: None }] {
        let (uid, lease) = fixture.begin(&ledger_key()).await?;
        assert_eq!(fixture.claim(&claim_in(Namespace::Ledger, 10)).await?, []);
        fixture.settle(settlement(uid, &lease, verdict)).await?;
        fixture.advance(LEASE).await;
        assert_eq!(fixture.claim(&claim_in(Namespace::Ledger, 10)).await?, []);
        fixture.begin(&ledger_key()).await?;
        fixture.advance(LEASE).await;
        assert_eq!(fixture.claim(&claim_in(Namespace::Ledger, 10)).await?, []);
    }
    Ok(())
}

/// The ledger has no limit of attempts: a key whose leases keep lapsing can be acquired again.
/// Holds: LDG-05, RULE-07.
pub async fn a_key_without_content_is_never_exhausted(fixture: Fixture) -> TestResult {
    for _ in 0..20 {
        fixture.begin(&ledger_key()).await?;
        fixture.advance(LEASE).await;
    }
    fixture.begin(&ledger_key()).await?;
    Ok(())
}

/// Content that is accepted while its key is leased is not lost: the lease is superseded, then the content is ready.
/// Holds: RULE-04, RULE-08.
pub async fn content_supersedes_a_begun_lease(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&key("1")).await?;
    let summary = fixture.accept(&message("1")).await?;
    assert_eq!((summary.uid, summary.state), (uid, MessageState::Processing));
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    assert_eq!(fixture.settle(settlement(uid, &lease, Verdict::Ack)).await?, Settled::Superseded);
    fixture.expect_claimable(&["1"]).await
}

/// The lease on a key can be extended without limit.
/// Holds: LDG-05, RULE-05.
pub async fn the_lease_on_a_key_is_extended(fixture: Fixture) -> TestResult {
    let (uid, lease) = fixture.begin(&ledger_key()).await?;
    let extension = Extension { uid, owner: lease.owner, fence: lease.fence, lease: span(days(1)) };
    let until = fixture.now().await.after(days(1));
    assert_eq!(fixture.extend(extension).await?, Extended::Until(until));
    fixture.advance_almost(days(1)).await;
    assert_eq!(fixture.try_begin(&ledger_key(), owner(2)).await?, Begun::Busy { until });
    Ok(())
}
