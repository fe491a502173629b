//! Topic counts with many Dead messages.

use oncebox_core::{Action, Key, Namespace, NewMessage, Operated, Order, Payload, Store, Topic, TopicQuery};
use oncebox_store_postgres::PostgresStore;

use crate::{fresh, pool};

/// One more than are counted.
const MANY: usize = 10_001;
const CALL_ITEMS: usize = 1_000;

fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// Creates Dead messages of a topic.
async fn create_dead(store: &PostgresStore, namespace: Namespace, name: &str, count: usize) {
    let messages: Vec<_> = (0..count)
        .map(|id| {
            let key = Key { namespace, ..Key::inbox("shop", format!("{name}-{id}")).unwrap() };
            NewMessage::new(key, topic(name), Payload::new("{}").unwrap())
        })
        .collect();
    for batch in messages.chunks(CALL_ITEMS) {
        store.accept(batch).await.unwrap();
        let cancel =
            |message: &NewMessage| Order { target: message.key.clone().into(), action: Action::Cancel };
        let orders: Vec<_> = batch.iter().map(cancel).collect();
        let operated = store.operate(&orders).await.unwrap();
        assert!(operated.iter().all(|operated| matches!(operated, Operated::Changed(_))));
    }
}

/// However many messages of one topic die, a topic that has only Dead messages is listed, and its counts are exact.
/// Holds: RULE-04.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_dead_messages_hide_no_topic() {
    let pool = pool().await;
    let store = PostgresStore::new(pool.clone(), &fresh(&pool).await);
    for namespace in [Namespace::Inbox, Namespace::Mailbox] {
        create_dead(&store, namespace, "before", 2).await;
        create_dead(&store, namespace, "many", MANY).await;
        create_dead(&store, namespace, "z-after", 1).await;
        let listed = store.topic_counts(&TopicQuery::first(namespace)).await.unwrap().topics;
        let listed: Vec<_> =
            listed.iter().map(|counts| (counts.topic.as_str(), counts.dead, counts.estimated)).collect();
        let expected = [("before", 2, false), ("many", MANY as u64, true), ("z-after", 1, false)];
        assert_eq!(listed, expected, "{namespace}");
        for (name, dead, _) in expected {
            let single = store.topic_counts(&TopicQuery::only(namespace, topic(name))).await.unwrap().topics;
            assert_eq!(single.first().map(|counts| counts.dead), Some(dead), "{name} of {namespace}");
        }
    }
}
