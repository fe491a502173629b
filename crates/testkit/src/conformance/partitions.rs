//! Partitions: one message in flight at a time, in order.

use oncebox_core::{Action, Claim, Namespace, Settled};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, LEASE, TICK, claim, claim_in, claim_of, days, key, key_in, message, message_for, owner, seconds,
    span,
};

/// One message of a partition is in flight, whatever the topics and shards; the next one follows when it is settled.
/// Holds: RULE-11, RULE-23.
pub async fn one_message_of_a_partition_is_in_flight(fixture: Fixture) -> TestResult {
    let in_p = |id: &str| message(id).partition("p");
    fixture.accept_all(&[in_p("1"), in_p("2"), in_p("3").topic("other"), in_p("4").shard(9)]).await?;
    for expected in ["1", "2", "3", "4"] {
        let delivery = fixture.claim_one_by(&claim(10)).await?;
        assert_eq!(delivery.key.id.as_str(), expected);
        assert_eq!(fixture.claim(&Claim { owner: owner(2), ..claim(10) }).await?, []);
        fixture.settle(delivery.ack()).await?;
    }
    Ok(())
}

/// Different partitions, and messages without one, do not wait for each other.
/// Holds: RULE-11, RULE-23.
pub async fn partitions_do_not_wait_for_each_other(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("q"), message("3")]).await?;
    fixture.expect_claimable(&["1", "2", "3"]).await
}

/// A partition belongs to its namespace.
/// Holds: RULE-02, RULE-11.
pub async fn a_partition_belongs_to_its_namespace(fixture: Fixture) -> TestResult {
    for namespace in Namespace::ALL {
        fixture.accept(&message_for(key_in(namespace, "shop", "1")).partition("p")).await?;
    }
    for namespace in Namespace::ALL {
        fixture.claim_one_by(&claim_in(namespace, 10)).await?;
    }
    Ok(())
}

/// A message that waits for its retry time blocks its partition.
/// Holds: RULE-11, RULE-23.
pub async fn a_retry_time_blocks_the_partition(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(seconds(60)), None)).await?;
    fixture.advance_almost(seconds(60)).await;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(TICK).await;
    fixture.expect_claimable(&["1"]).await
}

/// A message whose lease lapsed, or that was released, is first again.
/// Holds: RULE-11, RULE-23.
pub async fn a_returned_message_is_first_in_its_partition(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let again = fixture.claim_one_by(&claim(10)).await?;
    assert_eq!(again.key.id.as_str(), "1");
    fixture.settle(again.release()).await?;
    fixture.expect_claimable(&["1"]).await
}

/// A message that is not due yet does not block its partition.
/// Holds: RULE-11, RULE-23.
pub async fn a_future_due_time_does_not_block_the_partition(fixture: Fixture) -> TestResult {
    let due = fixture.now().await.after(days(1));
    fixture.accept_all(&[message("1").partition("p").due(due), message("2").partition("p")]).await?;
    fixture.expect_claimable(&["2"]).await
}

/// A message that becomes due takes its place in its partition, but never while another one is in flight.
/// Holds: RULE-11, RULE-23.
pub async fn a_due_message_takes_its_place_in_its_partition(fixture: Fixture) -> TestResult {
    let due = fixture.now().await.after(seconds(10));
    let messages = [message("1").due(due), message("2"), message("3")];
    fixture.accept_all(&messages.map(|message| message.partition("p"))).await?;
    let second = fixture.claim_one_by(&claim(10)).await?;
    assert_eq!(second.key.id.as_str(), "2");
    fixture.advance(seconds(10)).await;
    fixture.expect_claimable(&[]).await?;
    fixture.settle(second.ack()).await?;
    fixture.expect_claimable(&["1"]).await
}

/// A message that its worker makes Done or Dead frees the partition.
/// Holds: RULE-11, RULE-23.
pub async fn a_settled_message_frees_its_partition(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(|id| message(id).partition("p"))).await?;
    let done = fixture.claim_one_by(&claim(10)).await?;
    fixture.settle(done.ack()).await?;
    let dead = fixture.claim_one_by(&claim(10)).await?;
    assert_eq!(dead.key.id.as_str(), "2");
    fixture.settle(dead.fail(None)).await?;
    fixture.expect_claimable(&["3"]).await
}

/// A message that an operator finishes or erases frees the partition, leased or waiting.
/// Holds: RULE-11, RULE-23.
pub async fn an_operator_frees_a_partition(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3", "4", "5"].map(|id| message(id).partition("p"))).await?;
    fixture.claim_one().await?;
    fixture.change(key("1"), Action::Cancel).await?;
    fixture.expect_claimable(&["2"]).await?;
    fixture.change(key("2"), Action::MarkDead { error: None }).await?;
    fixture.expect_claimable(&["3"]).await?;
    fixture.claim_one().await?;
    fixture.change(key("3"), Action::Erase).await?;
    fixture.expect_claimable(&["4"]).await?;
    fixture.change(key("4"), Action::Erase).await?;
    fixture.expect_claimable(&["5"]).await
}

/// An expired message frees the partition, to the millisecond.
/// Holds: RULE-11, RULE-12.
pub async fn an_expired_message_frees_its_partition(fixture: Fixture) -> TestResult {
    let expires = fixture.now().await.after(seconds(10));
    fixture.accept_all(&[message("1").partition("p").expires(expires), message("2").partition("p")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(days(1)), None)).await?;
    fixture.advance_almost(seconds(10)).await;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(TICK).await;
    fixture.expect_claimable(&["2"]).await
}

/// A redriven message moves behind those that wait in its partition.
/// Holds: RULE-11.
pub async fn a_redriven_message_is_last_in_its_partition(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.fail(None)).await?;
    fixture.change(delivery.uid, Action::REDRIVE).await?;
    let second = fixture.claim_one_by(&claim(10)).await?;
    assert_eq!(second.key.id.as_str(), "2");
    fixture.settle(second.ack()).await?;
    fixture.expect_claimable(&["1"]).await
}

/// A partition waits for its first message even if a claim does not name the topic of that message.
/// Holds: RULE-11, RULE-23.
pub async fn a_partition_waits_for_a_topic_that_is_not_claimed(fixture: Fixture) -> TestResult {
    fixture
        .accept_all(&[message("1").topic("a").partition("p"), message("2").topic("b").partition("p")])
        .await?;
    fixture.expect_claimable_by(&claim_of(&["b"], 10), &[]).await?;
    fixture.expect_claimable_by(&claim_of(&["a"], 10), &["1"]).await
}

/// A message whose replacement is in another partition stays in flight in the old one until its lease ends.
/// Holds: RULE-08, RULE-11.
pub async fn a_moved_message_is_in_flight_where_it_was_leased(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.accept_again(&message("1").payload("second").partition("q")).await?;
    fixture.accept(&message("3").partition("q")).await?;
    fixture.expect_claimable(&["3"]).await?;
    assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Superseded);
    fixture.expect_claimable(&["1", "2"]).await
}
