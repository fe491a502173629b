//! Sending, receiving and settling over HTTP.

use std::collections::BTreeMap;

use blake3::Hasher;
use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{NOTHING, base64, bytes, text, texts, timestamp_ms};
use super::rig::on_every_store;

/// The hash chain of an envelope, computed from the response as `docs/reference/hash-chain.md` describes.
fn chain(envelope: &Value) -> String {
    fn put(hasher: &mut Hasher, text: &str) {
        hasher.update(&u32::try_from(text.len()).expect("short").to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut hasher = Hasher::new();
    for name in ["topic", "ts", "idem_key", "payload_hash"] {
        put(&mut hasher, text(envelope, name));
    }
    let attributes: BTreeMap<_, _> = envelope["attrs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name, value.as_str()))
        .collect();
    hasher.update(&u32::try_from(attributes.len()).expect("short").to_le_bytes());
    for (name, value) in attributes {
        put(&mut hasher, name);
        put(&mut hasher, value.expect("a text"));
    }
    format!("b3:{}", hasher.finalize())
}

/// A consumer can verify a message with the envelope alone: the payload by its hash, everything else by the chain. A
/// single changed bit fails the verification.
/// Holds: MBX-I-12, MBX-G-7, RULE-18.
#[test]
fn a_consumer_can_verify_an_envelope() {
    on_every_store(&[], |server| {
        let all_bytes: Vec<u8> = (0..=255).collect();
        let attrs = [json!({}), json!({"b": "2", "a": "1", "ключ": "значение", "empty": ""})];
        for (key, attrs) in ["one", "größe:2"].into_iter().zip(attrs) {
            let payload = base64(&all_bytes);
            let body = json!({"topic": "t", "idem_key": key, "payload_b64": payload, "attrs": attrs});
            server.post("/v1/send", &body).ok();
            let message = server.recv_one("t");
            let received = bytes(text(&message, "payload_b64"));
            let hash = |bytes: &[u8]| format!("b3:{}", blake3::hash(bytes));
            assert_eq!((&received, text(&message, "payload_hash")), (&all_bytes, &*hash(&received)));
            assert_eq!(text(&message, "hash_chain"), chain(&message), "{message}");
            let mut flipped = received;
            flipped[100] ^= 1;
            assert_ne!(text(&message, "payload_hash"), hash(&flipped));
            for (name, value) in [
                ("topic", json!("u")),
                ("ts", json!("2026-01-01T00:00:00.000Z")),
                ("idem_key", json!("l")),
                ("payload_hash", json!(hash(&flipped))),
                ("attrs", json!({"a": "2"})),
            ] {
                let mut forged = message.clone();
                forged[name] = value;
                assert_ne!(text(&message, "hash_chain"), chain(&forged), "{name}");
            }
            server.ack(text(&message, "receipt")).ok();
        }
    });
}

/// Replays R-T1.
/// Holds: MBX-C-1, MBX-C-9, MBX-I-7, RULE-18.
#[test]
fn a_message_is_received_unchanged_and_acknowledged() {
    on_every_store(&[], |server| {
        let corr_id = "0198a1b2-0000-7000-8000-000000000001";
        let attrs = json!({"kind": "greeting", "ключ": "значение"});
        let sent = server.post(
            "/v1/send",
            &json!({"topic": "t", "idem_key": "k", "payload_b64": base64("hello"), "attrs": attrs, "corr_id": corr_id}),
        );
        let sent = sent.ok();
        let messages = server.recv("t");
        let [message] = &*messages else { panic!("one was sent: {messages:?}") };
        assert_eq!((&message["msg_id"], &message["topic"]), (&sent["msg_id"], &json!("t")));
        assert_eq!((text(message, "idem_key"), text(message, "payload_b64")), ("k", &*base64("hello")));
        assert_eq!((&message["attrs"], text(message, "corr_id")), (&attrs, corr_id));
        assert_eq!((&message["attempt"], &message["sig"]), (&json!(1), &json!(null)));
        let hash = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        assert_eq!(text(message, "payload_hash"), hash);
        let chain = text(message, "hash_chain");
        assert!(chain.starts_with("b3:") && chain.len() == 67, "{chain}");
        assert!(server.held_ms(message) >= 60_000, "{message}");
        assert_eq!(server.ack(text(message, "receipt")).ok(), json!({"ok": true}));
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Replays R-T2.
/// Holds: MBX-I-2, MBX-G-2.
#[test]
fn a_message_that_is_sent_again_is_delivered_once() {
    on_every_store(&[], |server| {
        let id = server.sent("t", "k");
        for _ in 0..4 {
            let again = server.send("t", "k", "k").ok();
            assert_eq!((text(&again, "msg_id"), &again["duplicate"]), (&*id, &json!(true)));
        }
        assert_eq!(texts(&server.recv("t"), "msg_id"), [&id]);
        assert_eq!(server.metric(r#"oncebox_mailbox_enqueued_total{topic="t"}"#).as_deref(), Some("1"));
        assert_eq!(server.metric(r#"oncebox_mailbox_duplicates_total{topic="t"}"#).as_deref(), Some("4"));
    });
}

/// Replays R-T22.
/// Holds: RULE-08, MBX-C-10.
#[test]
fn a_duplicate_is_a_conflict_on_request_and_a_different_payload_always_is() {
    on_every_store(&[], |server| {
        let id = server.sent("t", "k");
        let body = json!({"topic": "t", "idem_key": "k", "payload_b64": base64("k")});
        let again = Request::post("/v1/send", &body);
        let conflict = server.call(&again.clone().header("x-idempotency-mode", "409-conflict"));
        conflict.refused(409, "E_DUPLICATE");
        let reply = conflict.json();
        assert_eq!((text(&reply, "msg_id"), &reply["duplicate"]), (&*id, &json!(true)));
        let flag = server.call(&again.clone().header("x-idempotency-mode", "200-flag")).ok();
        assert_eq!(flag["duplicate"], true);
        server.call(&again.header("x-idempotency-mode", "neither")).refused(400, "E_SCHEMA");
        let other = server.send("t", "k", "another payload");
        other.refused(409, "E_DUPLICATE");
        let reply = other.json();
        assert_eq!((text(&reply, "msg_id"), &reply["duplicate"]), (&*id, &json!(false)));
        assert_eq!(texts(&server.recv("t"), "payload_b64"), [base64("k")]);
    });
}

/// Replays R-T3.
/// Holds: MBX-I-3, MBX-G-3.
#[test]
fn an_unacknowledged_message_is_redelivered() {
    on_every_store(&[], |server| {
        let id = server.sent("t", "k");
        let request = json!({"topic": "t", "visibility_ms": 1_000, "wait_ms": 60_000});
        let first = server.recv_as(&request).remove(0);
        let second = server.recv_as(&request).remove(0);
        assert_eq!((text(&second, "msg_id"), &second["attempt"]), (&*id, &json!(2)));
        assert_eq!((&second["ts"], &second["hash_chain"]), (&first["ts"], &first["hash_chain"]));
        let until = |message| timestamp_ms(text(message, "visible_until"));
        assert!(until(&second) - until(&first) >= 1_000, "hidden for one second: {first} {second}");
        let redelivered = server.metric(r#"oncebox_mailbox_redelivered_total{topic="t"}"#);
        assert_eq!(redelivered.as_deref(), Some("1"));
        server.ack(text(&first, "receipt")).refused(404, "E_LEASE_LOST");
    });
}

/// Replays R-T4.
/// Holds: RULE-17, RULE-06.
#[test]
fn an_acknowledgement_is_final_and_may_be_repeated() {
    on_every_store(&[], |server| {
        let id = server.sent("t", "k");
        let message = server.recv_one("t");
        for _ in 0..3 {
            assert_eq!(server.ack(text(&message, "receipt")).ok(), json!({"ok": true}));
        }
        assert_eq!(server.ack(&id).ok(), json!({"ok": true}), "the message id names the same delivery");
        server.nack(text(&message, "receipt"), "too late").refused(404, "E_LEASE_LOST");
        let counts = server.counts("t");
        assert_eq!(
            (&counts["ready"], &counts["waiting"], &counts["in_flight"]),
            (&json!(0), &json!(0), &json!(0))
        );
    });
}

/// Replays R-T5.
/// Holds: MBX-P-7.
#[test]
fn a_nacked_message_is_redelivered_after_a_backoff() {
    on_every_store(&[], |server| {
        let id = server.sent("t", "k");
        let first = server.recv_one("t");
        assert_eq!(server.nack(text(&first, "receipt"), "busy").ok(), json!({"ok": true}));
        let waiting = server.get(&format!("/v1/admin/messages/{id}")).ok();
        assert_eq!((text(&waiting, "last_error"), &waiting["attempts"]), ("busy", &json!(1)));
        let second = server.recv_one("t");
        assert_eq!((text(&second, "msg_id"), &second["attempt"]), (&*id, &json!(2)));
    });
}

/// Replays R-T6.
/// Holds: MBX-I-4, MBX-C-4, MBX-P-5.
#[test]
fn a_message_is_a_dead_letter_after_16_failures_until_it_is_reprocessed() {
    on_every_store(&["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"], |server| {
        let id = server.sent("t", "k");
        server.fail("t", 16);
        assert_eq!(server.recv("t"), NOTHING);
        let page = server.get("/v1/dlq?topic=t").ok();
        let dead_letter = &page["messages"][0];
        assert_eq!(
            (text(dead_letter, "msg_id"), text(dead_letter, "state"), text(dead_letter, "reason")),
            (&*id, "dead", "exhausted")
        );
        assert_eq!((text(dead_letter, "last_error"), &dead_letter["attempts"]), ("it is poison", &json!(16)));
        let series = r#"dlq_total{topic="t",reason="exhausted"}"#;
        let counted = server.eventually(|| server.metric(series));
        assert_eq!(counted, "1");
        assert_eq!(server.metric(r#"oncebox_mailbox_dlq_depth{topic="t"}"#).as_deref(), Some("1"));
        let swept = server.post("/v1/dlq/reprocess", &json!({"topic": "t", "limit": 10})).ok();
        assert_eq!(swept, json!({"matched": 1, "changed": 1, "dry_run": false, "more": false}));
        let again = server.recv_one("t");
        assert_eq!(text(&again, "msg_id"), id);
        assert_eq!(server.ack(text(&again, "receipt")).ok(), json!({"ok": true}));
    });
}

/// Replays R-T7.
/// Holds: MBX-C-10.
#[test]
fn a_payload_that_does_not_match_its_hash_is_refused() {
    on_every_store(&[], |server| {
        let hash = "b3:ea8f163db38682925e4491c5e58d4bb3506ef8c14eb78a86e908c5624a67200f";
        let send = |payload: &str| {
            let payload = base64(payload);
            let body = json!({"topic": "t", "idem_key": "k", "payload_b64": payload, "payload_hash": hash});
            server.post("/v1/send", &body)
        };
        send("hellp").refused(422, "E_INTEGRITY");
        assert_eq!(server.metric(r#"rejected_total{reason="integrity"}"#).as_deref(), Some("1"));
        assert_eq!(server.recv("t"), NOTHING);
        assert_eq!(send("hello").ok()["duplicate"], false, "the refused message did not use up the key");
    });
}

/// Replays R-T8.
/// Holds: MBX-I-13, MBX-G-8, RULE-03.
#[test]
fn a_key_can_be_reused_after_the_deduplication_window_and_not_before() {
    let set = ["mailbox.visibility_default=250ms", "mailbox.topics.short.replay_window=500ms"];
    on_every_store(&set, |server| {
        let long = server.sent("long", "k");
        let first = server.send("short", "k", "k").ok();
        let again = server.eventually(|| {
            let answer = server.send("short", "k", "k").ok();
            if answer["duplicate"] == true {
                assert_eq!(answer["msg_id"], first["msg_id"]);
                return None;
            }
            Some(answer)
        });
        assert_ne!(again["msg_id"], first["msg_id"]);
        let until = |sent| timestamp_ms(text(sent, "dedup_until"));
        assert!(until(&again) - 500 >= until(&first), "accepted before the window ended: {first} {again}");
        assert_eq!(
            text(&server.send("long", "k", "k").ok(), "msg_id"),
            long,
            "the window of five minutes has not ended"
        );
        assert_eq!(server.recv("short").len(), 2);
    });
}

/// A key can be reused after the window although its message is unfinished, unless the topic is configured otherwise. A
/// lookup by key finds the message in both cases and says whether the key is held.
/// Holds: RULE-03, RULE-26.
#[test]
fn a_message_is_found_by_its_key_after_the_window_and_can_hold_the_key_until_finished() {
    let set = [
        "mailbox.visibility_default=250ms",
        "mailbox.topic.replay_window=500ms",
        "mailbox.topic.attempts_max=1",
        "mailbox.topics.held.key_hold=until-finished",
    ];
    on_every_store(&set, |server| {
        let find = |topic: &str| {
            server.get(&format!("/v1/admin/messages/by-key?source={topic}&id=k&payload=true")).ok()
        };
        let held = server.sent("held", "k");
        let first = server.sent("loose", "k");
        let second = server.eventually(|| {
            let found = find("loose");
            assert_eq!((text(&found, "msg_id"), text(&found, "state")), (&*first, "processing"), "{found}");
            assert_eq!((text(&found, "payload_b64"), found.get("older")), (&*base64("k"), None), "{found}");
            if found["keyed"] == true {
                return None;
            }
            assert!(timestamp_ms(text(&found, "dedup_until")) > 0, "{found}");
            Some(server.sent("loose", "k"))
        });
        assert_ne!(second, first, "the key was not held");
        let found = find("loose");
        assert_eq!((text(&found, "msg_id"), &found["older"]), (&*second, &json!([first])));
        let again = server.send("held", "k", "k").ok();
        assert_eq!(
            (text(&again, "msg_id"), &again["duplicate"]),
            (&*held, &json!(true)),
            "an unfinished message holds its key"
        );
        let found = find("held");
        assert_eq!((text(&found, "msg_id"), &found["keyed"]), (&*held, &json!(true)));
        server.fail("held", 1);
        let found = find("held");
        assert_eq!(
            (text(&found, "msg_id"), text(&found, "state"), &found["keyed"]),
            (&*held, "dead", &json!(false))
        );
        assert_ne!(server.sent("held", "k"), held, "a dead letter holds its key only for the window");
        server.get("/v1/admin/messages/by-key?source=held&id=never").refused(404, "E_NOT_FOUND");
    });
}
