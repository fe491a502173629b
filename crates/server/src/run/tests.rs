//! What the settings do to the store that the server opens.

use std::sync::Arc;
use std::time::Duration;

use oncebox::mailbox::Parcel;
use oncebox::{Message, Namespace, Oncebox};
use oncebox_testkit::ManualClock;

use super::{builder, url};
use crate::config::{Config, Sources, load};
use crate::live::Live;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn config(set: &[(&str, &str)]) -> Config {
    let flags = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let sources = Sources { flags, ..Sources::default() };
    load(&sources).unwrap().config
}

/// A store in memory as the server opens it, with time moved by hand.
struct Opened {
    oncebox: Oncebox,
    live: Live,
    clock: Arc<ManualClock>,
}

impl Opened {
    async fn new(set: &[(&str, &str)]) -> Self {
        let (config, clock) = (config(set), Arc::new(ManualClock::default()));
        let oncebox = builder(&config).clock(clock.clone()).open("memory:").await.unwrap();
        let live = Live::new(config, &oncebox).unwrap();
        Self { oncebox, live, clock }
    }

    /// A dead letter in each of these topics, a second after the one before.
    async fn letters(&self, topics: &[&str]) {
        let mailbox = self.live.get().mailbox.clone();
        for (key, topic) in topics.iter().enumerate() {
            mailbox.send(Parcel::new(*topic, key.to_string()).bytes("x")).await.unwrap();
        }
        self.kill(Namespace::Mailbox).await;
    }

    /// Cancels everything that is not Dead.
    async fn kill(&self, namespace: Namespace) {
        let operator = self.oncebox.operator("test").of(namespace);
        let page = operator.page(&oncebox::Query::all(namespace)).await.unwrap();
        for message in page.messages {
            operator.cancel(message.uid).await.unwrap();
            self.clock.advance(Duration::from_secs(1));
        }
    }

    /// Dead messages of a namespace once upkeep has run so much later.
    async fn dead_after(&self, later: Duration, namespace: Namespace, topic: Option<&str>) -> u64 {
        self.clock.advance(later);
        self.oncebox.upkeep().run_once().await.unwrap();
        self.oncebox.operator("test").of(namespace).counts(topic).await.unwrap().dead
    }
}

/// Holds: MBX-P-9.
#[tokio::test]
async fn dead_letters_are_kept_as_the_settings_of_their_topic_say() {
    let set = [
        ("mailbox.topic.dlq_keep", "10h"),
        ("mailbox.topics.short.dlq_keep", "2h"),
        ("mailbox.topics.few.dlq_messages_max", "2"),
    ];
    let server = Opened::new(&set).await;
    server.letters(&["usual", "short", "few", "few", "few"]).await;
    let after = async |later, topic| server.dead_after(later, Namespace::Mailbox, Some(topic)).await;
    assert_eq!(after(HOUR, "few").await, 2, "by number");
    assert_eq!(after(Duration::ZERO, "short").await, 1);
    assert_eq!(after(HOUR, "short").await, 0, "by age");
    assert_eq!(after(HOUR * 7, "usual").await, 1);
    assert_eq!(after(HOUR, "usual").await, 0, "by the age of all topics");
}

/// Without a word, the mailbox keeps for 14 days; everybody else for ever.
/// Holds: MBX-P-9, IBX-099, RULE-20.
#[tokio::test]
async fn by_default_only_dead_letters_are_forgotten() {
    let server = Opened::new(&[]).await;
    server.letters(&["t"]).await;
    let inbox = server.oncebox.inbox();
    inbox.enqueue(Message::new("t", "shop", "dead").text("x")).await.unwrap();
    inbox.mark_dead("shop", "dead").await.unwrap();
    inbox.already_processed("shop", "seen").await.unwrap();
    assert_eq!(server.dead_after(HOUR * 24 * 13, Namespace::Mailbox, None).await, 1);
    assert_eq!(server.dead_after(HOUR * 24, Namespace::Mailbox, None).await, 0);
    assert_eq!(server.dead_after(HOUR * 24 * 4_000, Namespace::Inbox, None).await, 1);
    assert_eq!(server.oncebox.operator("test").counts(None).await.unwrap().seen, 1);
}

/// Holds: IBX-099, RULE-20.
#[tokio::test]
async fn what_is_dead_or_seen_is_forgotten_where_that_is_set() {
    let server = Opened::new(&[("retention.dead", "40d"), ("retention.seen", "50d")]).await;
    let inbox = server.oncebox.inbox();
    inbox.enqueue(Message::new("t", "shop", "dead").text("x")).await.unwrap();
    inbox.mark_dead("shop", "dead").await.unwrap();
    inbox.already_processed("shop", "seen").await.unwrap();
    assert_eq!(server.dead_after(HOUR * 24 * 39, Namespace::Inbox, None).await, 1);
    assert_eq!(server.dead_after(HOUR * 24, Namespace::Inbox, None).await, 0);
    let seen = async || server.oncebox.operator("test").counts(None).await.unwrap().seen;
    assert_eq!(seen().await, 1);
    server.dead_after(HOUR * 24 * 10, Namespace::Inbox, None).await;
    assert_eq!(seen().await, 0);
}

/// A reload changes how dead letters are kept, without a restart.
/// Holds: MBX-P-9.
#[tokio::test]
async fn a_reload_changes_the_retention_of_dead_letters() {
    let server = Opened::new(&[]).await;
    server.letters(&["t", "t"]).await;
    assert_eq!(server.dead_after(HOUR, Namespace::Mailbox, None).await, 2);
    let waiting = server.live.adopt(config(&[("mailbox.topic.dlq_messages_max", "1")]), &server.oncebox);
    assert_eq!(waiting.unwrap(), [""; 0]);
    assert_eq!(server.dead_after(Duration::ZERO, Namespace::Mailbox, None).await, 1);
}

/// Holds: MBX-I-9.
#[test]
fn with_amnesia_the_store_wipes_payloads() {
    for (store, expected) in [
        ("memory:", "memory:?payloads=wiped"),
        ("memory:?messages_max=5", "memory:?messages_max=5&payloads=wiped"),
        ("memory:?payloads=shared", "memory:?payloads=shared"),
    ] {
        assert_eq!(url(&config(&[("amnesia", "true"), ("store", store)])), expected);
    }
    assert_eq!(url(&config(&[("store", "memory:")])), "memory:");
}
