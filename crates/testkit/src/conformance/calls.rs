//! Calls: one outcome per item, in order; limits; closing.

use oncebox_core::limits::CALL_ITEMS_MAX;
use oncebox_core::{
    Accepted, Action, Begin, Begun, Budget, Claim, ErrorKind, Extended, MessageQuery, MessageRef, Namespace,
    Observed, Operated, Order, Policy, ReadyTopics, Scope, Settled, StoreExt, TopicQuery, Worked,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Draft, LEASE, claim, claim_in, claim_of, ids, key, mail, message, observation, owner, span,
};

/// A call without items returns at once, with nothing.
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

/// A call returns one outcome per item, in the order of the items.
/// Holds: RULE-13.
pub async fn outcomes_are_in_the_order_of_the_items(fixture: Fixture) -> TestResult {
    let known = fixture.accept(&mail("known").uid(7)).await?;
    let calls = [mail("a"), mail("known"), mail("known").payload("other"), mail("b").uid(7), mail("c")];
    let accepted = fixture.store.accept(&calls).await?;
    let [first, duplicate, conflict, taken, last] = &*accepted else { return Err("five outcomes".into()) };
    assert!(matches!(first, Accepted::New { .. }), "{first:?}");
    assert_eq!(*duplicate, Accepted::Duplicate { summary: known.clone(), diverged: false });
    assert_eq!((conflict, taken), (&Accepted::Conflict(known.clone()), &Accepted::UidTaken(known)));
    assert!(matches!(last, Accepted::New { .. }), "{last:?}");
    Ok(())
}

/// A key that occurs twice in one call is processed twice, in order.
/// Holds: IBX-014, RULE-13.
pub async fn a_key_may_occur_twice_in_one_call(fixture: Fixture) -> TestResult {
    let accepted =
        fixture.store.accept(&[message("1"), message("1"), message("1").payload("second")]).await?;
    let summary = fixture.read(key("1")).await?.summary();
    let (new, duplicate) = (summary.clone(), summary.clone());
    assert_eq!(accepted[0], Accepted::New { summary: new, diverged: false });
    assert_eq!(accepted[1], Accepted::Duplicate { summary: duplicate, diverged: false });
    assert_eq!(accepted[2], Accepted::Replaced(summary));
    let observed = fixture.store.observe(&[observation(key("2")), observation(key("2"))]).await?;
    let [Observed::First(first), Observed::Again { summary, .. }] = &*observed else {
        return Err(format!("{observed:?}").into());
    };
    assert_eq!(first, summary);
    Ok(())
}

/// A delivery that is settled twice in one call is tolerated.
/// Holds: IBX-048, IBX-059, IBX-066, RULE-06, RULE-13.
pub async fn the_same_delivery_twice_in_one_call_is_tolerated(fixture: Fixture) -> TestResult {
    fixture.accept_all(&["1", "2", "3"].map(message)).await?;
    for index in 0..3 {
        let delivery = fixture.claim_one().await?;
        let all = [delivery.ack(), delivery.fail(None), delivery.abandon(span(LEASE), None)];
        let settled = fixture.store.settle(&[all[index].clone(), all[index].clone()]).await?;
        assert_eq!(settled[0], settled[1]);
        assert_ne!(settled[0], Settled::LeaseLost);
    }
    Ok(())
}

/// A key, lease or message that occurs twice in one call of `begin`, `extend` or `operate` is processed twice, in
/// order.
/// Holds: LDG-05, RULE-13.
pub async fn every_call_processes_its_items_in_order(fixture: Fixture) -> TestResult {
    let request = Begin { key: key("1"), owner: owner(1), lease: span(LEASE), hold: Policy::LEDGER.hold };
    let begun = fixture.store.begin(&[request.clone(), request]).await?;
    let [Begun::Acquired { lease, .. }, Begun::Busy { until }] = &*begun else {
        return Err(format!("{begun:?}").into());
    };
    assert_eq!(lease.until, *until);
    fixture.accept(&message("2")).await?;
    let delivery = fixture.claim_one().await?;
    let extended =
        fixture.store.extend(&[delivery.extend(span(LEASE * 3)), delivery.extend(span(LEASE))]).await?;
    assert_eq!(extended, [Extended::Until(fixture.now().await.after(LEASE * 3)); 2]);
    let order = |action| Order { target: MessageRef::from(key("2")), action };
    let operated =
        fixture.store.operate(&[order(Action::Cancel), order(Action::Cancel), order(Action::Erase)]).await?;
    let [Operated::Changed(_), Operated::Unchanged(_), Operated::Changed(_)] = &*operated else {
        return Err(format!("{operated:?}").into());
    };
    Ok(())
}

/// One `work` call settles first and claims then: it can claim what it has freed.
/// Holds: RULE-13.
pub async fn work_settles_before_it_claims(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").partition("p"), message("2").partition("p")]).await?;
    let first = fixture.claim_one().await?;
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

/// A call may have as many items as the limit allows; one more is invalid, and then nothing takes effect.
/// Holds: IBX-102, RULE-13, RULE-19.
pub async fn a_call_over_the_limit_is_invalid_and_does_nothing(fixture: Fixture) -> TestResult {
    let store = &fixture.store;
    let observations = vec![observation(key("1")); CALL_ITEMS_MAX];
    assert_eq!(store.observe(&observations).await?.len(), CALL_ITEMS_MAX);
    let observations = vec![observation(key("2")); CALL_ITEMS_MAX + 1];
    assert_eq!(store.observe(&observations).await.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    let messages = vec![message("3"); CALL_ITEMS_MAX + 1];
    assert_eq!(store.accept(&messages).await.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    let order = Order { target: MessageRef::from(key("1")), action: Action::Cancel };
    let orders = vec![order; CALL_ITEMS_MAX + 1];
    assert_eq!(store.operate(&orders).await.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    let refs = vec![MessageRef::from(key("1")); CALL_ITEMS_MAX + 1];
    assert_eq!(store.get(&refs).await.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    let left = fixture.list(&MessageQuery::all(Namespace::Inbox)).await?;
    assert_eq!(left.iter().map(|message| message.key.id.as_str()).collect::<Vec<_>>(), ["1"]);
    assert_eq!(left[0].dead, None);
    Ok(())
}

/// Every call on a closed store fails with `Closed`, and closing it again succeeds.
pub async fn a_closed_store_returns_closed(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let delivery = fixture.claim_one().await?;
    let store = &fixture.store;
    store.close().await?;
    store.close().await?;
    let begin = Begin { key: key("2"), owner: owner(1), lease: span(LEASE), hold: Policy::LEDGER.hold };
    let order = Order { target: MessageRef::from(key("1")), action: Action::Cancel };
    let errors = [
        store.observe(&[observation(key("2"))]).await.err(),
        store.accept(&[message("2")]).await.err(),
        store.begin(&[begin]).await.err(),
        store.work(&[delivery.ack()], &[]).await.err(),
        store.work(&[], &[claim(1)]).await.err(),
        store.extend(&[delivery.extend(span(LEASE))]).await.err(),
        store.operate(&[order]).await.err(),
        store.get(&[MessageRef::from(key("1"))]).await.err(),
        store.page(&MessageQuery::all(Namespace::Inbox)).await.err(),
        store.counts(&Scope::all(Namespace::Inbox)).await.err(),
        store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.err(),
        store.topic_counts(&TopicQuery::first(Namespace::Inbox)).await.err(),
        store.usage().await.err(),
        store.maintain(Budget::new(1)).await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Closed), "call {index}");
    }
    Ok(())
}
