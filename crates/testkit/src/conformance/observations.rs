//! Observations: what `observe` records about a key, and what it does not change.

use oncebox_core::{MessageState, Namespace, Observation, Observed};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{claim, hash, key, key_in, message, observation, seconds};

/// An unknown key is recorded as Seen, at the store's time.
/// Holds: IBX-002, IBX-004, IBX-025, RULE-04, RULE-09.
/// Replays I-T17.
pub async fn an_unknown_key_is_first_and_seen(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    let summary = fixture.observe_new(observation(key("1"))).await?;
    assert_eq!((summary.state, summary.accepted_at), (MessageState::Seen, now));
    let seen = fixture.read(key("1")).await?;
    assert_eq!((seen.uid, seen.state, seen.accepted_at), (summary.uid, MessageState::Seen, now));
    assert!(seen.content.is_none() && seen.lease().is_none() && seen.finished_at.is_none());
    Ok(())
}

/// A known key that is not Done is not processed; it was last seen now, and first seen before.
/// Holds: IBX-002, IBX-005, IBX-026.
pub async fn a_known_key_is_observed_again(fixture: Fixture) -> TestResult {
    let first = fixture.observe_new(observation(key("1"))).await?;
    fixture.advance(seconds(5)).await;
    let again = fixture.observe(observation(key("1"))).await?;
    assert!(!again.is_processed());
    assert_eq!(again, Observed::Again { summary: first.clone(), diverged: false });
    let seen = fixture.read(first.uid).await?;
    assert_eq!((seen.accepted_at, seen.last_seen_at), (first.accepted_at, fixture.now().await));
    Ok(())
}

/// A key whose message is Done is processed, and an observation does not change it.
/// Holds: IBX-002, IBX-003, RULE-14.
/// Replays I-T18.
pub async fn a_done_key_is_processed_and_unchanged(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    let before = fixture.read(done.uid).await?;
    fixture.advance(seconds(5)).await;
    let observed =
        fixture.observe(Observation { hash: Some(hash("sha256", 1)), ..observation(key("1")) }).await?;
    assert!(observed.is_processed());
    assert_eq!(fixture.read(done.uid).await?, before);
    Ok(())
}

/// A key whose message is Dead is known, and not processed.
/// Holds: IBX-002, IBX-005, RULE-03.
/// Replays I-T27.
pub async fn a_dead_key_is_not_processed(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.fail(None)).await?;
    let observed = fixture.observe(observation(key("1"))).await?;
    assert!(!observed.is_processed());
    assert!(matches!(observed, Observed::Again { summary, .. } if summary.state == MessageState::Dead));
    Ok(())
}

/// Source and id together form the key; neither of them alone does.
/// Holds: IBX-001, RULE-02.
pub async fn source_and_id_together_are_the_key(fixture: Fixture) -> TestResult {
    for (source, id) in [("shop", "1"), ("bank", "1"), ("shop", "2"), ("sho", "p1"), ("shop1", "1")] {
        fixture.observe_new(observation(key_in(Namespace::Inbox, source, id))).await?;
    }
    Ok(())
}

/// Keys are compared byte by byte: case, accents, composition and surrounding blanks are significant.
/// Holds: IBX-001, RULE-19.
pub async fn keys_are_compared_byte_by_byte(fixture: Fixture) -> TestResult {
    for id in
        ["order", "Order", "ORDER", "order ", " order", "örder", "o\u{308}rder", "ordér", "order\n", "order%"]
    {
        fixture.observe_new(observation(key(id))).await?;
    }
    Ok(())
}

/// The first hash of a key is kept, even if it comes with a later observation; another hash does not replace it.
/// Holds: IBX-007.
/// Replays I-T23.
pub async fn the_first_hash_is_kept(fixture: Fixture) -> TestResult {
    let observation = |byte| Observation { hash: Some(hash("sha256", byte)), ..observation(key("1")) };
    let summary = fixture.observe_new(Observation { hash: None, ..observation(0) }).await?;
    assert_eq!(fixture.read(summary.uid).await?.hash, None);
    for byte in [1, 2] {
        fixture.observe(observation(byte)).await?;
        assert_eq!(fixture.read(summary.uid).await?.hash, Some(hash("sha256", 1)));
    }
    Ok(())
}

/// Another hash of the same algorithm shows that the content differs, without an error.
/// Holds: IBX-008, RULE-08.
pub async fn another_hash_diverges_without_an_error(fixture: Fixture) -> TestResult {
    let observation =
        |algorithm, byte| Observation { hash: Some(hash(algorithm, byte)), ..observation(key("1")) };
    let summary = fixture.observe_new(observation("sha256", 1)).await?;
    for (algorithm, byte, diverged) in [("sha256", 1, false), ("sha256", 2, true), ("blake2", 2, false)] {
        let again = fixture.observe(observation(algorithm, byte)).await?;
        assert_eq!(again, Observed::Again { summary: summary.clone(), diverged });
    }
    Ok(())
}

/// However often a key is observed, no attempt is spent and nothing counts as a delivery.
/// Holds: IBX-027, RULE-04, RULE-07.
pub async fn observations_spend_no_attempt(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    for id in ["1", "2"] {
        for _ in 0..20 {
            fixture.observe(observation(key(id))).await?;
        }
        let seen = fixture.read(key(id)).await?;
        assert_eq!((seen.attempts, seen.deliveries), (0, 0));
    }
    Ok(())
}

/// A key that was only observed is never claimable.
/// Holds: IBX-031, RULE-04.
pub async fn an_observed_key_is_never_claimable(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("1"))).await?;
    fixture.observe(observation(key("1"))).await?;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// An observation of an unfinished message updates when it was last seen, and nothing else: not its lease, not its
/// number.
/// Holds: IBX-005, RULE-04.
pub async fn an_observation_changes_only_last_seen_at(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let before = fixture.read(delivery.uid).await?;
    fixture.advance(seconds(5)).await;
    fixture.observe(observation(key("1"))).await?;
    let mut after = fixture.read(delivery.uid).await?;
    assert_eq!(after.last_seen_at, fixture.now().await);
    after.last_seen_at = before.last_seen_at;
    assert_eq!(after, before);
    Ok(())
}
