//! Erasure: an erased message leaves no trace.

use oncebox_core::{Accepted, Action, MessageQuery, Namespace, Operated, Settled};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, claim, claim_in, key, mail, message, observation, seconds};

/// Nothing of an erased message can be read, by key, by uid or in a listing.
/// Holds: RULE-02.
pub async fn an_erased_message_leaves_no_trace(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&message("1")).await?;
    assert_eq!(fixture.change(key("1"), Action::Erase).await?, summary);
    assert_eq!(fixture.find(key("1")).await?, None);
    assert_eq!(fixture.find(summary.uid).await?, None);
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, []);
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// An erased key is free at once: the next message is new, and may even have the old uid.
/// Holds: RULE-02, RULE-03.
pub async fn an_erase_frees_the_key(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").uid(7)).await?;
    fixture.change(key("1"), Action::Erase).await?;
    let next = fixture.accept(&message("1").uid(7).payload("second")).await?;
    assert_eq!(next.accepted_at, fixture.now().await);
    assert_eq!(fixture.claim_one().await?.content.payload.as_bytes(), b"second");
    Ok(())
}

/// A message in any state can be erased, and repeating the erase returns `Unknown`.
/// Holds: RULE-04.
pub async fn a_message_in_any_state_is_erased(fixture: Fixture) -> TestResult {
    fixture.finish(&message("done")).await?;
    fixture.accept_all(&[message("leased"), message("dead")]).await?;
    let leased = fixture.claim_one().await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    fixture.observe_new(observation(key("seen"))).await?;
    for id in ["done", "leased", "dead", "seen"] {
        fixture.change(key(id), Action::Erase).await?;
        assert_eq!(fixture.order(key(id), Action::Erase).await?, Operated::Unknown);
        assert_eq!(fixture.find(key(id)).await?, None);
    }
    assert_eq!(fixture.settle(leased.ack()).await?, Settled::LeaseLost);
    Ok(())
}

/// Erasing a message that lost its key does not affect the message that holds the key.
/// Holds: RULE-02.
pub async fn erasing_an_older_message_leaves_the_key_alone(fixture: Fixture) -> TestResult {
    let older = fixture.accept(&mail("1")).await?;
    fixture.advance(seconds(300)).await;
    let newer = fixture.accept(&mail("1")).await?;
    fixture.change(older.uid, Action::Erase).await?;
    let again = fixture.accept_again(&mail("1")).await?;
    assert_eq!(again, Accepted::Duplicate { summary: newer.clone(), diverged: false });
    assert_eq!(fixture.claim_one_by(&claim_in(Namespace::Mailbox, 10)).await?.uid, newer.uid);
    Ok(())
}
