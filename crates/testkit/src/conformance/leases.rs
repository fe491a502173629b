//! Leases: their end, their fences, and extensions.

use std::error::Error;

use oncebox_core::limits::{MAILBOX_EXTEND_FACTOR, WORKER_BYTES_MAX};
use oncebox_core::{
    Action, Claim, Extended, Extension, Fence, GrantEnd, Invalid, MessageQuery, Namespace, RequestId,
    Settled, Uid, WorkerName,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, TICK, claim, claim_in, key, mail, message, owner, seconds, span};

/// A lease is current before its end and not at it.
/// Holds: MBX-C-3, MBX-I-3, RULE-05.
pub async fn a_lease_is_current_before_its_end_and_not_at_it(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let (first, second) = (fixture.claim_one().await?, fixture.claim_one().await?);
    fixture.advance_almost(LEASE).await;
    assert_eq!(fixture.settle(first.ack()).await?, Settled::Done);
    fixture.advance(TICK).await;
    assert_eq!(fixture.settle(second.ack()).await?, Settled::LeaseLost);
    Ok(())
}

/// A message whose lease has lapsed is ready at once for any worker, without maintenance; the lapse spends an attempt.
/// Holds: IBX-033, IBX-069, IBX-070, CMD-20, MBX-C-3, MBX-G-3, MBX-I-1, MBX-I-3, RULE-07.
/// Replays L-T23, L-T45.
pub async fn a_lapsed_message_is_taken_over(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let lost = fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let next = fixture.claim_one_by(&Claim { owner: owner(2), ..claim(1) }).await?;
    assert_eq!((next.uid, next.lease.owner), (lost.uid, owner(2)));
    assert_eq!((next.attempts, next.deliveries), (1, 2));
    assert!(next.lease.fence > lost.lease.fence);
    Ok(())
}

/// A slow worker must not overwrite the work of the worker that took over, which may be itself.
/// Holds: IBX-045, IBX-046, CMD-20, RULE-05, RULE-17.
pub async fn a_taken_over_lease_cannot_settle(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let lost = fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let current = fixture.claim_one().await?;
    let before = fixture.read(lost.uid).await?;
    for late in [lost.ack(), lost.fail(None), lost.release(), lost.abandon(span(TICK), None)] {
        assert_eq!(fixture.settle(late).await?, Settled::LeaseLost);
    }
    assert_eq!(fixture.extend(lost.extend(span(LEASE))).await?, Extended::LeaseLost);
    assert_eq!(fixture.read(lost.uid).await?, before);
    assert_eq!(fixture.settle(current.ack()).await?, Settled::Done);
    Ok(())
}

/// The end of a lease shows in reads at that instant, whichever call is first to notice.
/// Holds: IBX-069, RULE-05.
pub async fn the_end_of_a_lease_shows_in_reads(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance_almost(LEASE).await;
    let before = fixture.read(delivery.uid).await?;
    assert_eq!((before.lease(), before.attempts), (Some(&delivery.lease), 0));
    fixture.advance(TICK).await;
    let after = fixture.read(delivery.uid).await?;
    assert_eq!((after.lease(), after.attempts), (None, 1));
    assert_eq!(after.grant.as_ref().and_then(|grant| grant.end), Some(GrantEnd::Lost));
    Ok(())
}

/// The fences of a message strictly increase, however its leases end.
/// Holds: RULE-05.
pub async fn fences_strictly_increase(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(100)).await?;
    let mut fences = Vec::new();
    for round in 0..8 {
        let delivery = fixture.claim_one().await?;
        fences.push(delivery.lease.fence);
        match round % 3 {
            0 => fixture.settle(delivery.release()).await.map(drop)?,
            1 => fixture.change(delivery.uid, Action::MarkProcessing).await.map(drop)?,
            _ => fixture.advance(LEASE).await,
        }
    }
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{fences:?}");
    Ok(())
}

/// A fence is not assigned again after an erase, not even to a message with the same uid.
/// Holds: RULE-05.
pub async fn a_fence_is_not_reused_after_an_erase(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").uid(7)).await?;
    let erased = fixture.claim_one().await?;
    fixture.change(key("1"), Action::Erase).await?;
    fixture.accept(&message("1").uid(7)).await?;
    let current = fixture.claim_one().await?;
    assert_eq!(current.uid, erased.uid);
    assert!(current.lease.fence > erased.lease.fence);
    assert_eq!(fixture.settle(erased.ack()).await?, Settled::LeaseLost);
    Ok(())
}

/// An extension moves the end of a lease to the given duration from now, and the lease is current until then.
/// Holds: RULE-05.
pub async fn an_extension_moves_the_end_of_a_lease(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(seconds(20)).await;
    let until = fixture.now().await.after(LEASE);
    assert_eq!(fixture.extend(delivery.extend(span(LEASE))).await?, Extended::Until(until));
    fixture.advance_almost(LEASE).await;
    assert_eq!(fixture.claim(&claim(1)).await?, []);
    let lease = fixture.read(delivery.uid).await?.lease().copied();
    assert_eq!(lease.map(|lease| (lease.fence, lease.until)), Some((delivery.lease.fence, until)));
    fixture.advance(TICK).await;
    assert_eq!(fixture.claim_one().await?.attempts, 1);
    Ok(())
}

/// An extension never shortens a lease.
/// Holds: RULE-05.
pub async fn an_extension_never_shortens_a_lease(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let extended = fixture.extend(delivery.extend(span(seconds(1)))).await?;
    assert_eq!(extended, Extended::Until(delivery.lease.until));
    fixture.advance_almost(LEASE).await;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A lease that has lapsed, was settled, belongs to another owner or never existed is not extended.
/// Holds: RULE-05, RULE-17.
pub async fn only_a_current_lease_is_extended(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let (settled, lapsed) = (fixture.claim_one().await?, fixture.claim_one().await?);
    let extension = lapsed.extend(span(seconds(90)));
    let foreign = Extension { owner: owner(2), ..extension };
    let unknown = Extension { uid: Uid::from_u128(404), ..extension };
    let unborn = Extension { fence: Fence::new(lapsed.lease.fence.get() + 1)?, ..extension };
    assert_eq!(fixture.store.extend(&[foreign, unknown, unborn]).await?, [Extended::LeaseLost; 3]);
    assert_eq!(fixture.read(lapsed.uid).await?.lease(), Some(&lapsed.lease));
    fixture.settle(settled.release()).await?;
    assert_eq!(fixture.extend(settled.extend(span(LEASE))).await?, Extended::LeaseLost);
    fixture.advance(LEASE).await;
    assert_eq!(fixture.extend(extension).await?, Extended::LeaseLost);
    Ok(())
}

/// A mailbox delivery can be held for ten times the lease that it was claimed with, and not a millisecond longer.
/// Holds: MBX-P-9, RULE-12.
pub async fn a_mailbox_delivery_is_held_for_ten_leases_at_most(fixture: Fixture) -> TestResult {
    fixture.accept(&mail("1")).await?;
    let delivery = fixture.claim_one_by(&claim_in(Namespace::Mailbox, 1)).await?;
    let limit = fixture.now().await.after(LEASE * MAILBOX_EXTEND_FACTOR);
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.extend(delivery.extend(span(LEASE * 20))).await?, Extended::Until(limit));
    fixture.advance_almost(LEASE * (MAILBOX_EXTEND_FACTOR - 1) + seconds(20)).await;
    assert_eq!(fixture.extend(delivery.extend(span(LEASE))).await?, Extended::Until(limit));
    fixture.advance(TICK).await;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::LeaseLost);
    Ok(())
}

/// Outside the mailbox, a lease can be extended without limit.
/// Holds: RULE-05, RULE-12.
pub async fn an_inbox_delivery_is_held_as_long_as_it_takes(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    for _ in 0..2 * MAILBOX_EXTEND_FACTOR {
        fixture.advance_almost(LEASE).await;
        let until = fixture.now().await.after(LEASE);
        assert_eq!(fixture.extend(delivery.extend(span(LEASE))).await?, Extended::Until(until));
    }
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}

/// A lease has the name of its worker; after its end, however it ended, the name shows who held the message last, until
/// the next lease.
/// Holds: RULE-05.
pub async fn a_lease_shows_its_worker_even_after_its_end(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let longest = "n".repeat(WORKER_BYTES_MAX);
    let named = |name: &str| Ok::<_, Invalid>(Claim { worker: Some(WorkerName::new(name)?), ..claim(1) });
    let delivery = fixture.claim_one_by(&named(&longest)?).await?;
    let other = fixture.claim_one_by(&named("host-2:17")?).await?;
    let shown = async |uid: Uid| {
        let grant = fixture.read(uid).await?.grant;
        let name = grant.as_ref().and_then(|grant| grant.worker.as_ref()).map(ToString::to_string);
        Ok::<_, Box<dyn Error + Send + Sync>>((name, grant.is_some_and(|grant| grant.end.is_some())))
    };
    assert_eq!(shown(delivery.uid).await?, (Some(longest.clone()), false));
    assert_eq!(shown(other.uid).await?, (Some("host-2:17".to_owned()), false));
    fixture.extend(delivery.extend(span(seconds(90)))).await?;
    assert_eq!(shown(delivery.uid).await?, (Some(longest.clone()), false), "a heartbeat changes nothing");
    fixture.settle(delivery.fail(None)).await?;
    assert_eq!(shown(delivery.uid).await?, (Some(longest.clone()), true));
    fixture.change(delivery.uid, Action::REDRIVE).await?;
    assert_eq!(shown(delivery.uid).await?, (Some(longest), true), "no worker has leased it since");
    fixture.advance(LEASE).await;
    assert_eq!(shown(other.uid).await?, (Some("host-2:17".to_owned()), true), "it lapsed");
    // A listing shows the same, and the next lease has another name, or none.
    let page = fixture.store.page(&MessageQuery::all(Namespace::Inbox)).await?;
    let listed: Vec<_> =
        page.messages.iter().filter_map(|shown| shown.grant.as_ref()?.worker.clone()).collect();
    assert_eq!(listed.len(), 2);
    let unnamed = fixture.claim_one().await?;
    assert_eq!(unnamed.uid, other.uid);
    assert_eq!(shown(other.uid).await?, (None, false));
    fixture.settle(unnamed.release()).await?;
    let last = fixture.claim_one_by(&named("w3")?).await?;
    fixture.settle(last.ack()).await?;
    assert_eq!(shown(last.uid).await?, (Some("w3".to_owned()), true), "Done too");
    Ok(())
}

/// The name does not identify a repeat: the repeat gets the same deliveries, which keep the first name.
/// Holds: RULE-05.
pub async fn a_repeated_claim_keeps_the_first_name(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let request = Some(RequestId::from_u128(5));
    let first = Claim { request, worker: Some(WorkerName::new("first")?), ..claim(1) };
    let again = Claim { worker: Some(WorkerName::new("second")?), ..first.clone() };
    let unnamed = Claim { worker: None, ..first.clone() };
    let delivery = fixture.claim_one_by(&first).await?;
    for repeat in [again, unnamed] {
        assert_eq!(fixture.claim_one_by(&repeat).await?, delivery);
        let grant = fixture.read(delivery.uid).await?.grant;
        assert_eq!(
            grant.and_then(|grant| grant.worker).map(|name| name.to_string()).as_deref(),
            Some("first")
        );
    }
    Ok(())
}
