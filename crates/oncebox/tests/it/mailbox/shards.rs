//! Which shard a parcel is in, and what that means for its delivery.

use std::collections::{BTreeMap, BTreeSet};

use oncebox::mailbox::{Envelope, Mailbox, Parcel, Receive, Sent};

use super::mailbox;
use crate::fixture::on_every_store;

/// Everything that is delivered while nothing is acknowledged.
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

async fn send(mailbox: &Mailbox, parcel: Parcel) {
    let sent = mailbox.send(parcel).await.unwrap();
    assert!(matches!(sent, Sent::Accepted(_)), "{sent:?}");
}

/// A shard key spreads a topic over its shards, and costs no parallelism: a partition does.
/// Holds: MBX-P-6.
#[test]
fn parcels_with_shard_keys_are_delivered_side_by_side_from_all_shards_of_a_topic() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for number in 0..80 {
            let user = format!("user-{}", number % 20);
            send(&mailbox, Parcel::new("keyed", number.to_string()).shard_key(user.clone())).await;
            send(&mailbox, Parcel::new("parted", number.to_string()).partition(user)).await;
        }
        let received = receive_all(&mailbox, "keyed").await;
        assert_eq!(received.len(), 80, "all are in flight at once");
        let shards: BTreeSet<_> = received.iter().map(|envelope| envelope.shard).collect();
        assert!(shards.len() > 4, "20 keys are in {shards:?}");
        let mut of_user = BTreeMap::<_, BTreeSet<_>>::new();
        for envelope in &received {
            let user = envelope.idem_key.parse::<u32>().unwrap() % 20;
            of_user.entry(user).or_default().insert(envelope.shard);
        }
        assert!(of_user.values().all(|shards| shards.len() == 1), "a key is in one shard: {of_user:?}");
        assert_eq!(receive_all(&mailbox, "parted").await.len(), 20, "one of each partition");
    });
}

/// Holds: MBX-P-6.
#[test]
fn a_shard_key_chooses_the_shard_and_a_partition_keeps_its_order_beside_it() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        let parcel = |number: u32| Parcel::new("orders", number.to_string());
        // What a partition would choose, if there were no shard key.
        send(&mailbox, parcel(0).partition("7")).await;
        send(&mailbox, parcel(1).shard_key("7")).await;
        send(&mailbox, parcel(2).shard_key("7").partition("alone")).await;
        send(&mailbox, parcel(3)).await;
        let shards: Vec<_> = receive_all(&mailbox, "orders").await.iter().map(|one| one.shard).collect();
        assert_eq!(shards.iter().filter(|shard| **shard == 7).count(), 3, "{shards:?}");
        assert_eq!(shards.iter().filter(|shard| **shard == 6).count(), 1, "the topic's own: {shards:?}");

        // One partition over several shards is still delivered one at a time, in order.
        for number in 10..16 {
            send(&mailbox, parcel(number).shard_key(number.to_string()).partition("story")).await;
        }
        for number in 10..16 {
            let [envelope] = &receive_all(&mailbox, "orders").await[..] else { panic!("one at a time") };
            assert_eq!(envelope.idem_key, number.to_string());
            mailbox.ack(envelope.receipt).await.unwrap();
        }
    });
}

#[test]
fn a_shard_key_has_bounds() {
    on_every_store(async |fixture| {
        let mailbox = mailbox(&fixture);
        for key in [String::new(), "k".repeat(1_025), "a\0b".to_owned()] {
            let refused = mailbox.send(Parcel::new("t", "k").shard_key(key)).await.unwrap_err();
            assert_eq!(refused.to_string(), "shard_key must have 1 to 1024 bytes, and no NUL");
        }
        send(&mailbox, Parcel::new("t", "k").shard_key("k".repeat(1_024))).await;
    });
}
