//! Claims: which messages are delivered, how many, and what a worker gets.

use oncebox_core::{Accepted, Claim, Namespace, NewMessage, Timestamp};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, LEASE, TICK, claim, claim_in, claim_of, days, ids, key_in, mail, message, message_for, owner,
    seconds, span,
};

fn messages(count: u32) -> Vec<NewMessage> {
    (1..=count).map(|number| message(&number.to_string())).collect()
}

/// If nothing is ready, a claim is empty.
/// Holds: IBX-037.
/// Replays I-T1.
pub async fn a_claim_on_an_empty_store_is_empty(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    Ok(())
}

/// A claimed message is leased to its owner from now on, for the duration in the claim.
/// Holds: IBX-034, IBX-035, IBX-036, MBX-C-3.
/// Replays I-T2, I-T9.
pub async fn a_claim_leases_the_message_to_its_owner(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    fixture.advance(seconds(5)).await;
    let claim = Claim { owner: owner(7), lease: span(seconds(90)), ..claim(10) };
    let delivery = fixture.claim_one_by(&claim).await?;
    assert_eq!((delivery.key.id.as_str(), delivery.attempts, delivery.deliveries), ("1", 0, 1));
    assert_eq!(delivery.lease.owner, owner(7));
    assert_eq!(delivery.lease.until, fixture.now().await.after(seconds(90)));
    let stored = fixture.read(delivery.uid).await?;
    assert_eq!((stored.lease(), stored.deliveries), (Some(&delivery.lease), 1));
    Ok(())
}

/// A leased message is not claimed again, not even by its owner.
/// Holds: IBX-033, IBX-106.
pub async fn a_leased_message_is_not_claimed_again(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    fixture.claim_one().await?;
    fixture.advance_almost(LEASE).await;
    assert_eq!(fixture.claim(&claim(10)).await?, []);
    assert_eq!(fixture.claim(&Claim { owner: owner(2), ..claim(10) }).await?, []);
    Ok(())
}

/// A message is claimable from its due time on, to the millisecond.
/// Holds: IBX-023, IBX-032, RULE-09.
/// Replays I-T3, I-T59, L-T19, L-T20, L-T40.
pub async fn a_message_is_claimable_exactly_when_it_is_due(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").due(fixture.now().await.after(seconds(300)))).await?;
    fixture.advance_almost(seconds(300)).await;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(TICK).await;
    fixture.expect_claimable(&["1"]).await
}

/// A message without a due time, or with one that has passed, is claimable at once.
/// Holds: IBX-024.
pub async fn a_past_due_time_is_due(fixture: Fixture) -> TestResult {
    fixture.advance(days(1)).await;
    let now = fixture.now().await;
    let past = Timestamp::from_millis(now.as_millis() - 1);
    fixture.accept_all(&[message("1").due(past), message("2").due(now), message("3")]).await?;
    fixture.expect_claimable(&["1", "2", "3"]).await
}

/// A Done or Dead message is not claimed, however much time passes.
/// Holds: IBX-038, IBX-047, IBX-064.
/// Replays I-T4, I-T6, L-T39, L-T44.
pub async fn finished_messages_are_not_claimed(fixture: Fixture) -> TestResult {
    fixture.accept_all(&messages(2)).await?;
    let done = fixture.claim_one().await?;
    let dead = fixture.claim_one().await?;
    fixture.settle(done.ack()).await?;
    fixture.settle(dead.fail(None)).await?;
    fixture.expect_claimable(&[]).await?;
    fixture.advance(days(400)).await;
    fixture.expect_claimable(&[]).await
}

/// A claim delivers no more than its batch, and the next claim delivers the rest.
/// Holds: IBX-030, IBX-039.
/// Replays L-T18, L-T41.
pub async fn a_claim_delivers_no_more_than_its_batch(fixture: Fixture) -> TestResult {
    fixture.accept_all(&messages(5)).await?;
    for expected in [&["1", "2"][..], &["3", "4"], &["5"], &[]] {
        assert_eq!(ids(&fixture.claim(&claim(2)).await?), expected);
    }
    Ok(())
}

/// A claim is short only when nothing more is claimable, however many lanes the messages are spread over.
/// Holds: IBX-030, RULE-11.
/// Replays L-T17.
pub async fn a_claim_is_short_only_when_nothing_is_left(fixture: Fixture) -> TestResult {
    for number in 0..30 {
        fixture
            .accept(&message(&number.to_string()).topic(&format!("topic {}", number % 7)).shard(number % 3))
            .await?;
    }
    assert_eq!(fixture.claim(&claim(20)).await?.len(), 20);
    assert_eq!(fixture.claim(&claim(20)).await?.len(), 10);
    Ok(())
}

/// A claim delivers only messages of the topics that it names.
/// Holds: RULE-11.
pub async fn a_claim_delivers_only_its_topics(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").topic("a"), message("2").topic("b"), message("3").topic("c")]).await?;
    fixture.expect_claimable_by(&claim_of(&["b"], 10), &["2"]).await?;
    fixture.expect_claimable_by(&claim_of(&["d"], 10), &[]).await?;
    let deliveries = fixture.claim(&claim_of(&["a", "c", "a"], 10)).await?;
    let mut found = ids(&deliveries);
    found.sort_unstable();
    assert_eq!(found, ["1", "3"]);
    Ok(())
}

/// Topics are compared byte by byte: `Order.Created` is not `order.created`.
/// Holds: IBX-021.
pub async fn topics_differ_by_case(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").topic("Order.Created"), message("2").topic("order.created")]).await?;
    fixture.expect_claimable_by(&claim_of(&["order.created"], 10), &["2"]).await?;
    fixture.expect_claimable_by(&claim_of(&["Order.Created"], 10), &["1"]).await
}

/// A claim delivers messages while their payloads together stay within its bytes, inclusive.
/// Holds: MBX-C-1, RULE-11.
pub async fn a_claim_stays_within_its_bytes(fixture: Fixture) -> TestResult {
    for id in ["1", "2", "3"] {
        fixture.accept(&message(id).payload("ten bytes!")).await?;
    }
    fixture.expect_claimable_by(&Claim { bytes_max: Some(19), ..claim(10) }, &["1"]).await?;
    fixture.expect_claimable_by(&Claim { bytes_max: Some(20), ..claim(10) }, &["1", "2"]).await?;
    fixture.expect_claimable_by(&Claim { bytes_max: Some(30), ..claim(10) }, &["1", "2", "3"]).await
}

/// The first message of a claim is delivered whatever its size, and then nothing that does not fit.
/// Holds: MBX-C-1, RULE-11.
pub async fn the_first_message_is_delivered_whatever_its_size(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").payload("ten bytes!"), message("2").payload("ten bytes!")]).await?;
    fixture.expect_claimable_by(&Claim { bytes_max: Some(1), ..claim(10) }, &["1"]).await
}

/// A lane whose next message does not fit waits, and the other lanes are served.
/// Holds: RULE-11.
pub async fn a_message_that_does_not_fit_blocks_only_its_lane(fixture: Fixture) -> TestResult {
    for (id, topic, bytes) in [("1", "a", 10), ("2", "a", 100), ("3", "a", 1), ("4", "b", 10), ("5", "b", 10)]
    {
        fixture.accept(&message(id).content(topic, &vec![0; bytes])).await?;
    }
    let deliveries = fixture.claim(&Claim { bytes_max: Some(40), ..claim(10) }).await?;
    let mut found = ids(&deliveries);
    found.sort_unstable();
    assert_eq!(found, ["1", "4", "5"]);
    Ok(())
}

/// A claim never crosses its namespace, whether or not it names topics.
/// Holds: RULE-02.
pub async fn a_claim_stays_in_its_namespace(fixture: Fixture) -> TestResult {
    for namespace in Namespace::ALL {
        fixture.accept(&message_for(key_in(namespace, "shop", "1"))).await?;
        fixture.accept(&message_for(key_in(namespace, "shop", "2"))).await?;
    }
    for namespace in Namespace::ALL {
        let named = Claim { namespace, ..claim_of(&["orders"], 1) };
        for claim in [named, claim_in(namespace, 10)] {
            assert_eq!(fixture.claim_one_by(&claim).await?.key.namespace, namespace);
        }
    }
    Ok(())
}

/// However often a message is sent, it is delivered once.
/// Holds: IBX-014, MBX-G-2, MBX-I-2.
pub async fn many_duplicates_are_one_delivery(fixture: Fixture) -> TestResult {
    let summary = fixture.accept(&mail("1")).await?;
    for _ in 0..20 {
        let again = fixture.accept_again(&mail("1")).await?;
        assert_eq!(again, Accepted::Duplicate { summary: summary.clone(), diverged: false });
    }
    let delivery = fixture.claim_one_by(&claim_in(Namespace::Mailbox, 10)).await?;
    assert_eq!((delivery.uid, delivery.deliveries), (summary.uid, 1));
    Ok(())
}

/// A claim with an in-flight limit leaves no more messages of its namespace in flight than that, for all owners
/// together.
/// Holds: MBX-I-5.
pub async fn a_claim_respects_its_in_flight_limit(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3", "4"].map(message)).await?;
    let below = |ceiling: u64| Claim { in_flight_max: Some(ceiling), ..claim(10) };
    assert_eq!(fixture.claim(&below(0)).await?, []);
    let first = fixture.claim(&below(3)).await?;
    assert_eq!(ids(&first), ["1", "2", "3"]);
    assert_eq!(fixture.claim(&Claim { owner: owner(2), ..below(3) }).await?, []);
    fixture.settle(first[0].ack()).await?;
    assert_eq!(ids(&fixture.claim(&below(3)).await?), ["4"]);
    Ok(())
}
