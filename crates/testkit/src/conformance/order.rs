//! Order: by number within a lane, round-robin across lanes.

use std::collections::BTreeMap;

use oncebox_core::{Action, Shard, Topic};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Draft, LEASE, claim, claim_of, ids, message, seconds, span};

/// A lane delivers its messages in the order in which they were accepted.
/// Holds: MBX-I-14, RULE-11.
/// Replays L-T41.
pub async fn a_lane_delivers_in_order_of_acceptance(fixture: Fixture) -> TestResult {
    let sent = ["9", "3", "z", "1", "a", "7", "5"];
    for id in sent {
        fixture.accept(&message(id)).await?;
        fixture.advance(seconds(1)).await;
    }
    let mut found = Vec::new();
    while let Some(delivery) = fixture.claim(&claim(1)).await?.pop() {
        found.push(delivery.key.id.as_str().to_owned());
    }
    assert_eq!(found, sent);
    Ok(())
}

/// Each topic and shard keeps its own order within one claim.
/// Holds: MBX-I-14, RULE-11.
pub async fn every_lane_keeps_its_own_order(fixture: Fixture) -> TestResult {
    for number in 0..40 {
        let topic = ["a", "b"][usize::from(number % 2)];
        fixture.accept(&message(&number.to_string()).topic(topic).shard(number % 5)).await?;
    }
    let mut lanes: BTreeMap<(Topic, Shard), Vec<_>> = BTreeMap::new();
    for delivery in fixture.claim(&claim(100)).await? {
        lanes.entry((delivery.content.topic, delivery.content.shard)).or_default().push(delivery.number);
    }
    assert_eq!(lanes.len(), 10);
    for (lane, numbers) in lanes {
        assert_eq!(numbers.len(), 4, "{lane:?}");
        assert!(numbers.is_sorted(), "{lane:?}: {numbers:?}");
    }
    Ok(())
}

/// A lane with a backlog does not starve another one.
/// Holds: RULE-11.
pub async fn lanes_take_turns(fixture: Fixture) -> TestResult {
    for number in 0..50 {
        fixture.accept(&message(&number.to_string()).topic("busy")).await?;
    }
    fixture.accept(&message("rare").topic("quiet")).await?;
    for _ in 0..25 {
        if ids(&fixture.claim(&claim(1)).await?) == ["rare"] {
            return Ok(());
        }
    }
    Err("the quiet lane was not served in 25 claims".into())
}

/// Among the topics that a claim names, one with a backlog does not starve another, whatever is claimed in between.
/// Holds: RULE-11.
pub async fn named_topics_take_turns(fixture: Fixture) -> TestResult {
    for number in 0..50 {
        fixture.accept(&message(&number.to_string()).topic("busy")).await?;
        fixture.accept(&message(&format!("other {number}")).topic("other")).await?;
    }
    fixture.accept(&message("rare").topic("quiet")).await?;
    for _ in 0..25 {
        if ids(&fixture.claim(&claim_of(&["busy", "quiet"], 1)).await?) == ["rare"] {
            return Ok(());
        }
        fixture.claim(&claim_of(&["other"], 1)).await?;
    }
    Err("the quiet topic was not served in 25 claims".into())
}

/// A shard with a backlog does not starve another shard of its topic, whichever of them is first.
/// Holds: RULE-11, MBX-I-14, MBX-P-1.
pub async fn shards_of_a_topic_take_turns(fixture: Fixture) -> TestResult {
    for number in 0..50 {
        fixture.accept(&message(&number.to_string()).topic("mail").shard(1)).await?;
    }
    for (id, shard) in [("first", 0), ("last", 2)] {
        fixture.accept(&message(id).topic("mail").shard(shard)).await?;
    }
    for claim in [claim(1), claim_of(&["mail"], 1)] {
        let mut served = Vec::new();
        for _ in 0..12 {
            let delivery = fixture.claim_one_by(&claim).await?;
            served.push(delivery.content.shard);
            if delivery.content.shard != Shard(1) {
                fixture.settle(delivery.release()).await?;
            }
        }
        for shard in [0, 1, 2].map(Shard) {
            assert!(served.contains(&shard), "{shard:?} was not served in twelve claims: {served:?}");
        }
    }
    Ok(())
}

/// A released message keeps its place.
/// Holds: RULE-11.
pub async fn a_released_message_keeps_its_place(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.release()).await?;
    fixture.expect_claimable(&["1", "2"]).await
}

/// Other messages overtake an abandoned message while it waits; then it is in its old place.
/// Holds: RULE-11.
pub async fn an_abandoned_message_keeps_its_place(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(seconds(10)), None)).await?;
    fixture.accept(&message("3")).await?;
    fixture.expect_claimable(&["2", "3"]).await?;
    fixture.advance(seconds(10)).await;
    fixture.expect_claimable(&["1", "2", "3"]).await
}

/// A message whose lease lapsed keeps its place.
/// Holds: RULE-11.
pub async fn a_lapsed_message_keeps_its_place(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    fixture.claim_one().await?;
    fixture.expect_claimable(&["2"]).await?;
    fixture.advance(LEASE).await;
    fixture.expect_claimable(&["1", "2"]).await
}

/// A message that becomes due takes the place of its number.
/// Holds: IBX-023, RULE-11.
pub async fn a_message_that_becomes_due_takes_its_place(fixture: Fixture) -> TestResult {
    let due = fixture.now().await.after(seconds(10));
    fixture.accept_all(&[message("1"), message("2").due(due), message("3")]).await?;
    fixture.expect_claimable(&["1", "3"]).await?;
    fixture.advance(seconds(10)).await;
    fixture.expect_claimable(&["1", "2", "3"]).await
}

/// A redriven message moves behind those that are waiting, with a new number.
/// Holds: RULE-11.
pub async fn a_redriven_message_moves_to_the_end(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.fail(None)).await?;
    fixture.accept(&message("3")).await?;
    fixture.change(delivery.uid, Action::REDRIVE).await?;
    assert!(fixture.read(delivery.uid).await?.number > delivery.number);
    fixture.expect_claimable(&["2", "3", "1"]).await
}

/// A message that is marked Processing again keeps its place.
/// Holds: RULE-04, RULE-11.
pub async fn a_message_marked_processing_keeps_its_place(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2")]).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.fail(None)).await?;
    fixture.change(delivery.uid, Action::MarkProcessing).await?;
    fixture.expect_claimable(&["1", "2"]).await
}
