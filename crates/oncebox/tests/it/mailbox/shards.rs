//! Which shard a message is in, and how that affects its delivery.

use std::collections::{BTreeMap, BTreeSet};

use oncebox::mailbox::{Envelope, Mailbox, OutgoingMessage, Receive, SendOutcome};

use super::mailbox;
use crate::fixture::on_every_store;

/// All messages that are delivered while none is acknowledged.
async fn receive_all(mailbox: &Mailbox, topic: &str) -> Vec<Envelope> {
    let mut received = Vec::new();
    loop {
        let more = mailbox.receive(Receive::new(topic).messages(256)).await.unwrap().envelopes;
        if more.is_empty() {
            return received;
        }
        received.extend(more);
    }
}

async fn send(mailbox: &Mailbox, message: OutgoingMessage) {
    let outcome = mailbox.send(message).await.unwrap();
    assert!(matches!(outcome, SendOutcome::Accepted(_)), "{outcome:?}");
}

/// A shard key spreads a topic over its shards without limiting concurrency; a partition limits it.
/// Holds: MBX-P-6.
#[test]
fn messages_with_shard_keys_are_delivered_concurrently_from_all_shards_of_a_topic() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for number in 0..80 {
            let user = format!("user-{}", number % 20);
            send(&mailbox, OutgoingMessage::new("keyed", number.to_string()).shard_key(user.clone())).await;
            send(&mailbox, OutgoingMessage::new("partitioned", number.to_string()).partition(user)).await;
        }
        let received = receive_all(&mailbox, "keyed").await;
        assert_eq!(received.len(), 80, "all are in flight at the same time");
        let shards: BTreeSet<_> = received.iter().map(|envelope| envelope.shard).collect();
        assert!(shards.len() > 4, "shards of 20 keys: {shards:?}");
        let mut of_user = BTreeMap::<_, BTreeSet<_>>::new();
        for envelope in &received {
            let user = envelope.idem_key.parse::<u32>().unwrap() % 20;
            of_user.entry(user).or_default().insert(envelope.shard);
        }
        assert!(of_user.values().all(|shards| shards.len() == 1), "each key is in one shard: {of_user:?}");
        assert_eq!(receive_all(&mailbox, "partitioned").await.len(), 20, "one of each partition");
    });
}

/// Holds: MBX-P-6.
#[test]
fn a_shard_key_selects_the_shard_and_a_partition_still_keeps_its_order() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let message = |number: u32| OutgoingMessage::new("orders", number.to_string());
        // Without a shard key, the partition selects the shard.
        send(&mailbox, message(0).partition("7")).await;
        send(&mailbox, message(1).shard_key("7")).await;
        send(&mailbox, message(2).shard_key("7").partition("alone")).await;
        send(&mailbox, message(3)).await;
        let shards: Vec<_> = receive_all(&mailbox, "orders").await.iter().map(|one| one.shard).collect();
        assert_eq!(shards.iter().filter(|shard| **shard == 7).count(), 3, "{shards:?}");
        assert_eq!(
            shards.iter().filter(|shard| **shard == 6).count(),
            1,
            "the shard of the topic: {shards:?}"
        );

        // Messages of one partition in several shards are still delivered one at a time, in order.
        for number in 10..16 {
            send(&mailbox, message(number).shard_key(number.to_string()).partition("story")).await;
        }
        for number in 10..16 {
            let [envelope] = &receive_all(&mailbox, "orders").await[..] else { panic!("one at a time") };
            assert_eq!(envelope.idem_key, number.to_string());
            mailbox.ack(envelope.receipt).await.unwrap();
        }
    });
}

#[test]
fn shard_keys_out_of_bounds_are_rejected() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for key in [String::new(), "k".repeat(1_025), "a\0b".to_owned()] {
            let refused = mailbox.send(OutgoingMessage::new("t", "k").shard_key(key)).await.unwrap_err();
            assert_eq!(refused.to_string(), "shard_key must have 1 to 1024 bytes, and no NUL");
        }
        send(&mailbox, OutgoingMessage::new("t", "k").shard_key("k".repeat(1_024))).await;
    });
}
