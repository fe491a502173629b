//! Mass events: thousands of messages expire, or thousands of leases lapse, at the same instant.

use oncebox_core::{
    Batch, Budget, Claim, DeadReason, Delivery, MaintenanceReport, MessageState, Namespace, NewMessage,
    Scope, StoreExt,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, Draft, LEASE, claim, ids, key, message, seconds};

const MESSAGES: u32 = 6_000;
/// Messages per accept call: so few that no store prepares for more.
const ACCEPTED: u32 = 40;
/// Messages per claim or maintenance call.
const CALL: u32 = 500;
/// Every how many messages one is read.
const STEP: usize = 750;

/// Accepts thousands of messages, each changed by `change`.
async fn fill(fixture: &Fixture, change: impl Fn(NewMessage) -> NewMessage) -> TestResult {
    for call in 0..MESSAGES / ACCEPTED {
        let ids = call * ACCEPTED..(call + 1) * ACCEPTED;
        let messages: Vec<_> = ids.map(|id| change(message(&id.to_string()))).collect();
        let accepted = fixture.store.accept(&messages).await?;
        assert_eq!(accepted.len(), messages.len());
        assert!(accepted.iter().all(|outcome| outcome.summary().is_some()), "every message is accepted");
    }
    Ok(())
}

/// Runs maintenance until nothing is due. Returns the sum of all reports.
async fn maintain(fixture: &Fixture) -> Checked<MaintenanceReport> {
    let mut total = MaintenanceReport::default();
    // Each call does as much as its budget allows, or is the last one.
    for _ in 0..=MESSAGES / CALL {
        let MaintenanceReport { lapsed, expired, died, .. } =
            fixture.store.maintain(Budget::new(CALL)).await?;
        total.lapsed += lapsed;
        total.expired += expired;
        total.died.extend(died);
    }
    Ok(total)
}

/// Every message is Dead from the instant at which all expire, however many were processed by then, and each is counted
/// once.
/// Holds: RULE-05, RULE-12.
pub async fn everything_expires_at_once(fixture: Fixture) -> TestResult {
    let expires = fixture.now().await.after(seconds(10));
    fill(&fixture, |message| message.expires(expires)).await?;
    fixture.advance(seconds(10)).await;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    for id in (0..MESSAGES as usize).step_by(STEP) {
        let dead = fixture.read(key(&id.to_string())).await?;
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Expired)), "message {id}");
        assert_eq!((dead.finished_at, dead.attempts), (Some(expires), 0), "message {id}");
    }
    // The store serves new messages meanwhile.
    fixture.accept(&message("late")).await?;
    fixture.expect_claimable(&["late"]).await?;
    let report = maintain(&fixture).await?;
    assert_eq!(report.expired, u64::from(MESSAGES));
    assert_eq!(report.died.iter().map(|deaths| deaths.count).sum::<u64>(), u64::from(MESSAGES));
    let counts = fixture.store.counts(&Scope::all(Namespace::Inbox)).await?;
    assert_eq!((counts.ready, counts.dead), (1, u64::from(MESSAGES)));
    Ok(())
}

/// Every lease is lost from the instant at which all lapse: none can be settled, and all messages are claimable in
/// order.
/// Holds: RULE-05, RULE-07.
pub async fn every_lease_ends_at_once(fixture: Fixture) -> TestResult {
    fill(&fixture, |message| message).await?;
    let claim = Claim { batch: Batch::new(CALL)?, ..claim(1) };
    let mut last = Vec::new();
    for _ in 0..MESSAGES / CALL {
        last = fixture.claim(&claim).await?;
        assert_eq!(last.len(), CALL as usize);
    }
    fixture.advance(LEASE).await;
    let acks: Vec<_> = last.iter().map(Delivery::ack).collect();
    assert!(
        fixture.store.settle(&acks).await?.iter().all(|settled| *settled == oncebox_core::Settled::LeaseLost)
    );
    for id in (0..MESSAGES as usize).step_by(STEP) {
        let waiting = fixture.read(key(&id.to_string())).await?;
        assert_eq!((waiting.state, waiting.attempts), (MessageState::Processing, 1), "message {id}");
    }
    let report = maintain(&fixture).await?;
    assert_eq!(report.lapsed, u64::from(MESSAGES));
    let again = fixture.claim(&claim).await?;
    let expected: Vec<_> = (0..CALL).map(|id| id.to_string()).collect();
    assert_eq!(ids(&again), expected);
    Ok(())
}
