//! Receipts and message ids in settlements, and settlements that come too late.

use serde_json::json;

use super::mailbox_client::{text, timestamp_ms};
use super::rig::on_every_store;

const QUICK: [&str; 2] = ["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"];

/// Holds: RULE-17.
#[test]
fn a_message_id_is_accepted_for_the_first_delivery_only() {
    on_every_store(&QUICK, |server| {
        let (one, two) = (server.sent("t", "1"), server.sent("u", "2"));
        server.ack(&one).refused(404, "E_LEASE_LOST");
        server.recv_one("t");
        assert_eq!(server.ack(&one).ok(), json!({"ok": true}));
        assert_eq!(server.ack(&one).ok(), json!({"ok": true}), "a repeated ack");
        server.recv_one("u");
        assert_eq!(server.nack(&two, "no").ok(), json!({"ok": true}));
        let second = server.recv_one("u");
        server.ack(&two).refused(409, "E_RECEIPT");
        server.nack(&two, "no").refused(409, "E_RECEIPT");
        let request = json!({"visibility_ms": 1_000});
        server.post(&format!("/v1/extend/{two}"), &request).refused(409, "E_RECEIPT");
        assert_eq!(server.ack(text(&second, "receipt")).ok(), json!({"ok": true}));
    });
}

/// Holds: RULE-17, RULE-05.
#[test]
fn late_and_foreign_receipts_are_refused_and_change_nothing() {
    on_every_store(&QUICK, |server| {
        server.sent("t", "k");
        let first = server.recv_one("t");
        server.nack(text(&first, "receipt"), "no").ok();
        let second = server.recv_one("t");
        let late = text(&first, "receipt");
        server.ack(late).refused(404, "E_LEASE_LOST");
        let request = json!({"visibility_ms": 60_000});
        server.post(&format!("/v1/extend/{late}"), &request).refused(404, "E_LEASE_LOST");
        server.ack("7ZZZZZZZZZZZZZZZZZZZZZZZZZ").refused(404, "E_LEASE_LOST");
        server.ack(&format!("{}f", &late[..late.len() - 1])).refused(404, "E_LEASE_LOST");
        server.ack("nonsense").refused(400, "E_SCHEMA");
        server.ack(&"f".repeat(1_000)).refused(400, "E_SCHEMA");
        assert_eq!(server.counts("t")["in_flight"], 1);
        assert_eq!(server.ack(text(&second, "receipt")).ok(), json!({"ok": true}));
    });
}

/// Holds: MBX-C-12, RULE-17.
#[test]
fn out_of_range_visibility_timeouts_are_refused_with_the_limit() {
    on_every_store(&[], |server| {
        server.sent("t", "k");
        for visibility in [0, 1, 249] {
            for call in ["/v1/recv", "/v1/recv/stream"] {
                let request = json!({"topic": "t", "visibility_ms": visibility});
                let reply = server.post(call, &request).refused(400, "E_SCHEMA");
                assert!(reply.contains("250"), "{reply}");
            }
        }
        let reply = server.post("/v1/recv", &json!({"topic": "t", "visibility_ms": 43_200_001}));
        assert!(reply.refused(400, "E_SCHEMA").contains("43200000"));
        let reply = server.post("/v1/recv", &json!({"topic": "t", "wait_ms": 60_001}));
        assert!(reply.refused(400, "E_SCHEMA").contains("60000"));
        for messages in [0, 257] {
            let reply = server.post("/v1/recv", &json!({"topic": "t", "max_messages": messages}));
            assert!(reply.refused(400, "E_SCHEMA").contains("256"));
        }
        assert_eq!(server.recv_as(&json!({"topic": "t", "visibility_ms": 250})).len(), 1);
    });
}

/// Holds: RULE-12, MBX-P-9.
#[test]
fn a_delivery_can_be_extended_to_ten_times_its_visibility_timeout() {
    on_every_store(&[], |server| {
        server.sent("t", "k");
        let request = json!({"topic": "t", "visibility_ms": 60_000});
        let message = server.recv_as(&request).remove(0);
        let (receipt, held) = (text(&message, "receipt"), timestamp_ms(text(&message, "visible_until")));
        let extend = |visibility: u64| {
            let request = json!({"visibility_ms": visibility});
            let extended = server.post(&format!("/v1/extend/{receipt}"), &request).ok();
            assert_eq!(extended["ok"], true);
            timestamp_ms(text(&extended, "visible_until"))
        };
        assert!(extend(120_000) >= held + 60_000);
        assert_eq!(extend(7_200_000), held + 9 * 60_000, "at most ten times the visibility timeout");
        let reply = server.post(&format!("/v1/extend/{receipt}"), &json!({"visibility_ms": 10}));
        assert!(reply.refused(400, "E_SCHEMA").contains("250"));
        server.post(&format!("/v1/extend/{receipt}"), &json!({})).refused(400, "E_SCHEMA");
    });
}

/// A receiver that did not get its response can repeat the request.
/// Holds: RULE-06.
#[test]
fn a_repeated_request_gets_the_same_deliveries() {
    on_every_store(&[], |server| {
        server.sent("t", "1");
        server.sent("t", "2");
        let request = json!({"topic": "t", "max_messages": 1, "visibility_ms": 60_000, "request_id": "0198a1b2-0000-7000-8000-00000000000a"});
        let first = server.recv_as(&request);
        assert_eq!((first.len(), server.recv_as(&request)), (1, first));
        assert_eq!(server.recv("t").len(), 1, "the other message");
        let nil = json!({"topic": "t", "request_id": "00000000-0000-0000-0000-000000000000"});
        server.post("/v1/recv", &nil).refused(400, "E_SCHEMA");
    });
}
