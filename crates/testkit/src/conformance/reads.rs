//! Reads: single messages, listings, counts, ready topics, usage.

use oncebox_core::{
    Action, Bound, Budget, DeadReason, Direction, MessageQuery, MessageRef, MessageState, Namespace, Omitted,
    PageSize, ReadyTopics, Scope, Snapshot, Topic, Uid, Usage,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Checked, Draft, LEASE, claim, claim_of, command, days, key, key_in, message, message_for, observation,
    seconds, span, topic,
};

fn listed(messages: &[Snapshot<Omitted>]) -> Vec<&str> {
    messages.iter().map(|message| message.key.id.as_str()).collect()
}

impl Fixture {
    /// The names of all ready topics, after maintenance, so that they do not lag.
    async fn ready_topics(&self, namespace: Namespace) -> Checked<Vec<String>> {
        self.maintain(&Budget::new(1_000)).await?;
        Ok(names(&self.store.ready_topics(&ReadyTopics::first(namespace)).await?))
    }

    async fn usage(&self) -> Checked<Usage> {
        self.maintain(&Budget::new(1_000)).await?;
        Ok(self.store.usage().await?)
    }
}

fn names(topics: &[Topic]) -> Vec<String> {
    topics.iter().map(|topic| topic.as_str().to_owned()).collect()
}

/// How much of a bound is used; none if the store has no such bound.
fn used(usage: &Usage, name: &str) -> Option<u64> {
    usage.bounds.iter().find(|bound| bound.name == name).map(|bound| bound.used)
}

/// An unknown message is not found, and reading it records nothing.
/// Holds: RULE-16.
/// Replays I-T16.
pub async fn an_unknown_message_is_not_found(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.find(key("1")).await?, None);
    assert_eq!(fixture.find(Uid::from_u128(404)).await?, None);
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, []);
    fixture.observe_new(observation(key("1"))).await?;
    Ok(())
}

/// Reading a message does not change it.
/// Holds: RULE-16.
pub async fn reading_records_nothing(fixture: Fixture) -> TestResult {
    fixture.accept(&message("1")).await?;
    let before = fixture.read(key("1")).await?;
    fixture.advance(seconds(5)).await;
    assert_eq!(fixture.read(before.uid).await?, before);
    assert_eq!(fixture.list(&MessageQuery::all(Namespace::Inbox)).await?, [before.without_payload()]);
    Ok(())
}

/// Messages are read in the given order; unknown ones give none, and the same message may be read twice.
/// Holds: RULE-13.
pub async fn messages_are_read_in_the_given_order(fixture: Fixture) -> TestResult {
    let first = fixture.accept(&message("1")).await?.uid;
    let second = fixture.accept(&message("2")).await?.uid;
    let refs = [
        MessageRef::from(key("2")),
        MessageRef::from(key("3")),
        MessageRef::from(first),
        MessageRef::from(second),
    ];
    let found = fixture.store.get(&refs).await?;
    let uids: Vec<_> = found.iter().map(|message| message.as_ref().map(|message| message.uid)).collect();
    assert_eq!(uids, [Some(second), None, Some(first), Some(second)]);
    Ok(())
}

/// A listing is ordered by number, from either end, with pages of any size.
/// Holds: RULE-11.
pub async fn a_listing_is_ordered_by_number(fixture: Fixture) -> TestResult {
    let sent: Vec<String> = (0..10).map(|number| format!("{}", number * 7 % 10)).collect();
    for id in &sent {
        fixture.accept(&message(id).topic(id)).await?;
    }
    for size in [1, 3, 10, 1_000] {
        let query = MessageQuery { size: PageSize::new(size)?, ..MessageQuery::all(Namespace::Inbox) };
        assert_eq!(listed(&fixture.list(&query).await?), sent);
        let newest = MessageQuery { direction: Direction::NewestFirst, ..query };
        assert!(listed(&fixture.list(&newest).await?).iter().rev().eq(&sent));
    }
    Ok(())
}

/// A message that exists during the whole listing is listed exactly once, while other messages are added, erased and
/// changed.
/// Holds: RULE-11.
pub async fn a_listing_lists_unchanged_messages_exactly_once(fixture: Fixture) -> TestResult {
    for number in 0..12 {
        fixture.accept(&message(&format!("stays {number}"))).await?;
        fixture.accept(&message(&format!("goes {number}"))).await?;
    }
    for direction in [Direction::OldestFirst, Direction::NewestFirst] {
        let size = PageSize::new(5)?;
        let mut query = MessageQuery { direction, size, ..MessageQuery::all(Namespace::Inbox) };
        let mut found = Vec::new();
        for round in 0..1_000 {
            let page = fixture.store.page(&query).await?;
            found.extend(page.messages.into_iter().map(|message| message.key.id.as_str().to_owned()));
            let Some(next) = page.next else { break };
            query.after = Some(next);
            fixture.order(key(&format!("goes {round}")), Action::Erase).await?;
            fixture.order(key(&format!("stays {round}")), Action::Cancel).await?;
            fixture.accept(&message(&format!("new {direction:?} {round}"))).await?;
        }
        found.retain(|id| id.starts_with("stays"));
        found.sort();
        let mut expected: Vec<_> = (0..12).map(|number| format!("stays {number}")).collect();
        expected.sort();
        assert_eq!(found, expected);
    }
    Ok(())
}

/// A listing contains what its query asks for: namespace, source, topic, state, reason of death.
/// Holds: RULE-02, RULE-23.
pub async fn a_listing_matches_its_query(fixture: Fixture) -> TestResult {
    fixture.accept(&message("waiting").topic("a")).await?;
    fixture.accept(&message_for(key_in(Namespace::Inbox, "bank", "cancelled"))).await?;
    fixture.change(key_in(Namespace::Inbox, "bank", "cancelled"), Action::Cancel).await?;
    fixture.accept(&message("marked")).await?;
    fixture.change(key("marked"), Action::MarkDead { error: None }).await?;
    fixture.observe_new(observation(key("seen"))).await?;
    fixture.accept(&command("acme", "command")).await?;
    let all = MessageQuery::all(Namespace::Inbox);
    let dead = Some(DeadReason::Cancelled);
    for (query, expected) in [
        (all.clone(), &["waiting", "cancelled", "marked", "seen"][..]),
        (MessageQuery::all(Namespace::Commands), &["command"]),
        (MessageQuery { state: Some(MessageState::Dead), ..all.clone() }, &["cancelled", "marked"]),
        (MessageQuery { state: Some(MessageState::Seen), ..all.clone() }, &["seen"]),
        (MessageQuery { dead, ..all.clone() }, &["cancelled"]),
        (MessageQuery { topic: Some(topic("a")), ..all.clone() }, &["waiting"]),
        (MessageQuery { source: Some(key("1").source), ..all.clone() }, &["waiting", "marked", "seen"]),
    ] {
        assert_eq!(listed(&fixture.list(&query).await?), expected, "{query:?}");
    }
    Ok(())
}

/// The end of a lease and an expiry show in a listing at their instant, without maintenance.
/// Holds: RULE-05, RULE-12.
pub async fn a_listing_shows_lease_ends_and_expiries(fixture: Fixture) -> TestResult {
    let now = fixture.now().await;
    fixture
        .accept_all(&[message("lapses").attempts_max(1), message("expires").expires(now.after(LEASE))])
        .await?;
    fixture.claim_one().await?;
    let dead = MessageQuery { state: Some(MessageState::Dead), ..MessageQuery::all(Namespace::Inbox) };
    assert_eq!(fixture.list(&dead).await?, []);
    fixture.advance(LEASE).await;
    let found = fixture.list(&dead).await?;
    let reasons: Vec<_> = found.iter().map(|message| message.dead).collect();
    assert_eq!(reasons, [Some(DeadReason::Exhausted), Some(DeadReason::Expired)]);
    Ok(())
}

/// Every message is counted once, by its state.
/// Holds: RULE-04.
pub async fn every_message_is_counted_once(fixture: Fixture) -> TestResult {
    let later = fixture.now().await.after(days(1));
    fixture.finish(&message("done")).await?;
    fixture.accept_all(&[message("leased"), message("retrying")]).await?;
    let [_, retrying] = <[_; 2]>::try_from(fixture.claim(&claim(2)).await?).map_err(|_| "two were ready")?;
    fixture.settle(retrying.abandon(span(days(1)), None)).await?;
    fixture.accept_all(&[message("dead"), message("scheduled").due(later), message("ready")]).await?;
    fixture.accept_all(&[message("first").partition("p"), message("behind").partition("p")]).await?;
    fixture.change(key("dead"), Action::Cancel).await?;
    for id in ["seen", "bare"] {
        fixture.observe_new(observation(key(id))).await?;
    }
    fixture.change(key("bare"), Action::MarkProcessing).await?;
    fixture.begin(&key("begun")).await?;
    fixture.accept(&command("acme", "elsewhere")).await?;
    let counts = fixture.store.counts(&Scope::all(Namespace::Inbox)).await?;
    if !counts.estimated {
        let found = (counts.seen, counts.ready, counts.waiting, counts.leased, counts.done, counts.dead);
        assert_eq!(found, (2, 2, 4, 1, 1, 1), "seen, ready, waiting, leased, done, dead");
    }
    Ok(())
}

/// The messages of a topic are counted separately.
/// Holds: RULE-11.
pub async fn a_topic_is_counted_separately(fixture: Fixture) -> TestResult {
    fixture.accept_all(&[message("1").topic("a"), message("2").topic("a"), message("3").topic("b")]).await?;
    fixture.claim(&claim_of(&["a"], 1)).await?;
    for (name, ready, leased) in [("a", 1, 1), ("b", 1, 0), ("c", 0, 0)] {
        let scope = Scope::topic(Namespace::Inbox, topic(name));
        let counts = fixture.store.counts(&scope).await?;
        assert!(counts.estimated || (counts.ready, counts.leased) == (ready, leased), "{name}: {counts:?}");
    }
    Ok(())
}

/// A topic is ready if it has a claimable message: not leased, not waiting, not finished, not without content.
/// Holds: RULE-04, RULE-15.
pub async fn ready_topics_have_claimable_messages(fixture: Fixture) -> TestResult {
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, [""; 0]);
    let later = fixture.now().await.after(days(1));
    let finished = message("done").topic("done").change(|message| message.policy.keep_finished = true);
    fixture.finish(&finished).await?;
    fixture.accept_all(&[message("1").topic("leased"), message("2").topic("retrying")]).await?;
    fixture.claim_one_by(&claim_of(&["leased"], 1)).await?;
    let retrying = fixture.claim_one_by(&claim_of(&["retrying"], 1)).await?;
    fixture.settle(retrying.abandon(span(days(1)), None)).await?;
    fixture.accept_all(&[message("3").topic("dead"), message("4").topic("scheduled").due(later)]).await?;
    fixture.change(key("3"), Action::Cancel).await?;
    fixture.accept(&message("5").topic("first").partition("p")).await?;
    fixture.accept(&message("6").topic("behind").partition("p")).await?;
    fixture.accept_all(&[message("7").topic("ready"), message("8").topic("ready").shard(1)]).await?;
    fixture.accept(&command("acme", "9").topic("elsewhere")).await?;
    fixture.begin(&key_in(Namespace::Ledger, "bus", "10")).await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["first", "ready"]);
    assert_eq!(fixture.ready_topics(Namespace::Commands).await?, ["elsewhere"]);
    assert_eq!(fixture.ready_topics(Namespace::Ledger).await?, [""; 0]);
    Ok(())
}

/// A topic is ready or not depending on its messages: claims, settlements, due times, lease ends, expiries.
/// Holds: RULE-15.
pub async fn a_topic_is_ready_while_a_message_in_it_is(fixture: Fixture) -> TestResult {
    let due = fixture.now().await.after(seconds(1));
    fixture.accept_all(&[message("1").due(due), message("2").due(due).shard(1)]).await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, [""; 0]);
    fixture.advance(seconds(1)).await;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["orders"]);
    let first = fixture.claim_one().await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["orders"], "one is left");
    let second = fixture.claim_one().await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, [""; 0], "none is left");
    fixture.settle(first.release()).await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["orders"], "one was released");
    fixture.change(first.uid, Action::Cancel).await?;
    fixture.advance(LEASE).await;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["orders"], "the other lease has lapsed");
    fixture.change(second.uid, Action::Erase).await?;
    let expires = fixture.now().await.after(seconds(1));
    fixture.accept(&message("3").topic("short").expires(expires)).await?;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, ["short"]);
    fixture.advance(seconds(1)).await;
    assert_eq!(fixture.ready_topics(Namespace::Inbox).await?, [""; 0], "it has expired");
    Ok(())
}

/// Ready topics are listed in byte order, one page at a time; a page may start at a name that is no topic.
/// Holds: RULE-15.
pub async fn ready_topics_are_listed_in_pages(fixture: Fixture) -> TestResult {
    let sorted = ["B", "Z", "a", "a b", "ab", "b", "é"];
    for index in [4, 6, 0, 3, 5, 1, 2] {
        fixture.accept(&message(sorted[index]).topic(sorted[index])).await?;
    }
    for size in [1, 3, 7, 1_000] {
        let mut query = ReadyTopics { limit: PageSize::new(size)?, ..ReadyTopics::first(Namespace::Inbox) };
        let mut found = Vec::new();
        while found.len() <= sorted.len() {
            let page = fixture.store.ready_topics(&query).await?;
            assert!(page.len() <= size as usize, "{} on a page of {size}", page.len());
            found.extend(names(&page));
            if page.len() < size as usize {
                break;
            }
            query.after = page.last().cloned();
        }
        assert_eq!(found, sorted, "in pages of {size}");
    }
    let after = ReadyTopics { after: Some(topic("a c")), ..ReadyTopics::first(Namespace::Inbox) };
    assert_eq!(names(&fixture.store.ready_topics(&after).await?), ["ab", "b", "é"]);
    Ok(())
}

/// Usage grows with accepted messages and shrinks with finished and erased ones; a store without bounds reports none.
/// Holds: RULE-20.
pub async fn usage_follows_the_stored_messages(fixture: Fixture) -> TestResult {
    let empty = fixture.usage().await?;
    fixture.accept(&message("1").payload([b'x'; 10_000])).await?;
    let accepted = fixture.usage().await?;
    let delivery = fixture.claim_one().await?;
    fixture.settle(delivery.ack()).await?;
    let finished = fixture.usage().await?;
    fixture.change(delivery.uid, Action::Erase).await?;
    let erased = fixture.usage().await?;
    assert_eq!(erased, empty);
    let course = |name| [&empty, &accepted, &finished].map(|usage| used(usage, name).unwrap_or_default());
    for (name, expected) in [(Bound::MESSAGES, [0, 1, 0]), (Bound::KEYS, [0, 1, 1])] {
        assert!(used(&empty, name).is_none() || course(name) == expected, "{name}: {:?}", course(name));
    }
    if used(&empty, Bound::LIVE_BYTES).is_some() {
        let [empty, accepted, finished] = course(Bound::LIVE_BYTES);
        assert!(accepted >= empty + 10_000, "{empty}, then {accepted}");
        assert!(finished + 10_000 <= accepted, "{accepted}, then {finished}");
    }
    Ok(())
}
