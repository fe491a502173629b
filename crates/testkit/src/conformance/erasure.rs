//! Erasure: nothing remains of a message.

use oncebox_core::{Accepted, Action, Namespace, Operated, Query, Settled};

use super::kit::{Draft, claim, claim_in, key, mail, message, seconds, sighting};
use crate::fixture::{Fixture, TestResult};

/// Nothing of an erased message can be read, by key, by uid or in a listing.
/// Holds: RULE-02.
pub async fn nothing_remains_of_an_erased_message(fixture: Fixture) -> TestResult {
    let receipt = fixture.accept(&message("1")).await?;
    assert_eq!(fixture.change(key("1"), Action::Erase).await?, receipt);
    assert_eq!(fixture.find(key("1")).await?, None);
    assert_eq!(fixture.find(receipt.uid).await?, None);
    assert_eq!(fixture.list(&Query::all(Namespace::Inbox)).await?, []);
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// An erased key is free at once: what comes under it is new, and may even bring the old uid.
/// Holds: RULE-02, RULE-03.
pub async fn an_erase_frees_the_key(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").uid(7)).await?;
    fixture.change(key("1"), Action::Erase).await?;
    let next = fixture.accept(&message("1").uid(7).payload("second")).await?;
    assert_eq!(next.accepted_at, fixture.now().await);
    assert_eq!(fixture.take().await?.content.payload.as_bytes(), b"second");
    Ok(())
}

/// A message in any state is erased, and an erase comes again as unknown.
/// Holds: RULE-04.
pub async fn a_message_in_any_state_is_erased(fixture: Fixture) -> TestResult {
    fixture.finish(&message("done")).await?;
    fixture.accept_all(&[message("leased"), message("dead")]).await?;
    let leased = fixture.take().await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    fixture.sight(sighting(key("seen"))).await?;
    for id in ["done", "leased", "dead", "seen"] {
        fixture.change(key(id), Action::Erase).await?;
        assert_eq!(fixture.order(key(id), Action::Erase).await?, Operated::Unknown);
        assert_eq!(fixture.find(key(id)).await?, None);
    }
    assert_eq!(fixture.settle(leased.ack()).await?, Settled::LeaseLost);
    Ok(())
}

/// Erasing a message that lost its key leaves the key to the message that has it.
/// Holds: RULE-02.
pub async fn erasing_an_older_message_leaves_the_key_alone(fixture: Fixture) -> TestResult {
    let older = fixture.accept(&mail("1")).await?;
    fixture.pass(seconds(300)).await;
    let newer = fixture.accept(&mail("1")).await?;
    fixture.change(older.uid, Action::Erase).await?;
    let again = fixture.again(&mail("1")).await?;
    assert_eq!(again, Accepted::Duplicate { receipt: newer.clone(), diverged: false });
    assert_eq!(fixture.take_by(&claim_in(Namespace::Mailbox, 10)).await?.uid, newer.uid);
    Ok(())
}
