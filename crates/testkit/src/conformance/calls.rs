//! Calls: one outcome per item, in order; limits; closing.

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{
    Accepted, Action, Begin, Begun, Budget, Claim, Extended, Kind, Namespace, Observed, Operated, Order,
    Policy, Query, ReadyTopics, Ref, Scope, Settled, StoreExt, TopicQuery, Worked,
};

use super::kit::{Draft, LEASE, claim, claim_in, claim_of, ids, key, mail, message, owner, sighting, span};
use crate::fixture::{Fixture, TestResult};

/// A call without items answers at once, with nothing.
/// Holds: IBX-048, IBX-059, IBX-066.
pub async fn an_empty_call_does_nothing(fixture: Fixture) -> TestResult {
    let store = &fixture.store;
    assert_eq!(store.observe(&[]).await?, []);
    assert_eq!(store.accept(&[]).await?, []);
    assert_eq!(store.begin(&[]).await?, []);
    assert_eq!(store.work(&[], &[]).await?, Worked::default());
    assert_eq!(store.extend(&[]).await?, []);
    assert_eq!(store.operate(&[]).await?, []);
    assert_eq!(store.get(&[]).await?, []);
    Ok(())
}

/// A call gives one outcome per item, in the order of the items.
/// Holds: RULE-13.
pub async fn outcomes_come_in_the_order_of_the_items(fixture: Fixture) -> TestResult {
    let known = fixture.accept(&mail("known").uid(7)).await?;
    let calls = [mail("a"), mail("known"), mail("known").payload("other"), mail("b").uid(7), mail("c")];
    let accepted = fixture.store.accept(&calls).await?;
    let [first, duplicate, conflict, taken, last] = &*accepted else { return Err("five outcomes".into()) };
    assert!(matches!(first, Accepted::New { .. }), "{first:?}");
    assert_eq!(*duplicate, Accepted::Duplicate { receipt: known.clone(), diverged: false });
    assert_eq!((conflict, taken), (&Accepted::Conflict(known.clone()), &Accepted::UidTaken(known)));
    assert!(matches!(last, Accepted::New { .. }), "{last:?}");
    Ok(())
}

/// The same key twice in one call acts twice, one after the other.
/// Holds: IBX-014, RULE-13.
pub async fn the_same_key_twice_in_one_call_acts_twice(fixture: Fixture) -> TestResult {
    let accepted =
        fixture.store.accept(&[message("1"), message("1"), message("1").payload("second")]).await?;
    let receipt = fixture.read(key("1")).await?.receipt();
    let (new, duplicate) = (receipt.clone(), receipt.clone());
    assert_eq!(accepted[0], Accepted::New { receipt: new, diverged: false });
    assert_eq!(accepted[1], Accepted::Duplicate { receipt: duplicate, diverged: false });
    assert_eq!(accepted[2], Accepted::Replaced(receipt));
    let observed = fixture.store.observe(&[sighting(key("2")), sighting(key("2"))]).await?;
    let [Observed::First(first), Observed::Again { receipt, .. }] = &*observed else {
        return Err(format!("{observed:?}").into());
    };
    assert_eq!(first, receipt);
    Ok(())
}

/// The same delivery twice in one call is tolerated.
/// Holds: IBX-048, IBX-059, IBX-066, RULE-06, RULE-13.
pub async fn the_same_delivery_twice_in_one_call_is_tolerated(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    for index in 0..3 {
        let delivery = fixture.take().await?;
        let all = [delivery.ack(), delivery.fail(None), delivery.abandon(span(LEASE), None)];
        let settled = fixture.store.settle(&[all[index].clone(), all[index].clone()]).await?;
        assert_eq!(settled[0], settled[1]);
        assert_ne!(settled[0], Settled::LeaseLost);
    }
    Ok(())
}

/// Leasing, extending and ordering twice in one call acts twice, one after the other.
/// Holds: LDG-05, RULE-13.
pub async fn every_call_takes_its_items_in_turn(fixture: Fixture) -> TestResult {
    let wish = Begin { key: key("1"), owner: owner(1), lease: span(LEASE), hold: Policy::LEDGER.hold };
    let begun = fixture.store.begin(&[wish.clone(), wish]).await?;
    let [Begun::Acquired { lease, .. }, Begun::Busy { until }] = &*begun else {
        return Err(format!("{begun:?}").into());
    };
    assert_eq!(lease.until, *until);
    fixture.accept(&message("2")).await?;
    let delivery = fixture.take().await?;
    let extended =
        fixture.store.extend(&[delivery.extend(span(LEASE * 3)), delivery.extend(span(LEASE))]).await?;
    assert_eq!(extended, [Extended::Until(fixture.now().await.after(LEASE * 3)); 2]);
    let order = |action| Order { target: Ref::from(key("2")), action };
    let operated =
        fixture.store.operate(&[order(Action::Cancel), order(Action::Cancel), order(Action::Erase)]).await?;
    let [Operated::Changed(_), Operated::Unchanged(_), Operated::Changed(_)] = &*operated else {
        return Err(format!("{operated:?}").into());
    };
    Ok(())
}

/// One call of work settles first and claims then: what it frees, it can claim.
/// Holds: RULE-13.
pub async fn work_settles_before_it_claims(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    let first = fixture.take().await?;
    let worked = fixture.store.work(&[first.ack()], &[claim(10)]).await?;
    assert_eq!(worked.settled, [Settled::Done]);
    assert_eq!(worked.deliveries.len(), 1);
    assert_eq!(ids(&worked.deliveries[0]), ["2"]);
    Ok(())
}

/// Several claims of one call each get their own deliveries, in order.
/// Holds: IBX-106, RULE-13.
pub async fn each_claim_of_a_call_gets_its_own_deliveries(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1"), message("2"), message("3").topic("other")]).await?;
    fixture.accept(&mail("4")).await?;
    let other_owner = Claim { owner: owner(2), ..claim_of(&["orders"], 10) };
    let claims =
        [claim_of(&["orders"], 1), claim_in(Namespace::Mailbox, 10), other_owner, claim_of(&["other"], 10)];
    let worked = fixture.store.work(&[], &claims).await?;
    let found: Vec<_> = worked.deliveries.iter().map(|deliveries| ids(deliveries)).collect();
    assert_eq!(found, [["1"], ["4"], ["2"], ["3"]]);
    assert_eq!(worked.deliveries[2][0].lease.owner, owner(2));
    Ok(())
}

/// A call may have as many items as the limit says; one more is invalid, and then nothing of it happens.
/// Holds: IBX-102, RULE-13, RULE-19.
pub async fn a_call_over_the_limit_is_invalid_and_does_nothing(fixture: Fixture) -> TestResult {
    let store = &fixture.store;
    let sightings = vec![sighting(key("1")); CALL_ITEMS_MAX];
    assert_eq!(store.observe(&sightings).await?.len(), CALL_ITEMS_MAX);
    let sightings = vec![sighting(key("2")); CALL_ITEMS_MAX + 1];
    assert_eq!(store.observe(&sightings).await.map_err(|error| error.kind()), Err(Kind::Invalid));
    let messages = vec![message("3"); CALL_ITEMS_MAX + 1];
    assert_eq!(store.accept(&messages).await.map_err(|error| error.kind()), Err(Kind::Invalid));
    let order = Order { target: Ref::from(key("1")), action: Action::Cancel };
    let orders = vec![order; CALL_ITEMS_MAX + 1];
    assert_eq!(store.operate(&orders).await.map_err(|error| error.kind()), Err(Kind::Invalid));
    let refs = vec![Ref::from(key("1")); CALL_ITEMS_MAX + 1];
    assert_eq!(store.get(&refs).await.map_err(|error| error.kind()), Err(Kind::Invalid));
    let left = fixture.list(&Query::all(Namespace::Inbox)).await?;
    assert_eq!(left.iter().map(|message| message.key.id.as_str()).collect::<Vec<_>>(), ["1"]);
    assert_eq!(left[0].dead, None);
    Ok(())
}

/// After a store is closed every call says so, and closing it again is fine.
pub async fn a_closed_store_says_so(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.take().await?;
    let store = &fixture.store;
    store.close().await?;
    store.close().await?;
    let begin = Begin { key: key("2"), owner: owner(1), lease: span(LEASE), hold: Policy::LEDGER.hold };
    let order = Order { target: Ref::from(key("1")), action: Action::Cancel };
    let errors = [
        store.observe(&[sighting(key("2"))]).await.err(),
        store.accept(&[message("2")]).await.err(),
        store.begin(&[begin]).await.err(),
        store.work(&[delivery.ack()], &[]).await.err(),
        store.work(&[], &[claim(1)]).await.err(),
        store.extend(&[delivery.extend(span(LEASE))]).await.err(),
        store.operate(&[order]).await.err(),
        store.get(&[Ref::from(key("1"))]).await.err(),
        store.page(&Query::all(Namespace::Inbox)).await.err(),
        store.counts(&Scope::all(Namespace::Inbox)).await.err(),
        store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.err(),
        store.topic_counts(&TopicQuery::first(Namespace::Inbox)).await.err(),
        store.usage().await.err(),
        store.upkeep(Budget::new(1)).await.err(),
    ];
    for (place, error) in errors.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.kind()), Some(Kind::Closed), "call {place}");
    }
    Ok(())
}
