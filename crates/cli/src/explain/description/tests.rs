//! Descriptions of messages in different states.

use oncebox_client::wire::operator::MessageDetails;
use serde_json::{Value, json};

use super::describe;

fn message(more: Value) -> MessageDetails {
    let mut message = json!({
        "msg_id": "M", "uid": "U", "namespace": "mailbox", "source": "orders", "id": "k1", "state": "processing",
        "attempts": 0, "attempts_max": 5, "deliveries": 0, "redrives": 0, "accepted_at": "T1", "last_seen_at": "T1", "keyed": true,
        "dedup_until": "T9", "payload_bytes": 2,
    });
    let Value::Object(more) = more else { panic!("fields are an object") };
    message.as_object_mut().expect("fields are an object").extend(more);
    serde_json::from_value(message).expect("a message")
}

#[test]
fn a_fresh_message() {
    let description = describe(&message(json!({ "expires_at": "T7" })));
    let expected = [
        "Message M in the mailbox: topic orders, key k1.",
        "It was accepted at T1; its key has not been seen since.",
        "It was never delivered.",
        "It is ready: the next receiver of its topic gets it.",
        "If it is not handled before T7, it expires and becomes a dead letter.",
        "Its payload is stored: 2 bytes.",
        "Its key is held until T9 at least: sending it again is a duplicate if the payload is the same, and refused \
         (E_DUPLICATE) if it differs.",
    ];
    assert_eq!(description, expected);
}

#[test]
fn a_held_message_after_failures() {
    let description = describe(&message(json!({
        "deliveries": 3, "attempts": 2, "last_seen_at": "T2", "last_error": "no\u{1b} way",
        "lease": { "owner": "7", "worker": "host:17", "until": "T5" }, "partition": "p",
    })));
    let expected = [
        "It was accepted at T1; its key was last seen at T2 and refers to the same message.",
        "It was delivered 3 times; 2 deliveries failed (limit 5).",
        r"Last error: no\u{1b} way",
        "host:17 holds it until T5; if it is not settled by then, it is redelivered.",
        "Its payload is stored: 2 bytes. Its partition is p.",
    ];
    assert_eq!(description[1..6], expected);
}

#[test]
fn a_waiting_message_and_a_dead_letter() {
    let description =
        describe(&message(json!({ "deliveries": 1, "attempts": 1, "retry_at": "T3", "due_at": "T0" })));
    assert_eq!(description[2], "It was delivered once, and that delivery failed (limit 5).");
    assert!(description.contains(&"The next delivery is at T3 or later.".to_owned()), "{description:?}");
    let dead = json!({ "state": "dead", "reason": "exhausted", "finished_at": "T4", "keyed": false, "deliveries": 5,
        "last_lease": { "owner": "o7", "until": "T3" } });
    let description = describe(&message(dead));
    let dead = "It became a dead letter at T4: it failed the maximum number of times. To redrive it: oncebox dlq \
                redrive M";
    assert!(description.contains(&dead.to_owned()), "{description:?}");
    assert!(
        description.contains(&"o7 was the last to hold it, until T3 at the latest.".to_owned()),
        "{description:?}"
    );
    assert_eq!(
        description.last().unwrap(),
        "Its key was held until T9: sending it again creates a new message."
    );
    let several = json!({ "keyed": false, "older": ["M2", "M1"] });
    let description = describe(&message(several));
    let earlier = "2 earlier messages had the same key, most recently M2: oncebox explain M2";
    assert_eq!(description.last().unwrap(), earlier);
}

#[test]
fn a_redriven_message() {
    // The last error is not kept once the message is handled.
    for error in [json!("no"), json!(null)] {
        let description =
            describe(&message(json!({ "deliveries": 5, "redrives": 2, "attempts": 0, "last_error": error })));
        assert_eq!(description[2], "It was delivered 5 times; none counts as a failure (limit 5).");
        assert_eq!(description[3], "An operator redrove it twice.");
    }
}

#[test]
fn a_ledger_key() {
    let done = json!({ "namespace": "ledger", "state": "done", "deliveries": 1, "finished_at": "T4", "payload_bytes": null });
    let description = describe(&message(done));
    let expected = [
        "Key k1 in the ledger: message U.",
        "It was accepted at T1; its key has not been seen since.",
        "It was begun once.",
        "It was handled and marked done at T4.",
        "Its payload is not stored.",
        "Its key is held until T9 at least: beginning it again returns that it is processed.",
    ];
    assert_eq!(description, expected);
}
