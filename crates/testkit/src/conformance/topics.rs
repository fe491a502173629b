//! Topics: their message counts, their oldest ready message, and the pages that list them.

use std::collections::BTreeMap;

use oncebox_core::limits::TOPIC_WORKERS_MAX;
use oncebox_core::{
    Action, Budget, Claim, Namespace, NewMessage, PageSize, TopicCounts, TopicQuery, TopicRange, WorkerName,
};

use crate::fixture::{Fixture, TestResult};
use crate::kit::{
    Checked, Draft, LEASE, claim_of, command, days, key, key_in, mail, message, observation, seconds, span,
    topic,
};

/// The maximum number of pages of a listing.
const PAGES_MAX: usize = 100_000;

impl Fixture {
    /// All topics of a namespace, after maintenance, so that they do not lag.
    async fn topics(&self, namespace: Namespace) -> Checked<BTreeMap<String, TopicCounts>> {
        self.maintain(&Budget::new(1_000)).await?;
        let topics = self.topics_in_pages(namespace, PageSize::MAX).await?;
        Ok(topics.into_iter().map(|counts| (counts.topic.as_str().to_owned(), counts)).collect())
    }

    async fn topics_in_pages(&self, namespace: Namespace, limit: PageSize) -> Checked<Vec<TopicCounts>> {
        let mut query = TopicQuery { limit, ..TopicQuery::first(namespace) };
        let mut topics = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.store.topic_counts(&query).await?;
            assert!(page.topics.len() <= limit.get() as usize, "{} on a page", page.topics.len());
            topics.extend(page.topics);
            match page.next {
                Some(next) => query.range = TopicRange::From(next),
                None => return Ok(topics),
            }
        }
        Err("the listing does not end".into())
    }
}

/// Ready, waiting, leased and Dead messages, in this order.
fn numbers(counts: &TopicCounts) -> [u64; 4] {
    [counts.ready, counts.waiting, counts.leased, counts.dead]
}

/// A claim of one message on a topic of the mailbox.
fn claim_mail(topic: &str) -> Claim {
    Claim { namespace: Namespace::Mailbox, ..claim_of(&[topic], 1) }
}

/// Each message counts once, in its topic; Done messages and messages without content are not counted.
/// Holds: RULE-04.
pub async fn each_message_is_counted_in_its_topic(fixture: Fixture) -> TestResult {
    let later = fixture.now().await.after(days(1));
    let finished = message("done").topic("done").change(|message| message.policy.keep_finished = true);
    fixture.finish(&finished).await?;
    fixture.accept_all(&[message("1").topic("leased"), message("2").topic("retrying")]).await?;
    fixture.claim_one_by(&claim_of(&["leased"], 1)).await?;
    let retrying = fixture.claim_one_by(&claim_of(&["retrying"], 1)).await?;
    fixture.settle(retrying.abandon(span(days(1)), None)).await?;
    fixture.accept_all(&[message("3").topic("dead"), message("4").topic("scheduled").due(later)]).await?;
    fixture.change(key("3"), Action::Cancel).await?;
    fixture.accept(&message("5").topic("mixed").partition("p")).await?;
    fixture.accept_all(&[message("6").topic("mixed").partition("p"), message("7").topic("mixed")]).await?;
    fixture
        .accept_all(&[message("8").topic("mixed").shard(1), message("9").topic("mixed").due(later)])
        .await?;
    fixture.accept(&command("acme", "10").topic("elsewhere")).await?;
    fixture.begin(&key_in(Namespace::Ledger, "bus", "11")).await?;
    let topics = fixture.topics(Namespace::Inbox).await?;
    let found: Vec<_> = topics.iter().map(|(name, counts)| (name.as_str(), numbers(counts))).collect();
    let expected = [
        ("dead", [0, 0, 0, 1]),
        ("leased", [0, 0, 1, 0]),
        ("mixed", [3, 2, 0, 0]),
        ("retrying", [0, 1, 0, 0]),
        ("scheduled", [0, 1, 0, 0]),
    ];
    assert_eq!(found, expected);
    assert!(topics.values().all(|counts| !counts.estimated), "few messages are counted exactly");
    assert_eq!(fixture.topics(Namespace::Commands).await?.len(), 1);
    assert_eq!(fixture.topics(Namespace::Ledger).await?.len(), 0);
    Ok(())
}

/// The oldest ready message is the first one that is claimable now: neither leased nor waiting. A redriven message is
/// last. Among several shards, the one whose first message was accepted earliest counts.
/// Holds: RULE-11.
pub async fn oldest_ready_is_the_first_claimable_message(fixture: Fixture) -> TestResult {
    let mut accepted = Vec::new();
    let drafts = [mail("0").topic("t"), mail("1").topic("t"), mail("2").topic("s").shard(1)];
    for draft in drafts.into_iter().chain([mail("3").topic("s"), mail("4").topic("s").shard(2)]) {
        accepted.push(fixture.accept(&draft).await?.accepted_at);
        fixture.advance(seconds(1)).await;
    }
    let is_oldest = async |name: &str, at: Option<usize>| -> TestResult {
        let topics = fixture.topics(Namespace::Mailbox).await?;
        let expected = at.map(|place| accepted[place]);
        assert_eq!(topics.get(name).and_then(|counts| counts.oldest_ready), expected, "{topics:?}");
        Ok(())
    };
    is_oldest("s", Some(2)).await?;
    is_oldest("t", Some(0)).await?;
    let first = fixture.claim_one_by(&claim_mail("t")).await?;
    is_oldest("t", Some(1)).await?;
    let second = fixture.claim_one_by(&claim_mail("t")).await?;
    is_oldest("t", None).await?;
    fixture.settle(first.release()).await?;
    is_oldest("t", Some(0)).await?;
    fixture.settle(second.abandon(span(days(1)), None)).await?;
    fixture.change(first.uid, Action::Cancel).await?;
    is_oldest("t", None).await?;
    fixture.advance(days(1)).await;
    is_oldest("t", Some(1)).await?;
    fixture.change(first.uid, Action::REDRIVE).await?;
    is_oldest("t", Some(1)).await
}

/// A topic is listed while it has a message that is not Done, including dead letters of any age.
/// Holds: RULE-04.
pub async fn topics_appear_and_disappear_with_their_messages(fixture: Fixture) -> TestResult {
    let names = async || -> Checked<Vec<String>> {
        Ok(fixture.topics(Namespace::Mailbox).await?.into_keys().collect())
    };
    assert_eq!(names().await?, [""; 0]);
    let expires = fixture.now().await.after(seconds(1));
    fixture.accept_all(&[mail("1").topic("a"), mail("2").topic("b").expires(expires)]).await?;
    let claimed = fixture.claim_one_by(&claim_mail("a")).await?;
    assert_eq!(names().await?, ["a", "b"]);
    fixture.settle(claimed.ack()).await?;
    assert_eq!(names().await?, ["b"], "the message in a is Done");
    fixture.advance(seconds(1)).await;
    let dead = |topics: &BTreeMap<String, TopicCounts>| topics.get("b").map(numbers);
    assert_eq!(dead(&fixture.topics(Namespace::Mailbox).await?), Some([0, 0, 0, 1]), "it has expired");
    let bare = key_in(Namespace::Mailbox, "orders", "bare");
    fixture.observe_new(observation(bare.clone())).await?;
    fixture.change(bare, Action::MarkDead { error: None }).await?;
    fixture.advance(days(1)).await;
    assert_eq!(dead(&fixture.topics(Namespace::Mailbox).await?), Some([0, 0, 0, 1]), "it is still listed");
    let one_by_one = fixture.topics_in_pages(Namespace::Mailbox, PageSize::new(1)?).await?;
    assert_eq!(one_by_one.len(), 1, "a message without content is in no topic: {one_by_one:?}");
    fixture.accept(&mail("3").topic("c")).await?;
    fixture.claim_one_by(&claim_mail("c")).await?;
    assert_eq!(fixture.topics(Namespace::Mailbox).await?.get("c").map(numbers), Some([0, 0, 1, 0]));
    fixture.advance(LEASE).await;
    assert_eq!(fixture.topics(Namespace::Mailbox).await?.get("c").map(numbers), Some([1, 0, 0, 0]));
    Ok(())
}

/// Thousands of topics are listed in byte order, each once, in pages of any size; a page may start at a name that is no
/// topic.
/// Holds: RULE-25.
pub async fn thousands_of_topics_are_counted_in_pages(fixture: Fixture) -> TestResult {
    const TOPICS: usize = 3_000;
    let name = |number: usize| format!("t{number}");
    let mut sorted: Vec<_> = (0..TOPICS).map(name).collect();
    sorted.sort();
    let messages: Vec<NewMessage> =
        (0..TOPICS).map(|number| message(&number.to_string()).topic(&name(number))).collect();
    for some in messages.chunks(1_000) {
        fixture.accept_all(some).await?;
    }
    for size in [7, 100, 1_000] {
        let found = fixture.topics_in_pages(Namespace::Inbox, PageSize::new(size)?).await?;
        let names: Vec<_> = found.iter().map(|counts| counts.topic.as_str()).collect();
        assert!(names == sorted, "in pages of {size}: {} topics", names.len());
        assert!(found.iter().all(|counts| numbers(counts) == [1, 0, 0, 0]), "in pages of {size}");
    }
    let query = TopicQuery {
        range: TopicRange::From(topic("t1005x")),
        limit: PageSize::new(1)?,
        ..TopicQuery::first(Namespace::Inbox)
    };
    let page = fixture.store.topic_counts(&query).await?;
    assert_eq!(page.topics.first().map(|counts| counts.topic.as_str()), Some("t1006"));
    let named = TopicQuery { range: TopicRange::From(topic("t1005")), ..query };
    let page = fixture.store.topic_counts(&named).await?;
    assert_eq!(page.topics.first().map(|counts| counts.topic.as_str()), Some("t1005"));
    Ok(())
}

/// A single topic has the same counts as among all topics; a topic without counted messages is not listed, and neither
/// are its neighbours.
/// Holds: RULE-04.
pub async fn a_single_topic_is_counted_alone(fixture: Fixture) -> TestResult {
    let later = fixture.now().await.after(days(1));
    fixture.finish(&mail("done").topic("done")).await?;
    fixture.accept_all(&[mail("1").topic("leased"), mail("2").topic("dead")]).await?;
    fixture.claim_one_by(&Claim { worker: Some(WorkerName::new("w")?), ..claim_mail("leased") }).await?;
    fixture.change(key_in(Namespace::Mailbox, "orders", "2"), Action::Cancel).await?;
    fixture.accept_all(&[mail("3").topic("ready"), mail("4").topic("scheduled").due(later)]).await?;
    fixture.accept(&message("5").topic("elsewhere")).await?;
    let topics = fixture.topics(Namespace::Mailbox).await?;
    let names: Vec<_> = topics.keys().map(String::as_str).collect();
    assert_eq!(names, ["dead", "leased", "ready", "scheduled"]);
    for (name, counts) in &topics {
        let page = fixture.store.topic_counts(&TopicQuery::only(Namespace::Mailbox, topic(name))).await?;
        assert_eq!((page.topics, page.next), (vec![counts.clone()], None), "{name}");
    }
    for name in ["done", "elsewhere", "a", "lease", "leased0", "z"] {
        let page = fixture.store.topic_counts(&TopicQuery::only(Namespace::Mailbox, topic(name))).await?;
        assert_eq!((page.topics, page.next), (vec![], None), "{name}");
    }
    Ok(())
}

/// The workers of a topic are the named ones that hold its messages now: each once, sorted by name, up to the limit.
pub async fn a_topic_lists_the_workers_that_hold_its_messages(fixture: Fixture) -> TestResult {
    const WORKERS: usize = TOPIC_WORKERS_MAX + 4;
    let name = |number: usize| format!("w{number:02}");
    let messages: Vec<NewMessage> =
        (0..=2 * WORKERS).map(|number| mail(&number.to_string()).topic("t")).collect();
    fixture.accept_all(&messages).await?;
    fixture.accept(&mail("other").topic("u")).await?;
    let workers = async || -> Checked<Vec<String>> {
        let topics = fixture.topics(Namespace::Mailbox).await?;
        Ok(topics["t"].workers.iter().map(ToString::to_string).collect())
    };
    let claim_as = |worker: Option<String>| -> Checked<Claim> {
        Ok(Claim { worker: worker.map(WorkerName::new).transpose()?, ..claim_mail("t") })
    };
    assert_eq!(workers().await?, [""; 0]);
    fixture.claim_one_by(&claim_as(None)?).await?;
    assert_eq!(workers().await?, [""; 0], "the worker has no name");
    let mut claimed = Vec::new();
    for number in (0..WORKERS).rev() {
        claimed.push(fixture.claim_one_by(&claim_as(Some(name(number)))?).await?);
        fixture.claim_one_by(&claim_as(Some(name(number)))?).await?;
    }
    let first: Vec<_> = (0..TOPIC_WORKERS_MAX).map(name).collect();
    assert_eq!(workers().await?, first, "each once, the first by name");
    for one in &claimed {
        fixture.settle(one.ack()).await?;
    }
    assert_eq!(workers().await?, first, "each worker holds another message");
    assert_eq!(fixture.topics(Namespace::Mailbox).await?["u"].workers, [], "no worker holds a message of it");
    fixture.advance(LEASE).await;
    assert_eq!(workers().await?, [""; 0], "the leases have ended");
    fixture.claim_one_by(&claim_as(Some(name(1)))?).await?;
    assert_eq!(workers().await?, [name(1)]);
    Ok(())
}
