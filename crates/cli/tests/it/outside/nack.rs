//! Nacks with a delay or without redelivery, and the default visibility timeout.

use serde_json::{Value, json};

use super::mailbox_client::{NOTHING, text, timestamp_ms};
use super::rig::{Server, on_every_store, on_own_stores};

const HOUR: i64 = 3_600_000;

/// The three calls that settle a delivery.
const WAYS: [&str; 3] = ["nack", "settle", "work"];

/// Nacks a delivery with these fields; returns the result.
fn nack_by(server: &Server, way: &str, receipt: &str, nack: &Value) -> Value {
    if way == "nack" {
        return server.post(&format!("/v1/nack/{receipt}"), nack).ok();
    }
    let mut item = json!({"op": "nack", "delivery": receipt});
    item.as_object_mut().expect("an object").extend(nack.as_object().expect("an object").clone());
    let answer = match way {
        "settle" => server.post("/v1/settle", &json!({"settle": [item]})).ok(),
        _ => server.post("/v1/work", &json!({"settle": [item], "recv": {"topic": "nothing-is-here"}})).ok(),
    };
    answer["results"][0].clone()
}

/// Holds: RULE-10, IBX-058.
#[test]
fn an_explicit_delay_replaces_the_backoff() {
    let set = [
        "mailbox.topics.soon.backoff_base=1ms",
        "mailbox.topics.soon.backoff_max=1ms",
        "mailbox.topics.late.backoff_base=12h",
        "mailbox.topics.late.backoff_max=12h",
    ];
    on_every_store(&set, |server| {
        for way in WAYS {
            let id = server.sent("soon", way);
            let message = server.recv_one("soon");
            let nack = json!({"delay_ms": HOUR, "reason": "not yet"});
            assert_eq!(nack_by(&server, way, text(&message, "receipt"), &nack), json!({"ok": true}));
            let shown = server.get(&format!("/v1/admin/messages/{id}")).ok();
            assert_eq!((&shown["attempts"], text(&shown, "last_error")), (&json!(1), "not yet"), "{way}");
            let wait = timestamp_ms(text(&shown, "retry_at")) - timestamp_ms(text(&shown, "accepted_at"));
            assert!((HOUR..2 * HOUR).contains(&wait), "{way}: {shown}");
            assert_eq!(server.recv("soon"), NOTHING, "{way}");

            server.sent("late", way);
            let message = server.recv_one("late");
            let nack = json!({"delay_ms": 1});
            assert_eq!(nack_by(&server, way, text(&message, "receipt"), &nack), json!({"ok": true}));
            let again = server.recv_one("late");
            assert_eq!((&again["msg_id"], &again["attempt"]), (&message["msg_id"], &json!(2)), "{way}");
            server.ack(text(&again, "receipt")).ok();
        }
    });
}

/// Holds: RULE-06, RULE-07.
#[test]
fn a_nack_with_dead_makes_a_dead_letter_immediately() {
    on_every_store(&[], |server| {
        for way in WAYS {
            let id = server.sent("t", way);
            let message = server.recv_one("t");
            let receipt = text(&message, "receipt");
            let nack = json!({"dead": true, "reason": "no JSON"});
            for _ in 0..2 {
                let settled = nack_by(&server, way, receipt, &nack);
                assert_eq!(settled, json!({"ok": true}), "{way}: a repeated nack gets the same response");
            }
            let dead_letter = server.get(&format!("/v1/dlq/{id}")).ok();
            assert_eq!(
                (text(&dead_letter, "reason"), text(&dead_letter, "last_error")),
                ("failed", "no JSON"),
                "{way}"
            );
            assert_eq!(dead_letter["attempts"], 0, "{way}: no attempt is spent: {dead_letter}");
            server.nack(receipt, "too late").refused(404, "E_LEASE_LOST");
        }
        assert_eq!(server.recv("t"), NOTHING);
        let dead = server.metric(r#"oncebox_mailbox_settled_total{outcome="dead"}"#);
        assert_eq!(dead.as_deref(), Some("6"));
    });
}

#[test]
fn a_contradictory_nack_is_refused_with_the_field_names() {
    on_own_stores(&[], |server| {
        server.sent("t", "1");
        let message = server.recv_one("t");
        let receipt = text(&message, "receipt");
        for (nack, reply) in [
            (json!({"dead": true, "delay_ms": 5}), &["dead and delay_ms"][..]),
            (json!({"delay_ms": 0}), &["delay_ms is 0, but must be from 1 to 604800000"]),
            (json!({"delay_ms": 604_800_001}), &["delay_ms is 604800001, but must be from 1 to 604800000"]),
            (json!({"delay_ms": -1}), &["delay_ms"]),
            (json!({"dead": "yes"}), &["dead"]),
        ] {
            let message = server.post(&format!("/v1/nack/{receipt}"), &nack).refused(400, "E_SCHEMA");
            assert!(reply.iter().all(|part| message.contains(part)), "{nack}: {message}");
            let settled = nack_by(&server, "settle", receipt, &nack);
            assert_eq!((&settled["ok"], &settled["code"]), (&json!(false), &json!("E_SCHEMA")), "{settled}");
            assert!(reply.iter().all(|part| text(&settled, "message").contains(part)), "{nack}: {settled}");
        }
        for (field, value) in [("delay_ms", json!(5)), ("dead", json!(true))] {
            let item = json!({"op": "ack", "delivery": receipt, field: value});
            let settled = server.post("/v1/settle", &json!({"settle": [item]})).ok();
            let reply = format!("{field} is only allowed with `nack`");
            assert_eq!(text(&settled["results"][0], "message"), reply);
        }
        assert_eq!(server.ack(receipt).ok(), json!({"ok": true}), "the refused calls changed nothing");
    });
}

/// Holds: MBX-C-12.
#[test]
fn the_default_visibility_timeout_is_that_of_the_topic() {
    let set = ["mailbox.topics.slow.visibility_default=20m", "mailbox.topics.slow.replay_window=40m"];
    on_every_store(&set, |server| {
        for (topic, least, most) in [("slow", 1_200_000, 2_400_000), ("usual", 30_000, 1_200_000)] {
            server.sent(topic, "k");
            let message = server.recv_as(&json!({"topic": topic})).remove(0);
            assert!((least..most).contains(&server.held_ms(&message)), "{topic}: {message}");
        }
        server.sent("slow", "named");
        let message = server.recv_as(&json!({"topic": "slow", "visibility_ms": 60_000})).remove(0);
        let held = server.held_ms(&message);
        assert!((60_000..1_200_000).contains(&held), "an explicit visibility timeout applies: {message}");
    });
}

/// The finding about dead letters.
fn dead_letter_finding(server: &Server, path: &str) -> Option<String> {
    let answer = server.get(path).ok();
    let findings = answer["findings"].as_array().expect("a list").clone();
    findings.iter().find(|finding| finding["subject"] == "dead_letters").map(|finding| {
        assert_eq!(finding["level"], "warning");
        text(finding, "text").to_owned()
    })
}

fn bury(server: &Server, topic: &str, keys: std::ops::Range<u32>) {
    for key in keys {
        server.sent(topic, &key.to_string());
        let message = server.recv_one(topic);
        nack_by(server, "nack", text(&message, "receipt"), &json!({"dead": true, "reason": "no"}));
    }
}

/// A bad deployment is noticed early.
/// Holds: MBX-P-5.
#[test]
fn a_high_dead_letter_rate_is_a_finding_and_one_log_line() {
    let set = ["mailbox.topics.t.dlq_alert_per_minute=2", "mailbox.topics.quiet.dlq_alert_per_minute=0"];
    on_every_store(&set, |server| {
        bury(&server, "t", 0..2);
        bury(&server, "quiet", 0..5);
        server.eventually(|| {
            let counted = server.metric(r#"dlq_total{topic="quiet",reason="failed"}"#);
            counted.filter(|count| count == "5")
        });
        assert_eq!(dead_letter_finding(&server, "/readyz"), None, "two do not exceed the limit of two");
        bury(&server, "t", 2..6);
        let reply = server
            .eventually(|| dead_letter_finding(&server, "/readyz").filter(|reply| reply.starts_with('6')));
        for part in ["6 dead letters in topic t", "most with reason failed", "oncebox dlq list --topic t"] {
            assert!(reply.contains(part), "{part}: {reply}");
        }
        assert_eq!(dead_letter_finding(&server, "/v1/admin/stats"), Some(reply));
        assert_eq!(
            server.get("/readyz").ok()["status"],
            "ready",
            "messages are still accepted and delivered"
        );
        let log = server.log();
        let lines: Vec<_> =
            log.lines().filter(|line| line.contains("dead letter rate above limit")).collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains("oncebox dlq list --topic t"), "{}", lines[0]);
    });
}
