//! Scale: many topics, a backlog, megabytes. A store's caches may cost it queries, but never keep a message from
//! delivery.

use oncebox_core::{Claim, Delivery, Settled, StoreExt};

use crate::fixture::{Fixture, TestResult};
use crate::handles;
use crate::kit::{Draft, LEASE, claim, ids, message, seconds, span};

/// Of thousands of topics with one message each, any named one is served, and all are.
/// Holds: RULE-11, RULE-25.
pub async fn thousands_of_topics_are_all_served(fixture: Fixture) -> TestResult {
    let same = fixture.store.clone();
    handles::thousands_of_topics_are_all_served(&fixture, &same).await
}

/// A backlog in one topic does not starve another one, however its messages became ready.
/// Holds: RULE-11, RULE-25.
pub async fn a_backlog_in_one_topic_starves_no_other(fixture: Fixture) -> TestResult {
    let same = fixture.store.clone();
    handles::a_backlog_in_one_topic_starves_no_other(&fixture, &same).await
}

/// Megabytes in one call are kept unchanged, even through failures and lost leases.
/// Holds: RULE-19.
pub async fn megabytes_in_one_call_are_kept(fixture: Fixture) -> TestResult {
    const MESSAGES: u8 = 12;
    let payload = |number: u8| {
        let mut bytes = vec![number; 1 << 20];
        bytes.iter_mut().step_by(7).zip(0_u32..).for_each(|(byte, index)| *byte ^= index.to_le_bytes()[0]);
        bytes
    };
    let messages: Vec<_> =
        (0..MESSAGES).map(|number| message(&number.to_string()).payload(payload(number))).collect();
    fixture.store.accept(&messages).await?;
    let deliveries = fixture.claim(&claim(100)).await?;
    assert_eq!(deliveries.len(), usize::from(MESSAGES));
    let (abandoned, lost) = deliveries.split_at(usize::from(MESSAGES) / 2);
    let abandons: Vec<_> = abandoned.iter().map(|one| one.abandon(span(seconds(1)), None)).collect();
    for settled in fixture.store.settle(&abandons).await? {
        assert!(matches!(settled, Settled::Retrying { .. }), "{settled:?}");
    }
    assert_eq!(lost.len(), abandoned.len());
    fixture.advance(LEASE).await;
    let again = fixture.claim(&claim(100)).await?;
    assert_eq!(ids(&again), ids(&deliveries), "all of them are redelivered in order");
    for (delivery, number) in again.iter().zip(0..) {
        assert_eq!((delivery.attempts, delivery.deliveries), (1, 2), "{number}");
        assert!(delivery.content.payload.as_bytes() == payload(number), "the bytes of {number} changed");
    }
    let bounded = Claim { bytes_max: Some(3 << 20), ..claim(100) };
    let releases: Vec<_> = again.iter().map(Delivery::release).collect();
    fixture.store.settle(&releases).await?;
    assert_eq!(fixture.claim(&bounded).await?.len(), 3, "as many as fit");
    Ok(())
}
