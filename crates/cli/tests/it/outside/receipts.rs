//! Which delivery a settlement means: receipts, ids of messages, and those that come too late.

use serde_json::json;

use super::rig::on_every_store;
use super::talk::{moment, text};

const QUICK: [&str; 2] = ["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"];

/// Holds: RULE-17.
#[test]
fn an_id_is_enough_in_the_first_grant_and_not_from_the_second_on() {
    on_every_store(&QUICK, |server| {
        let (one, two) = (server.sent("t", "1"), server.sent("u", "2"));
        server.ack(&one).refused(404, "E_LEASE_LOST");
        server.recv_one("t");
        assert_eq!(server.ack(&one).ok(), json!({"ok": true}));
        assert_eq!(server.ack(&one).ok(), json!({"ok": true}), "the same again");
        server.recv_one("u");
        assert_eq!(server.nack(&two, "no").ok(), json!({"ok": true}));
        let second = server.recv_one("u");
        server.ack(&two).refused(409, "E_RECEIPT");
        server.nack(&two, "no").refused(409, "E_RECEIPT");
        let wish = json!({"visibility_ms": 1_000});
        server.post(&format!("/v1/extend/{two}"), &wish).refused(409, "E_RECEIPT");
        assert_eq!(server.ack(text(&second, "receipt")).ok(), json!({"ok": true}));
    });
}

/// Holds: RULE-17, RULE-05.
#[test]
fn late_and_foreign_deliveries_are_lost_and_change_nothing() {
    on_every_store(&QUICK, |server| {
        server.sent("t", "k");
        let first = server.recv_one("t");
        server.nack(text(&first, "receipt"), "no").ok();
        let second = server.recv_one("t");
        let late = text(&first, "receipt");
        server.ack(late).refused(404, "E_LEASE_LOST");
        let wish = json!({"visibility_ms": 60_000});
        server.post(&format!("/v1/extend/{late}"), &wish).refused(404, "E_LEASE_LOST");
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
fn visibilities_that_are_too_short_or_too_long_are_refused_with_the_limit() {
    on_every_store(&[], |server| {
        server.sent("t", "k");
        for visibility in [0, 1, 249] {
            for call in ["/v1/recv", "/v1/recv/stream"] {
                let wish = json!({"topic": "t", "visibility_ms": visibility});
                let told = server.post(call, &wish).refused(400, "E_SCHEMA");
                assert!(told.contains("250"), "{told}");
            }
        }
        let told = server.post("/v1/recv", &json!({"topic": "t", "visibility_ms": 43_200_001}));
        assert!(told.refused(400, "E_SCHEMA").contains("43200000"));
        let told = server.post("/v1/recv", &json!({"topic": "t", "wait_ms": 60_001}));
        assert!(told.refused(400, "E_SCHEMA").contains("60000"));
        for messages in [0, 257] {
            let told = server.post("/v1/recv", &json!({"topic": "t", "max_messages": messages}));
            assert!(told.refused(400, "E_SCHEMA").contains("256"));
        }
        assert_eq!(server.recv_as(&json!({"topic": "t", "visibility_ms": 250})).len(), 1);
    });
}

/// Holds: RULE-12, MBX-P-9.
#[test]
fn a_delivery_gets_more_time_up_to_ten_times_its_visibility() {
    on_every_store(&[], |server| {
        server.sent("t", "k");
        let wish = json!({"topic": "t", "visibility_ms": 60_000});
        let message = server.recv_as(&wish).remove(0);
        let (receipt, held) = (text(&message, "receipt"), moment(text(&message, "visible_until")));
        let extend = |visibility: u64| {
            let wish = json!({"visibility_ms": visibility});
            let extended = server.post(&format!("/v1/extend/{receipt}"), &wish).ok();
            assert_eq!(extended["ok"], true);
            moment(text(&extended, "visible_until"))
        };
        assert!(extend(120_000) >= held + 60_000);
        assert_eq!(extend(7_200_000), held + 9 * 60_000, "not longer than ten times the visibility");
        let told = server.post(&format!("/v1/extend/{receipt}"), &json!({"visibility_ms": 10}));
        assert!(told.refused(400, "E_SCHEMA").contains("250"));
        server.post(&format!("/v1/extend/{receipt}"), &json!({})).refused(400, "E_SCHEMA");
    });
}

/// A receiver that did not get its answer asks again, and gets the same.
/// Holds: RULE-06.
#[test]
fn a_request_that_is_repeated_gets_the_same_deliveries() {
    on_every_store(&[], |server| {
        server.sent("t", "1");
        server.sent("t", "2");
        let wish = json!({"topic": "t", "max_messages": 1, "visibility_ms": 60_000, "request_id": "0198a1b2-0000-7000-8000-00000000000a"});
        let first = server.recv_as(&wish);
        assert_eq!((first.len(), server.recv_as(&wish)), (1, first));
        assert_eq!(server.recv("t").len(), 1, "the other one");
        let nil = json!({"topic": "t", "request_id": "00000000-0000-0000-0000-000000000000"});
        server.post("/v1/recv", &nil).refused(400, "E_SCHEMA");
    });
}
