//! Repeats: a repeated settlement or claim has the same outcome and changes nothing.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{Batch, Budget, Claim, DeadReason, Namespace, RequestId, Settled, Topics};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, LEASE, TICK, claim, claim_of, error, ids, mail, message, owner, seconds, span, topic,
};

/// A repeated settlement has the same outcome, even later, and changes nothing.
/// Holds: IBX-049, RULE-06, RULE-17.
pub async fn a_repeated_settlement_has_the_same_outcome(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3", "4"].map(message)).await?;
    let deliveries = fixture.claim(&Claim { lease: span(seconds(600)), ..claim(4) }).await?;
    let [first, second, third, fourth] = &*deliveries else { return Err("four messages were ready".into()) };
    let abandon = second.abandon(span(seconds(600)), error("boom"));
    for settlement in [first.ack(), abandon, third.fail(error("boom")), fourth.release()] {
        let outcome = fixture.settle(settlement.clone()).await?;
        assert_ne!(outcome, Settled::LeaseLost);
        let before = fixture.read(settlement.uid).await?;
        fixture.advance(seconds(60)).await;
        assert_eq!(fixture.settle(settlement.clone()).await?, outcome);
        assert_eq!(fixture.read(settlement.uid).await?, before);
    }
    Ok(())
}

/// A settlement of another kind is not a repeat: it changes nothing and returns `LeaseLost`.
/// Holds: RULE-06.
pub async fn another_kind_is_not_a_repeat(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.abandon(span(seconds(600)), None)).await?;
    let before = fixture.read(delivery.uid).await?;
    for other in [delivery.ack(), delivery.fail(error("boom")), delivery.release()] {
        assert_eq!(fixture.settle(other).await?, Settled::LeaseLost);
    }
    assert_eq!(fixture.read(delivery.uid).await?, before);
    Ok(())
}

/// After the next grant the earlier settlement is no longer a repeat.
/// Holds: RULE-06.
pub async fn a_repeat_ends_with_the_next_grant(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let released = fixture.claim_one().await?;
    fixture.settle(released.release()).await?;
    let next = fixture.claim_one().await?;
    assert_eq!(fixture.settle(released.release()).await?, Settled::LeaseLost);
    assert_eq!(fixture.read(next.uid).await?.lease(), Some(&next.lease));
    Ok(())
}

/// Repeating a superseded settlement returns `Superseded`, and the newer content stays ready.
/// Holds: RULE-06, RULE-08.
pub async fn a_superseded_settlement_can_be_repeated(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.accept_again(&message("1").payload("second")).await?;
    for _ in 0..2 {
        assert_eq!(fixture.settle(delivery.ack()).await?, Settled::Superseded);
    }
    fixture.expect_claimable(&["1"]).await
}

/// Repeating the abandon that spent the last attempt has the same outcome.
/// Holds: RULE-06, RULE-07.
pub async fn the_last_abandon_can_be_repeated(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1").attempts_max(1)).await?;
    let delivery = fixture.claim_one().await?;
    for _ in 0..2 {
        let settled = fixture.settle(delivery.abandon(span(TICK), error("boom"))).await?;
        assert_eq!(settled, Settled::Dead { reason: DeadReason::Exhausted });
        assert_eq!(fixture.read(delivery.uid).await?.attempts, 1);
    }
    Ok(())
}

/// A Done message answers repeats for ten minutes, whatever maintenance forgets and even if its key has been free for
/// long.
/// Holds: RULE-06, RULE-17.
pub async fn a_done_message_answers_repeats_for_ten_minutes(fixture: Fixture) -> TestResult {
    let done = fixture.finish(&mail("1").hold(seconds(1), None)).await?;
    fixture.advance_almost(REPEAT_WINDOW).await;
    fixture.maintain(&Budget::new(1_000)).await?;
    assert_eq!(fixture.settle(done.ack()).await?, Settled::Done);
    Ok(())
}

/// A claim with the same owner and request id gets the same deliveries, and claims nothing more.
/// Holds: RULE-06.
pub async fn a_claim_with_its_request_id_gets_the_same_deliveries(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(2) };
    let deliveries = fixture.claim(&request).await?;
    assert_eq!(ids(&deliveries), ["1", "2"]);
    fixture.advance(seconds(1)).await;
    assert_eq!(fixture.claim(&request).await?, deliveries);
    fixture.expect_claimable(&["3"]).await
}

/// A repeated claim gets those of its deliveries whose leases are current, and claims new messages when there are none.
/// Holds: RULE-06.
pub async fn a_repeated_claim_gets_what_is_still_current(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(2) };
    let deliveries = fixture.claim(&request).await?;
    fixture.settle(deliveries[0].ack()).await?;
    assert_eq!(fixture.claim(&request).await?, deliveries[1..]);
    fixture.settle(deliveries[1].ack()).await?;
    assert_eq!(ids(&fixture.claim(&request).await?), ["3"]);
    fixture.advance(LEASE).await;
    let again = fixture.claim_one_by(&request).await?;
    assert_eq!((again.key.id.as_str(), again.attempts, again.deliveries), ("3", 1, 2));
    Ok(())
}

/// A request id that is reused for other work is another request: other topics, another batch, lease or byte limit.
/// Holds: RULE-06.
pub async fn a_request_id_for_other_work_is_another_claim(fixture: Fixture) -> TestResult {
    let topics = ["invoices", "orders", "orders", "orders", "orders"];
    let sent: Vec<_> =
        topics.iter().enumerate().map(|(number, topic)| message(&number.to_string()).topic(topic)).collect();
    fixture.accept_all(&sent).await?;
    let orders = Claim { request: Some(RequestId::from_u128(5)), ..claim_of(&["orders"], 1) };
    let invoices = Claim { topics: Topics::only([topic("invoices")])?, ..orders.clone() };
    let larger = Claim { batch: Batch::new(2)?, bytes_max: Some(1), ..orders.clone() };
    let longer = Claim { lease: span(seconds(600)), ..orders.clone() };
    let mut found = Vec::new();
    for claim in [&orders, &invoices, &larger, &longer, &orders, &invoices, &larger, &longer] {
        found.push(fixture.claim_one_by(claim).await?.key.id.as_str().to_owned());
    }
    assert_eq!(found, ["1", "0", "2", "3", "1", "0", "2", "3"]);
    Ok(())
}

/// Another owner, another request id, another namespace or no request id at all makes another claim.
/// Holds: RULE-02, RULE-06.
pub async fn another_request_is_another_claim(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2"), message("3"), message("4"), mail("5")]).await?;
    let request = Claim { request: Some(RequestId::from_u128(5)), ..claim(1) };
    let other_owner = Claim { owner: owner(2), ..request.clone() };
    let other_request = Claim { request: Some(RequestId::from_u128(6)), ..claim(1) };
    let other_namespace = Claim { namespace: Namespace::Mailbox, ..request.clone() };
    let mut found = Vec::new();
    for claim in [&request, &other_owner, &other_request, &claim(1), &other_namespace] {
        found.push(fixture.claim_one_by(claim).await?.key.id.as_str().to_owned());
    }
    assert_eq!(found, ["1", "2", "3", "4", "5"]);
    Ok(())
}

/// A lapsed lease is lost, and settling it again changes nothing.
/// Holds: RULE-05, RULE-06.
pub async fn a_lost_lease_stays_lost(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    fixture.advance(LEASE).await;
    let before = fixture.read(delivery.uid).await?;
    for _ in 0..2 {
        assert_eq!(fixture.settle(delivery.ack()).await?, Settled::LeaseLost);
    }
    assert_eq!(fixture.read(delivery.uid).await?, before);
    Ok(())
}

/// A repeated claim leaves out messages that were replaced since, and claims nothing in their place.
/// Holds: RULE-06, RULE-08.
pub async fn a_repeated_claim_leaves_out_replaced_messages(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    let request = Claim { request: Some(RequestId::from_u128(7)), ..claim(2) };
    let first = fixture.claim(&request).await?;
    assert_eq!(ids(&first), ["1", "2"]);
    fixture.accept_again(&message("1").payload("second")).await?;
    assert_eq!(fixture.claim(&request).await?, first[1..]);
    fixture.settle(first[1].ack()).await?;
    assert_eq!(fixture.claim(&request).await?, []);
    assert_eq!(fixture.settle(first[0].ack()).await?, Settled::Superseded);
    assert_eq!(ids(&fixture.claim(&request).await?), ["1", "3"]);
    Ok(())
}
