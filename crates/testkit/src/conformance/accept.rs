//! Accepting: how `accept` handles new, known and finished keys.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use oncebox_core::{
    Accepted, Action, Attributes, Bound, Counts, Divergence, Fingerprint, MessageState, Namespace, Scope,
    Seal, Shard, StoreExt, Trace,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, claim, days, hash, key, key_in, message, message_for, observation, seconds};

/// A new message is Processing, without attempts, first and last seen at the store's time.
/// Holds: IBX-025, IBX-027, RULE-04, RULE-09.
/// Replays L-T1.
pub async fn a_new_message_is_processing_without_attempts(fixture: Fixture) -> TestResult {
    fixture.advance(days(1)).await;
    let now = fixture.now().await;
    let summary = fixture.accept(&message("1")).await?;
    assert_eq!((summary.state, summary.accepted_at), (MessageState::Processing, now));
    let stored = fixture.read(summary.uid).await?;
    assert_eq!((stored.state, stored.keyed), (MessageState::Processing, true));
    assert_eq!((stored.attempts, stored.deliveries, stored.retry_at), (0, 0, None));
    assert_eq!((stored.accepted_at, stored.last_seen_at, stored.finished_at), (now, now, None));
    Ok(())
}

/// Everything that was sent can be read, and is delivered unchanged.
/// Holds: IBX-022, IBX-036, MBX-C-1.
/// Replays I-T7, L-T14, L-T38.
pub async fn everything_sent_is_kept_and_delivered(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    let trace = Trace::default().with_correlation("story")?.with_causation("cause")?.with_tenant("acme")?;
    let attributes = Attributes::new([("content-type", "application/json"), ("empty", "")])?;
    let sent = message("1").uid(77).shard(7).partition("customer-9").due(now).expires(now.after(days(1)));
    let sent = sent.hash(hash("sha256", 9)).attempts_max(3).hold(seconds(60), None).change(|message| {
        message.trace = trace;
        message.content.attributes = attributes;
        message.content.seal = Some(Seal { at: now, chain: Fingerprint::of_bytes(b"sent") });
        message.policy.keep_finished = true;
    });
    let summary = fixture.accept(&sent).await?;
    let stored = fixture.read(summary.uid).await?;
    assert_eq!((Some(stored.uid), &stored.key, &stored.policy), (sent.uid, &sent.key, &sent.policy));
    assert_eq!((stored.content.as_ref(), stored.fingerprint), (Some(&sent.content), Some(sent.fingerprint)));
    assert_eq!((&stored.hash, &stored.trace, &summary.trace), (&sent.hash, &sent.trace, &sent.trace));
    let delivery = fixture.claim_one().await?;
    assert_eq!((Some(delivery.uid), &delivery.key, delivery.number), (sent.uid, &sent.key, stored.number));
    assert_eq!((&delivery.content, delivery.fingerprint), (&sent.content, sent.fingerprint));
    assert_eq!((&delivery.hash, &delivery.trace), (&sent.hash, &sent.trace));
    assert_eq!((delivery.accepted_at, delivery.last_seen_at, delivery.last_error), (now, now, None));
    Ok(())
}

/// A payload consists of arbitrary bytes, and is kept unchanged.
/// Holds: IBX-022.
pub async fn a_payload_is_kept_byte_by_byte(fixture: Fixture) -> TestResult {
    let bytes: Vec<u8> = (0..=255).chain(0..=255).collect();
    fixture.accept(&message("1").payload(&bytes)).await?;
    let content = fixture.claim_one().await?.content;
    assert_eq!((content.payload.as_bytes(), content.payload.len()), (&*bytes, 512));
    Ok(())
}

/// A payload of a megabyte is kept unchanged.
/// Holds: IBX-022, IBX-118.
pub async fn a_large_payload_is_kept(fixture: Fixture) -> TestResult {
    let bytes: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    fixture.accept(&message("1").payload(&bytes)).await?;
    assert!(fixture.claim_one().await?.content.payload.as_bytes() == bytes, "the payload was changed");
    Ok(())
}

/// An empty payload is valid.
/// Holds: IBX-019.
pub async fn an_empty_payload_is_accepted(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").payload("")).await?;
    assert!(fixture.claim_one().await?.content.payload.is_empty());
    Ok(())
}

/// The longest source, id and topic that the inbox accepts are kept, even in four-byte characters.
/// Holds: IBX-011, IBX-012, IBX-020, RULE-19.
pub async fn the_longest_texts_are_kept(fixture: Fixture) -> TestResult {
    let text = "🦀".repeat(255);
    let longest = message_for(key_in(Namespace::Inbox, &text, &text)).topic(&text);
    fixture.accept(&longest).await?;
    let delivery = fixture.claim_one().await?;
    assert_eq!((delivery.key, delivery.content), (longest.key, longest.content));
    Ok(())
}

/// The same message again is a duplicate, and every field of its summary is that of the first.
/// Holds: IBX-014, CMD-04, MBX-I-2, RULE-02.
/// Replays L-T37.
pub async fn the_same_message_again_is_a_duplicate(fixture: Fixture) -> TestResult {
    for namespace in Namespace::ALL {
        let first =
            message_for(key_in(namespace, "shop", "1")).uid(1 + namespace as u128).correlation("first");
        let summary = fixture.accept(&first).await?;
        fixture.advance(seconds(5)).await;
        let again = fixture.accept_again(&first.uid(99).correlation("second")).await?;
        assert_eq!(again, Accepted::Duplicate { summary, diverged: false });
    }
    Ok(())
}

/// A duplicate updates when the message was last seen, not when it was first accepted.
/// Holds: IBX-026.
pub async fn a_duplicate_updates_last_seen_at(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    fixture.advance(seconds(5)).await;
    fixture.accept_again(&message("1")).await?;
    let stored = fixture.read(summary.uid).await?;
    assert_eq!((stored.accepted_at, stored.last_seen_at), (summary.accepted_at, fixture.now().await));
    Ok(())
}

/// Content for an observed key makes it Processing under its first uid and time, with the number of a new message.
/// Holds: IBX-029, RULE-04.
pub async fn content_makes_an_observed_key_processing(fixture: Fixture) -> TestResult {
    let seen = fixture.observe_new(observation(key("1"))).await?;
    fixture.advance(seconds(5)).await;
    fixture.accept(&message("2")).await?;
    let summary = fixture.accept(&message("1").correlation("story")).await?;
    assert_eq!((summary.uid, summary.accepted_at), (seen.uid, seen.accepted_at));
    assert_eq!((summary.state, summary.trace.correlation()), (MessageState::Processing, Some("story")));
    fixture.expect_claimable(&["2", "1"]).await
}

/// A key that was marked Processing without content becomes claimable when it gets content.
/// Holds: IBX-029, RULE-04.
pub async fn content_makes_a_marked_key_claimable(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("1"))).await?;
    fixture.change(key("1"), Action::MarkProcessing).await?;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    fixture.accept(&message("1")).await?;
    fixture.expect_claimable(&["1"]).await
}

/// Content for a Dead key is accepted, and stays Dead until an operator revives it.
/// Holds: IBX-029, RULE-08.
pub async fn content_does_not_revive_a_dead_key(fixture: Fixture) -> TestResult {
    fixture.observe_new(observation(key("1"))).await?;
    fixture.change(key("1"), Action::Cancel).await?;
    assert_eq!(fixture.accept(&message("1")).await?.state, MessageState::Dead);
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    fixture.change(key("1"), Action::MarkProcessing).await?;
    fixture.expect_claimable(&["1"]).await
}

/// The content sets the policy: an observed key follows the rules of its message.
/// Holds: RULE-04, RULE-07.
pub async fn content_sets_the_policy(fixture: Fixture) -> TestResult {
    let seen = fixture.observe_new(observation(key("1"))).await?;
    assert_eq!(fixture.read(seen.uid).await?.policy.attempts_max, None);
    let sent = message("1").attempts_max(2).hold(days(90), None);
    let summary = fixture.accept(&sent).await?;
    assert_eq!(fixture.read(seen.uid).await?.policy, sent.policy);
    assert_eq!(summary.dedup_until, seen.accepted_at.after(days(90)));
    Ok(())
}

/// A Done message is never changed, whatever is accepted under its key and with whichever policy.
/// Holds: IBX-028, RULE-08, RULE-14.
pub async fn a_done_message_is_never_changed(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&message("1")).await?;
    let before = fixture.read(done.uid).await?;
    fixture.advance(seconds(5)).await;
    for divergence in [Divergence::Replace, Divergence::KeepFirst] {
        let other = message("1").payload("other").hash(hash("sha256", 1)).divergence(divergence);
        let again = fixture.accept_again(&other).await?;
        assert_eq!(again, Accepted::Duplicate { summary: before.summary(), diverged: true });
    }
    let other = message("1").payload("other").divergence(Divergence::Conflict);
    assert_eq!(fixture.accept_again(&other).await?, Accepted::Conflict(before.summary()));
    assert_eq!(
        fixture.accept_again(&message("1")).await?,
        Accepted::Duplicate { summary: before.summary(), diverged: false }
    );
    assert_eq!(fixture.read(done.uid).await?, before);
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// A uid that another message has is refused; nothing is accepted and the key stays free.
/// Holds: RULE-02.
/// Replays L-T37.
pub async fn a_taken_uid_is_refused(fixture: Fixture) -> TestResult {
    let first = fixture.accept(&message("1").uid(7)).await?;
    let before = fixture.read(first.uid).await?;
    let refused = fixture.accept_again(&message("2").uid(7).payload("other")).await?;
    assert_eq!(refused, Accepted::UidTaken(first));
    assert_eq!(fixture.read(before.uid).await?, before);
    assert_eq!(fixture.find(key("2")).await?, None);
    fixture.accept(&message("2").uid(8)).await?;
    Ok(())
}

/// The uids that the store generates are all different.
/// Holds: RULE-02.
pub async fn generated_uids_are_all_different(fixture: Fixture) -> TestResult {
    let mut uids = BTreeSet::new();
    for number in 0..100 {
        uids.insert(fixture.accept(&message(&number.to_string())).await?.uid);
        uids.insert(fixture.observe_new(observation(key(&format!("seen {number}")))).await?.uid);
    }
    assert_eq!(uids.len(), 200);
    Ok(())
}

/// A full lane accepts nothing new, still recognizes duplicates, and has capacity again when a message is finished.
/// Holds: MBX-I-5.
pub async fn a_full_lane_accepts_nothing_new(fixture: Fixture) -> TestResult {
    let limited = |id: &str| {
        let mut message = message(id);
        message.lane_max = NonZeroU32::new(2);
        message
    };
    fixture.accept_all(&["1", "2"].map(limited)).await?;
    let delivery = fixture.claim_one().await?;
    let full = fixture.store.accept_one(&limited("3")).await?;
    assert!(
        matches!(full, Accepted::Saturated { retry_after, bound } if !retry_after.is_zero() && bound.name == Bound::LANE_MESSAGES),
        "{full:?}"
    );
    let again = fixture.store.accept_one(&limited("1")).await?;
    assert!(matches!(again, Accepted::Duplicate { .. }), "{again:?}");
    let mut other_shard = limited("4");
    other_shard.content.shard = Shard(1);
    fixture.accept_all(&[other_shard, limited("5").topic("other"), message("6")]).await?;
    for (shard, count) in [(None, 4), (Some(Shard(0)), 3), (Some(Shard(1)), 1), (Some(Shard(2)), 0)] {
        let mut scope = Scope::topic(Namespace::Inbox, message("1").content.topic);
        scope.shard = shard;
        let Counts { ready, leased, .. } = fixture.store.counts(&scope).await?;
        assert_eq!(ready + leased, count, "{shard:?}");
    }
    fixture.settle(delivery.ack()).await?;
    let full = fixture.store.accept_one(&limited("3")).await?;
    assert!(
        matches!(full, Accepted::Saturated { .. }),
        "two are left, one of them without a limit of its own"
    );
    for delivery in fixture.claim(&claim(10)).await? {
        fixture.settle(delivery.ack()).await?;
    }
    fixture.accept(&limited("3")).await?;
    Ok(())
}
