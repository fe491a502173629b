//! Shard keys.

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::text;
use super::rig::on_every_store;

fn keyed(number: u32, key: &str) -> Value {
    json!({"topic": "orders", "idem_key": number.to_string(), "payload_b64": "", "shard_key": key})
}

/// Holds: MBX-P-6.
#[test]
fn a_shard_key_chooses_the_shard_however_a_message_is_sent() {
    on_every_store(&[], |server| {
        server.post("/v1/send", &keyed(1, "7")).ok();
        server.post("/v1/queues/mailbox/send", &json!({"messages": [keyed(2, "7"), keyed(3, "7")]})).ok();
        let raw = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let raw = raw.header("x-topic", "orders").header("x-idem-key", "4").header("x-shard-key", "%37");
        server.call(&raw).ok();
        server.sent("orders", "5");
        let received = server.recv("orders");
        let mut shards: Vec<_> =
            received.iter().map(|message| (text(message, "idem_key"), message["shard"].as_u64())).collect();
        shards.sort_unstable();
        let expected =
            [("1", 7), ("2", 7), ("3", 7), ("4", 7), ("5", 6)].map(|(key, shard)| (key, Some(shard)));
        assert_eq!(shards, expected, "all are delivered concurrently");
        let reply = server.post("/v1/send", &keyed(6, "")).refused(400, "E_SCHEMA");
        assert!(reply.contains("shard_key"), "{reply}");
    });
}
