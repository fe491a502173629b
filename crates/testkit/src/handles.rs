//! Cases with two handles to one store, such as two processes on one database. For a store that only one process can
//! open, both handles are the same.

use std::sync::Arc;

use oncebox_core::{Budget, Claim, Delivery, NewMessage, Store, StoreExt};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{Checked, Draft, claim, claim_of, ids, message, seconds, span};

/// Messages in the busy topic.
const BACKLOG: u32 = 2_000;
/// Claims of one message each until a quiet topic is served. Usually a few suffice; a process may notice messages of
/// another process up to a second late, and serves what it knows meanwhile.
const CLAIMS_MAX: u32 = 1_500;

fn many(count: u32, name: &str) -> Vec<NewMessage> {
    (0..count).map(|number| message(&format!("{name} {number}")).topic(name)).collect()
}

async fn accept_new(store: &Arc<dyn Store>, messages: &[NewMessage]) -> TestResult {
    for accepted in store.accept(messages).await? {
        if !matches!(accepted, oncebox_core::Accepted::New { .. }) {
            return Err(format!("a message was not new: {accepted:?}").into());
        }
    }
    Ok(())
}

/// Claims and acknowledges one message at a time until the message with this id is delivered.
async fn claim_until(store: &Arc<dyn Store>, claim: &Claim, id: &str) -> Checked<Delivery> {
    for _ in 0..CLAIMS_MAX {
        let Some(delivery) = store.claim(claim).await?.pop() else {
            return Err(format!("nothing was claimable before {id} was delivered").into());
        };
        if delivery.key.id.as_str() == id {
            return Ok(delivery);
        }
        store.settle(&[delivery.ack()]).await?;
    }
    Err(format!("{id} was not delivered in {CLAIMS_MAX} claims while a busy topic was served").into())
}

/// While a topic has a backlog, a topic that the other handle fills is served: with a new message, and with a due
/// retry.
pub async fn a_backlog_in_one_topic_starves_no_other(
    fixture: &Fixture,
    other: &Arc<dyn Store>,
) -> TestResult {
    let ours = &fixture.store;
    accept_new(ours, &many(BACKLOG * 2, "busy")).await?;
    for _ in 0..20 {
        let delivery = ours.claim(&claim(1)).await?;
        assert_eq!(delivery.len(), 1, "{:?}", ids(&delivery));
    }
    let bounded = Claim { bytes_max: Some(1 << 20), ..claim(1) };
    for (id, claim) in [("rare 1", claim(1)), ("rare 2", bounded)] {
        accept_new(other, &[message(id).topic("rare")]).await?;
        let rare = claim_until(ours, &claim, id).await?;
        other.settle(&[rare.abandon(span(seconds(10)), None)]).await?;
        fixture.advance(seconds(10)).await;
        // The other handle records that the retry is due.
        other.maintain(Budget::new(1_000)).await?;
        let rare = claim_until(ours, &claim, id).await?;
        ours.settle(&[rare.ack()]).await?;
    }
    Ok(())
}

/// More lanes than any handle caches, filled by the other one: named topics are served, and all topics are, each once.
pub async fn thousands_of_topics_are_all_served(fixture: &Fixture, other: &Arc<dyn Store>) -> TestResult {
    const TOPICS: usize = 4_300;
    let name = |number: usize| format!("topic {number:04}");
    let messages: Vec<_> =
        (0..TOPICS).map(|number| message(&number.to_string()).topic(&name(number))).collect();
    for some in messages.chunks(1_000) {
        accept_new(other, some).await?;
    }
    let (ours, mut seen) = (&fixture.store, std::collections::BTreeSet::new());
    let mut note = |deliveries: Vec<Delivery>| {
        for delivery in deliveries {
            assert!(
                seen.insert(delivery.key.id.as_str().to_owned()),
                "{} was delivered twice",
                delivery.key.id
            );
        }
        seen.len()
    };
    for number in (TOPICS - 10..TOPICS).chain(0..10) {
        let found = ours.claim(&claim_of(&[&name(number)], 10)).await?;
        assert_eq!(ids(&found), [number.to_string()], "the topic was named");
        note(found);
    }
    loop {
        let found = ours.claim(&claim(700)).await?;
        let count = found.len();
        let served = note(found);
        if served == TOPICS {
            return Ok(());
        }
        assert_ne!(count, 0, "a claim was empty after {served} of {TOPICS} topics were served");
    }
}
