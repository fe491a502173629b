//! Stories of messages that stand at different places.

use oncebox_client::wire::operator::Message;
use serde_json::{Value, json};

use super::tell;

fn message(more: Value) -> Message {
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
    let story = tell(&message(json!({ "expires_at": "T7" })));
    let expected = [
        "Message M of the mailbox: topic orders, key k1.",
        "It came at T1, and its key has not come again.",
        "It was never delivered.",
        "It is to be delivered now: the next receiver of its topic gets it.",
        "Unless it is handled before T7, it is given up then.",
        "Its payload is there: 2 bytes.",
        "Its key is remembered until T9 at least: sent again with the same payload, it is a duplicate; with another, it is \
         refused (E_DUPLICATE).",
    ];
    assert_eq!(story, expected);
}

#[test]
fn one_that_is_held_after_trouble() {
    let story = tell(&message(json!({
        "deliveries": 3, "attempts": 2, "last_seen_at": "T2", "last_error": "no\u{1b} way",
        "lease": { "owner": "7", "worker": "host:17", "until": "T5" }, "partition": "p",
    })));
    let expected = [
        "It came at T1. Its key came again, last at T2: it is still the same message.",
        "It was delivered 3 times; 2 of them ended badly (5 may).",
        r"The last error: no\u{1b} way",
        "host:17 holds it until T5; unless it is settled by then, it comes again.",
        "Its payload is there: 2 bytes. Its partition is p.",
    ];
    assert_eq!(story[1..6], expected);
}

#[test]
fn one_that_waits_and_one_that_is_dead() {
    let story = tell(&message(json!({ "deliveries": 1, "attempts": 1, "retry_at": "T3", "due_at": "T0" })));
    assert_eq!(story[2], "It was delivered once, and that ended badly (5 may).");
    assert!(story.contains(&"It is tried next from T3 on.".to_owned()), "{story:?}");
    let dead = json!({ "state": "dead", "reason": "exhausted", "finished_at": "T4", "keyed": false, "deliveries": 5,
        "last_lease": { "owner": "o7", "until": "T3" } });
    let story = tell(&message(dead));
    let given_up = "It was given up at T4: its deliveries ended badly as often as they may. For another chance: oncebox dlq \
                    redrive M";
    assert!(story.contains(&given_up.to_owned()), "{story:?}");
    assert!(story.contains(&"o7 held it last, until T3 at most.".to_owned()), "{story:?}");
    assert_eq!(story.last().unwrap(), "Its key was held until T9: sent again, it would be a new message.");
    let several = json!({ "keyed": false, "older": ["M2", "M1"] });
    let story = tell(&message(several));
    let before = "Before it, 2 messages came under the same key, the newest of them M2: oncebox explain M2";
    assert_eq!(story.last().unwrap(), before);
}

#[test]
fn one_that_got_another_chance() {
    // Once it is handled, its last error is not kept.
    for error in [json!("no"), json!(null)] {
        let story =
            tell(&message(json!({ "deliveries": 5, "redrives": 2, "attempts": 0, "last_error": error })));
        assert_eq!(story[2], "It was delivered 5 times; no failure counts any more (5 may).");
        assert_eq!(story[3], "An operator redrove it twice.");
    }
}

#[test]
fn a_key_of_the_ledger() {
    let done = json!({ "namespace": "ledger", "state": "done", "deliveries": 1, "finished_at": "T4", "payload_bytes": null });
    let story = tell(&message(done));
    let expected = [
        "Key k1 of the ledger: message U.",
        "It came at T1, and its key has not come again.",
        "It was begun once.",
        "It was handled: done at T4.",
        "No payload is kept of it.",
        "Its key is remembered until T9 at least: whoever begins it is told that it is processed.",
    ];
    assert_eq!(story, expected);
}
