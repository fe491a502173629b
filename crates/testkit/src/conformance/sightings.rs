//! Sightings: what `observe` records about a key and what it leaves alone.

use oncebox_core::{Namespace, Observed, Sighting, State};

use super::kit::{claim, hash, key, key_in, message, seconds, sighting};
use crate::fixture::{Fixture, TestResult};

/// A key that nobody knows is recorded as Seen, at the store's time.
/// Holds: IBX-002, IBX-004, IBX-025, RULE-04, RULE-09.
/// Replays I-T17.
pub async fn an_unknown_key_is_first_and_seen(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    let receipt = fixture.sight(sighting(key("1"))).await?;
    assert_eq!((receipt.state, receipt.accepted_at), (State::Seen, now));
    let seen = fixture.read(key("1")).await?;
    assert_eq!((seen.uid, seen.state, seen.accepted_at), (receipt.uid, State::Seen, now));
    assert!(seen.content.is_none() && seen.lease().is_none() && seen.finished_at.is_none());
    Ok(())
}

/// A key that is known and not Done is not processed; it has been seen now, and came first when it did.
/// Holds: IBX-002, IBX-005, IBX-026.
pub async fn a_known_key_comes_again(fixture: Fixture) -> TestResult {
    let first = fixture.sight(sighting(key("1"))).await?;
    fixture.pass(seconds(5)).await;
    let again = fixture.observe(sighting(key("1"))).await?;
    assert!(!again.is_processed());
    assert_eq!(again, Observed::Again { receipt: first.clone(), diverged: false });
    let seen = fixture.read(first.uid).await?;
    assert_eq!((seen.accepted_at, seen.last_seen_at), (first.accepted_at, fixture.now().await));
    Ok(())
}

/// A key whose message is Done is processed, and a sighting changes nothing about it.
/// Holds: IBX-002, IBX-003, RULE-14.
/// Replays I-T18.
pub async fn a_done_key_is_processed_and_stays_as_it_is(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    let before = fixture.read(done.uid).await?;
    fixture.pass(seconds(5)).await;
    let observed = fixture.observe(Sighting { hash: Some(hash("sha256", 1)), ..sighting(key("1")) }).await?;
    assert!(observed.is_processed());
    assert_eq!(fixture.read(done.uid).await?, before);
    Ok(())
}

/// A key whose message is Dead is known, and not processed.
/// Holds: IBX-002, IBX-005, RULE-03.
/// Replays I-T27.
pub async fn a_dead_key_is_not_processed(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    fixture.settle(delivery.fail(None)).await?;
    let observed = fixture.observe(sighting(key("1"))).await?;
    assert!(!observed.is_processed());
    assert!(matches!(observed, Observed::Again { receipt, .. } if receipt.state == State::Dead));
    Ok(())
}

/// Source and id together make the key: neither of them alone does.
/// Holds: IBX-001, RULE-02.
pub async fn source_and_id_together_are_the_key(fixture: Fixture) -> TestResult {
    for (source, id) in [("shop", "1"), ("bank", "1"), ("shop", "2"), ("sho", "p1"), ("shop1", "1")] {
        fixture.sight(sighting(key_in(Namespace::Inbox, source, id))).await?;
    }
    Ok(())
}

/// Keys are compared byte by byte: case, accents, composition and blanks at either end make a difference.
/// Holds: IBX-001, RULE-19.
pub async fn keys_are_compared_byte_by_byte(fixture: Fixture) -> TestResult {
    for id in
        ["order", "Order", "ORDER", "order ", " order", "örder", "o\u{308}rder", "ordér", "order\n", "order%"]
    {
        fixture.sight(sighting(key(id))).await?;
    }
    Ok(())
}

/// The first hash of a key is kept, also when it comes with a later sighting; another one does not replace it.
/// Holds: IBX-007.
/// Replays I-T23.
pub async fn the_first_hash_is_kept(fixture: Fixture) -> TestResult {
    let sighting = |byte| Sighting { hash: Some(hash("sha256", byte)), ..sighting(key("1")) };
    let receipt = fixture.sight(Sighting { hash: None, ..sighting(0) }).await?;
    assert_eq!(fixture.read(receipt.uid).await?.hash, None);
    for byte in [1, 2] {
        fixture.observe(sighting(byte)).await?;
        assert_eq!(fixture.read(receipt.uid).await?.hash, Some(hash("sha256", 1)));
    }
    Ok(())
}

/// Another hash of the same algorithm says that the content differs, and fails nothing.
/// Holds: IBX-008, RULE-08.
pub async fn another_hash_diverges_and_fails_nothing(fixture: Fixture) -> TestResult {
    let sighting = |algorithm, byte| Sighting { hash: Some(hash(algorithm, byte)), ..sighting(key("1")) };
    let receipt = fixture.sight(sighting("sha256", 1)).await?;
    for (algorithm, byte, diverged) in [("sha256", 1, false), ("sha256", 2, true), ("blake2", 2, false)] {
        let again = fixture.observe(sighting(algorithm, byte)).await?;
        assert_eq!(again, Observed::Again { receipt: receipt.clone(), diverged });
    }
    Ok(())
}

/// However often a key comes by, no attempt is spent and nothing counts as a delivery.
/// Holds: IBX-027, RULE-04, RULE-07.
pub async fn sightings_spend_no_attempt(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    for id in ["1", "2"] {
        for _ in 0..20 {
            fixture.observe(sighting(key(id))).await?;
        }
        let seen = fixture.read(key(id)).await?;
        assert_eq!((seen.attempts, seen.deliveries), (0, 0));
    }
    Ok(())
}

/// A key that was only sighted is never claimable.
/// Holds: IBX-031, RULE-04.
pub async fn a_sighted_key_is_never_claimable(fixture: Fixture) -> TestResult {
    fixture.sight(sighting(key("1"))).await?;
    fixture.observe(sighting(key("1"))).await?;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// A sighting of an unfinished message moves when it was seen last, and nothing else: not its lease, not its place.
/// Holds: IBX-005, RULE-04.
pub async fn a_sighting_moves_nothing_but_when_it_was_seen(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    let before = fixture.read(delivery.uid).await?;
    fixture.pass(seconds(5)).await;
    fixture.observe(sighting(key("1"))).await?;
    let mut after = fixture.read(delivery.uid).await?;
    assert_eq!(after.last_seen_at, fixture.now().await);
    after.last_seen_at = before.last_seen_at;
    assert_eq!(after, before);
    Ok(())
}
