//! Due times and expiry.

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{NOTHING, base64, text, timestamp_ms};
use super::rig::{Server, on_every_store, on_own_stores};

const HOUR: i64 = 3_600_000;
const YEAR: u64 = 31_536_000_000;

fn send(server: &Server, topic: &str, key: &str, more: &Value) -> Value {
    let mut body = json!({"topic": topic, "idem_key": key, "payload_b64": base64(key)});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    server.post("/v1/send", &body).ok()
}

fn shown(server: &Server, sent: &Value) -> Value {
    server.get(&format!("/v1/admin/messages/{}", text(sent, "msg_id"))).ok()
}

/// Milliseconds from the acceptance to a timestamp.
fn after(shown: &Value, name: &str) -> i64 {
    timestamp_ms(text(shown, name)) - timestamp_ms(text(shown, "accepted_at"))
}

/// The server decides by its own clock, so the comparison allows a difference of one minute.
#[track_caller]
fn about(millis: i64, expected: i64) {
    assert!((millis - expected).abs() < 60_000, "{millis} is not about {expected}");
}

/// Holds: RULE-09.
#[test]
fn a_message_is_not_delivered_before_it_is_due() {
    on_every_store(&[], |server| {
        let later = send(&server, "t", "later", &json!({"due_in_ms": HOUR}));
        let soon = send(&server, "t", "soon", &json!({"due_in_ms": 1_500}));
        let due = shown(&server, &soon);
        about(after(&shown(&server, &later), "due_at"), HOUR);
        let message = server.recv_one("t");
        assert_eq!(message["msg_id"], soon["msg_id"]);
        let received = timestamp_ms(text(&message, "visible_until")) - 60_000;
        assert!(received >= timestamp_ms(text(&due, "due_at")), "{message} {due}");
        assert_eq!(server.recv("t"), NOTHING, "the other message is not due");
    });
}

/// Holds: RULE-08, RULE-12.
#[test]
fn duplicates_and_retries_do_not_change_due_time_and_expiry() {
    on_every_store(&["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=1ms"], |server| {
        let first = send(&server, "t", "k", &json!({"due_in_ms": 1, "expires_in_ms": HOUR}));
        let before = shown(&server, &first);
        about(after(&before, "expires_at"), HOUR);
        let again = send(&server, "t", "k", &json!({"due_in_ms": 2 * HOUR, "expires_in_ms": 3 * HOUR}));
        assert_eq!((&again["duplicate"], &again["msg_id"]), (&json!(true), &first["msg_id"]));
        server.fail("t", 2);
        let now = shown(&server, &first);
        for name in ["due_at", "expires_at"] {
            assert_eq!(now[name], before[name], "{name}");
        }
    });
}

/// Holds: RULE-12, MBX-P-9.
#[test]
fn the_earlier_of_the_senders_expiry_and_the_topics_retention_applies() {
    on_every_store(&["mailbox.topic.ready_keep=1h"], |server| {
        let minute = HOUR / 60;
        for (key, more, expected) in [
            ("sender", json!({"expires_in_ms": 10 * minute}), 10 * minute),
            ("topic", json!({"expires_in_ms": 2 * HOUR}), HOUR),
            ("neither", json!({}), HOUR),
            ("from when it is due", json!({"due_in_ms": 5 * HOUR}), 6 * HOUR),
            ("both", json!({"due_in_ms": 5 * HOUR, "expires_in_ms": 5 * HOUR + minute}), 5 * HOUR + minute),
        ] {
            about(after(&shown(&server, &send(&server, "t", key, &more)), "expires_at"), expected);
        }
        let gone = send(&server, "u", "too late", &json!({"expires_in_ms": 1}));
        let dead_letter = server.eventually(|| {
            let dead_letter = server.get(&format!("/v1/dlq/{}", text(&gone, "msg_id")));
            (dead_letter.status == 200).then(|| dead_letter.ok())
        });
        assert_eq!((text(&dead_letter, "reason"), &dead_letter["attempts"]), ("expired", &json!(0)));
        assert_eq!(server.recv("u"), NOTHING);
    });
}

#[test]
fn batches_and_binary_requests_set_due_time_and_expiry() {
    on_every_store(&[], |server| {
        let item =
            |key: &str, due: u64| json!({"topic": "t", "idem_key": key, "payload_b64": "", "due_in_ms": due});
        let sent = server
            .post("/v1/queues/mailbox/send", &json!({"messages": [item("1", 60_000), item("2", 0)]}))
            .ok();
        let results = sent["results"].as_array().expect("a list");
        about(after(&shown(&server, &results[0]), "due_at"), 60_000);
        assert_eq!(results[1]["code"], "E_SCHEMA");
        assert!(text(&results[1], "message").starts_with("due_in_ms is 0"), "{sent}");
        let bytes = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let bytes = bytes.header("x-topic", "t").header("x-idem-key", "3").body("payload");
        let sent = bytes.clone().header("x-due-in-ms", "120000").header("x-expires-in-ms", "240000");
        let message = shown(&server, &server.call(&sent).ok());
        about(after(&message, "due_at"), 120_000);
        about(after(&message, "expires_at"), 240_000);
        for value in ["", "soon", "-1", "+1", "1.5", "99999999999999999999"] {
            let reply = server.call(&bytes.clone().header("x-due-in-ms", value)).refused(400, "E_SCHEMA");
            assert!(reply.contains("x-due-in-ms"), "{value}: {reply}");
        }
        let reply = server.call(&bytes.clone().header("x-due-in-ms", "0")).refused(400, "E_SCHEMA");
        assert!(reply.starts_with("x-due-in-ms is 0"), "{reply}");
        let twice = bytes.header("x-expires-in-ms", "1").header("x-expires-in-ms", "2");
        server.call(&twice).refused(400, "E_SCHEMA");
    });
}

#[test]
fn out_of_range_times_are_refused_with_the_field_name() {
    on_own_stores(&[], |server| {
        for (more, reply) in [
            (json!({"due_in_ms": 0}), "due_in_ms is 0, but must be from 1 to 31536000000"),
            (json!({"expires_in_ms": 0}), "expires_in_ms is 0, but must be from 1 to 31536000000"),
            (json!({"due_in_ms": YEAR + 1}), "due_in_ms is 31536000001, but must be from 1 to 31536000000"),
            (json!({"expires_in_ms": i64::MAX}), "expires_in_ms is 9223372036854775807, but must be"),
            (
                json!({"expires_in_ms": u64::MAX}),
                "expires_in_ms has an invalid value: expected a whole number up to",
            ),
            (
                json!({"due_in_ms": 5, "expires_in_ms": 5}),
                "expires_in_ms is 5, but must be greater than due_in_ms (5)",
            ),
            (json!({"due_in_ms": -5}), "due_in_ms"),
            (json!({"due_in_ms": 1.5}), "due_in_ms"),
        ] {
            let mut body = json!({"topic": "t", "idem_key": "k", "payload_b64": ""});
            body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            let message = server.post("/v1/send", &body).refused(400, "E_SCHEMA");
            assert!(message.contains(reply), "{more}: {message}");
        }
        assert_eq!(server.counts("t")["waiting"], 0);
        send(&server, "t", "k", &json!({"due_in_ms": YEAR - 1, "expires_in_ms": YEAR}));
    });
}
