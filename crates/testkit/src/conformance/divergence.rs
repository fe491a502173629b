//! The same key with other content: replace, keep the first, or refuse.

use oncebox_core::{
    Accepted, Action, Attributes, DeadReason, Divergence, MessageState, Observation, Settled, Verdict,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, claim, claim_of, command, days, error, hash, key, mail, message, observation, seconds, span,
};

/// `Replace` writes everything about the content.
/// Holds: IBX-029, RULE-08.
pub async fn replace_writes_the_newest_content(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    let summary =
        fixture.accept(&message("1").hash(hash("sha256", 1)).partition("p").due(now.after(days(9)))).await?;
    let newest = message("1").content("invoices", b"second").hash(hash("sha256", 2)).shard(3).partition("q");
    let newest = newest.due(now).expires(now.after(days(2)));
    let attributes = Attributes::new([("version", "2")])?;
    let newest = newest.change(|message| message.content.attributes = attributes);
    assert_eq!(fixture.accept_again(&newest).await?, Accepted::Replaced(summary));
    let delivery = fixture.claim_one().await?;
    assert_eq!((delivery.content, delivery.fingerprint), (newest.content, newest.fingerprint));
    assert_eq!(delivery.hash, newest.hash);
    Ok(())
}

/// `Replace` keeps uid, number, attempts, retry time, trace, policy and acceptance time.
/// Holds: RULE-08.
pub async fn replace_keeps_number_and_history(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").correlation("first").attempts_max(7)).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(seconds(60)), error("boom"))).await?;
    let before = fixture.read(delivery.uid).await?;
    fixture.advance(seconds(5)).await;
    let newest = message("1").payload("second").uid(99).correlation("second").attempts_max(1);
    fixture.accept_again(&newest).await?;
    let mut after = fixture.read(delivery.uid).await?;
    assert_eq!(after.content.as_ref(), Some(&newest.content));
    assert_eq!(after.last_seen_at, fixture.now().await);
    (after.content, after.fingerprint) = (before.content.clone(), before.fingerprint);
    after.last_seen_at = before.last_seen_at;
    assert_eq!(after, before);
    Ok(())
}

/// A replaced message keeps its retry time, and its place among the others.
/// Holds: RULE-08, RULE-11.
pub async fn a_replaced_message_keeps_its_place_and_retry_time(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(seconds(60)), None)).await?;
    fixture.accept_again(&message("1").payload("second")).await?;
    fixture.expect_claimable(&["2"]).await?;
    fixture.advance(seconds(60)).await;
    fixture.expect_claimable(&["1", "2"]).await
}

/// A replaced message keeps its number when its topic changes.
/// Holds: IBX-029, RULE-08, RULE-11.
pub async fn a_replaced_message_moves_to_the_lane_of_its_topic(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").topic("a"), message("2").topic("b")]).await?;
    fixture.accept_again(&message("1").topic("b")).await?;
    fixture.expect_claimable_by(&claim_of(&["a"], 10), &[]).await?;
    fixture.expect_claimable_by(&claim_of(&["b"], 10), &["1", "2"]).await
}

/// Equal content under `Replace` is a duplicate, but a new due time takes effect.
/// Holds: IBX-029, RULE-08.
pub async fn equal_content_can_change_its_due_time(fixture: Fixture) -> TestResult {
    let later = fixture.now().await.after(days(1));
    let summary = fixture.accept(&message("1").due(later)).await?;
    let again = fixture.accept_again(&message("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary, diverged: false });
    fixture.expect_claimable(&["1"]).await?;
    fixture.accept_again(&message("1").due(later)).await?;
    fixture.expect_claimable(&[]).await
}

/// A Dead message gets the newer content and stays Dead, as its summary shows.
/// Holds: IBX-029, RULE-08.
pub async fn a_replaced_dead_message_stays_dead(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.fail(error("boom"))).await?;
    let again = fixture.accept_again(&message("1").payload("second")).await?;
    assert!(matches!(again, Accepted::Replaced(summary) if summary.state == MessageState::Dead));
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    fixture.change(delivery.uid, Action::REDRIVE).await?;
    assert_eq!(fixture.claim_one().await?.content.payload.as_bytes(), b"second");
    Ok(())
}

/// `KeepFirst` returns a duplicate that diverged, and the first content is delivered.
/// Holds: CMD-04, CMD-12, RULE-08.
/// Replays L-T5, L-T36.
pub async fn keep_first_delivers_the_first_content(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&command("acme", "1")).await?;
    let before = fixture.read(summary.uid).await?;
    let again = fixture.accept_again(&command("acme", "1").payload("second").hash(hash("sha256", 2))).await?;
    assert_eq!(again, Accepted::Duplicate { summary, diverged: true });
    assert_eq!(fixture.read(before.uid).await?, before);
    Ok(())
}

/// `Conflict` refuses other content with the first summary, and returns equal content as a duplicate.
/// Holds: CMD-12, MBX-I-2, RULE-08.
pub async fn conflict_refuses_other_content(fixture: Fixture) -> TestResult {
    for first in [mail("1"), command("acme", "1").divergence(Divergence::Conflict)] {
        let summary = fixture.accept(&first).await?;
        let before = fixture.read(summary.uid).await?;
        let other = first.clone().payload("second");
        assert_eq!(fixture.accept_again(&other).await?, Accepted::Conflict(summary.clone()));
        assert_eq!(fixture.accept_again(&first).await?, Accepted::Duplicate { summary, diverged: false });
        assert_eq!(fixture.read(before.uid).await?, before);
    }
    Ok(())
}

/// The policy of the new message decides, not that of the stored one.
/// Holds: RULE-08.
pub async fn the_policy_of_the_new_message_decides(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1").divergence(Divergence::Conflict)).await?;
    let newcomer = message("1").payload("second").divergence(Divergence::Replace);
    assert_eq!(fixture.accept_again(&newcomer).await?, Accepted::Replaced(summary.clone()));
    let newcomer = message("1").payload("third").divergence(Divergence::Conflict);
    assert_eq!(fixture.accept_again(&newcomer).await?, Accepted::Conflict(summary));
    Ok(())
}

/// The caller's hash alone can show that content differs, but only compared with a hash of the same algorithm.
/// Holds: IBX-008, RULE-08, RULE-23.
pub async fn a_contradicting_hash_diverges(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&command("acme", "1").hash(hash("sha256", 1))).await?;
    for (again, diverged) in
        [(hash("sha256", 2), true), (hash("sha256", 1), false), (hash("blake2", 2), false)]
    {
        let outcome = fixture.accept_again(&command("acme", "1").hash(again)).await?;
        assert_eq!(outcome, Accepted::Duplicate { summary: summary.clone(), diverged });
    }
    Ok(())
}

/// Content that contradicts the hash of an earlier observation is new, is reported to diverge, and sets its own hash.
/// Holds: IBX-008, RULE-08.
pub async fn content_may_diverge_from_its_observation(fixture: Fixture) -> TestResult {
    fixture.observe_new(Observation { hash: Some(hash("sha256", 1)), ..observation(key("1")) }).await?;
    let accepted = fixture.accept_again(&message("1").hash(hash("sha256", 2))).await?;
    assert!(matches!(accepted, Accepted::New { diverged: true, .. }), "{accepted:?}");
    assert_eq!(fixture.claim_one().await?.hash, Some(hash("sha256", 2)));
    Ok(())
}

/// The hash is written with the content, even if the content is equal, and even if there is no hash: whether the key
/// was only observed, is ready, or is Dead.
/// Holds: IBX-029, RULE-08.
pub async fn the_hash_of_equal_content_is_written(fixture: Fixture) -> TestResult {
    let hashes = [Some(hash("blake2", 9)), Some(hash("sha256", 2)), None];
    for (round, newest) in hashes.into_iter().enumerate() {
        let ids = ["seen", "ready", "dead"].map(|state| format!("{state} {round}"));
        let first = |id: &str| message(id).hash(hash("sha256", 1));
        fixture
            .observe_new(Observation { hash: Some(hash("sha256", 1)), ..observation(key(&ids[0])) })
            .await?;
        fixture.accept_all(&[first(&ids[1]), first(&ids[2])]).await?;
        fixture.change(key(&ids[2]), Action::Cancel).await?;
        for id in &ids {
            fixture.accept_again(&message(id).change(|message| message.hash.clone_from(&newest))).await?;
            let found = fixture.find(key(id)).await?.ok_or("the key is known")?;
            assert_eq!((&found.hash, id), (&newest, id));
        }
    }
    Ok(())
}

/// Topic, payload, hash and due time are written in every state except Done: observed, ready, leased or Dead.
/// Holds: IBX-029, RULE-08.
pub async fn content_is_written_in_every_state_but_done(fixture: Fixture) -> TestResult {
    let later = fixture.now().await.after(days(3));
    fixture.observe_new(Observation { hash: Some(hash("sha256", 1)), ..observation(key("seen")) }).await?;
    for id in ["leased", "ready", "dead"] {
        fixture.accept(&message(id).hash(hash("sha256", 1))).await?;
    }
    let leased = fixture.claim_one().await?;
    assert_eq!(leased.key, key("leased"));
    fixture.change(key("dead"), Action::Cancel).await?;
    for (id, state) in [
        ("seen", MessageState::Processing),
        ("ready", MessageState::Processing),
        ("leased", MessageState::Processing),
        ("dead", MessageState::Dead),
    ] {
        let newest = message(id).content("invoices", b"second").hash(hash("sha256", 2)).due(later);
        fixture.accept_again(&newest).await?;
        let stored = fixture.read(key(id)).await?;
        assert_eq!(
            (stored.state, stored.content, stored.hash),
            (state, Some(newest.content), newest.hash),
            "{id}"
        );
    }
    // The writes take effect: nothing is ready before the new due time, and then only under the new topic.
    fixture.settle(leased.release()).await?;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(days(3)).await;
    fixture.expect_claimable_by(&claim_of(&["orders"], 10), &[]).await?;
    fixture.expect_claimable_by(&claim_of(&["invoices"], 10), &["leased", "ready", "seen"]).await
}

/// Newer content under a lease is never lost: whatever the verdict, it is ready at once and no attempt is spent.
/// Holds: RULE-08.
pub async fn newer_content_under_a_lease_supersedes_it(fixture: Fixture) -> TestResult {
    let abandon = Verdict::Abandon { delay: span(seconds(60)), error: None };
    let fail = Verdict::Fail { reason: DeadReason::Failed, error: None };
    for (round, verdict) in [Verdict::Ack, abandon, fail].into_iter().enumerate() {
        fixture.accept_again(&message("1").payload(format!("content {round}"))).await?;
        let delivery = fixture.claim_one().await?;
        fixture.accept_again(&message("1").payload(format!("newer {round}"))).await?;
        assert_eq!(fixture.claim(&claim(10)).await?, []);
        assert_eq!(fixture.settle(delivery.settle(verdict)).await?, Settled::Superseded);
        let stored = fixture.read(delivery.uid).await?;
        assert_eq!((stored.state, stored.attempts, stored.retry_at), (MessageState::Processing, 0, None));
        let next = fixture.claim_one().await?;
        assert_eq!(next.content.payload.as_bytes(), format!("newer {round}").as_bytes());
        fixture.settle(next.release()).await?;
    }
    Ok(())
}

/// A superseded lease can still be released.
/// Holds: RULE-07, RULE-08.
pub async fn a_superseded_delivery_can_be_released(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.accept_again(&message("1").payload("second")).await?;
    assert_eq!(fixture.settle(delivery.release()).await?, Settled::Released);
    assert_eq!(fixture.claim_one().await?.content.payload.as_bytes(), b"second");
    Ok(())
}

/// Equal content, and content that is not written, do not supersede a lease.
/// Holds: RULE-08.
pub async fn a_lease_is_superseded_only_by_other_content(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.accept_again(&message("1")).await?;
    for divergence in [Divergence::KeepFirst, Divergence::Conflict] {
        fixture.accept_again(&message("1").payload("second").divergence(divergence)).await?;
    }
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Done);
    Ok(())
}
