//! How the settings configure the store that the server opens.

use std::sync::Arc;
use std::time::Duration;

use oncebox::mailbox::OutgoingMessage;
use oncebox::{Message, Oncebox, message::Namespace};
use oncebox_testkit::ManualClock;

use super::{builder, url};
use crate::config::{Config, Sources, load};
use crate::config_handle::ConfigHandle;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn config(set: &[(&str, &str)]) -> Config {
    let flags = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let sources = Sources { flags, ..Sources::default() };
    load(&sources).unwrap().config
}

/// An in-memory store as the server opens it, with a manual clock.
struct Opened {
    oncebox: Oncebox,
    config: ConfigHandle,
    clock: Arc<ManualClock>,
}

impl Opened {
    async fn new(set: &[(&str, &str)]) -> Self {
        let (config, clock) = (config(set), Arc::new(ManualClock::default()));
        let oncebox = builder(&config).clock(clock.clone()).open("memory:").await.unwrap();
        let handle = ConfigHandle::new(config, &oncebox).unwrap();
        Self { oncebox, config: handle, clock }
    }

    /// Creates a dead letter in each of these topics, one second apart.
    async fn dead_letters(&self, topics: &[&str]) {
        let mailbox = self.config.get().mailbox.clone();
        for (key, topic) in topics.iter().enumerate() {
            mailbox.send(OutgoingMessage::new(*topic, key.to_string()).bytes("x")).await.unwrap();
        }
        self.kill(Namespace::Mailbox).await;
    }

    /// Cancels every message that is not dead.
    async fn kill(&self, namespace: Namespace) {
        let operator = self.oncebox.operator("test").in_namespace(namespace);
        let page = operator.page(&oncebox::operator::MessageQuery::all(namespace)).await.unwrap();
        for message in page.messages {
            operator.cancel(message.uid).await.unwrap();
            self.clock.advance(Duration::from_secs(1));
        }
    }

    /// Advances the clock, runs maintenance and returns how many dead messages the namespace has.
    async fn dead_after(&self, later: Duration, namespace: Namespace, topic: Option<&str>) -> u64 {
        self.clock.advance(later);
        self.oncebox.maintenance().run_once().await.unwrap();
        self.oncebox.operator("test").in_namespace(namespace).counts(topic).await.unwrap().dead
    }
}

/// Holds: MBX-P-9.
#[tokio::test]
async fn dead_letters_are_kept_according_to_their_topics_settings() {
    let set = [
        ("mailbox.topic.dlq_keep", "10h"),
        ("mailbox.topics.short.dlq_keep", "2h"),
        ("mailbox.topics.few.dlq_messages_max", "2"),
    ];
    let server = Opened::new(&set).await;
    server.dead_letters(&["usual", "short", "few", "few", "few"]).await;
    let after = async |later, topic| server.dead_after(later, Namespace::Mailbox, Some(topic)).await;
    assert_eq!(after(HOUR, "few").await, 2, "dlq_messages_max of the topic");
    assert_eq!(after(Duration::ZERO, "short").await, 1);
    assert_eq!(after(HOUR, "short").await, 0, "dlq_keep of the topic");
    assert_eq!(after(HOUR * 7, "usual").await, 1);
    assert_eq!(after(HOUR, "usual").await, 0, "dlq_keep of all topics");
}

/// By default the mailbox keeps dead letters for 14 days; the other namespaces keep dead messages for ever.
/// Holds: MBX-P-9, IBX-099, RULE-20.
#[tokio::test]
async fn by_default_only_dead_letters_of_the_mailbox_are_removed() {
    let server = Opened::new(&[]).await;
    server.dead_letters(&["t"]).await;
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
async fn dead_and_seen_messages_are_removed_after_the_configured_retention() {
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

/// A reload changes the retention of dead letters without a restart.
/// Holds: MBX-P-9.
#[tokio::test]
async fn a_reload_changes_the_retention_of_dead_letters() {
    let server = Opened::new(&[]).await;
    server.dead_letters(&["t", "t"]).await;
    assert_eq!(server.dead_after(HOUR, Namespace::Mailbox, None).await, 2);
    let needs_restart =
        server.config.apply(config(&[("mailbox.topic.dlq_messages_max", "1")]), &server.oncebox);
    assert_eq!(needs_restart.unwrap(), [""; 0]);
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
