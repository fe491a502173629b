//! Bounds: requests that exceed a bound are refused with a remedy, and others are not affected.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::{Server, Store, new_storage, on_every_store, on_own_stores};

const MIB: usize = 1024 * 1024;

/// Asserts that the request was refused with a retry delay.
#[track_caller]
fn saturated(answer: &Answer) {
    answer.refused(429, "E_SATURATED");
    let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{}", answer.head);
}

/// Replays R-T9.
/// Holds: MBX-C-8, MBX-G-4, RULE-17.
#[test]
fn unknown_fields_are_refused_by_every_call() {
    on_own_stores(&[], |server| {
        let calls = [
            ("/v1/send", json!({"topic": "t", "idem_key": "k", "payload_b64": "", "secret": 1})),
            ("/v1/queues/mailbox/send", json!({"messages": [], "secret": 1})),
            ("/v1/recv", json!({"topic": "t", "secret": 1})),
            ("/v1/recv/stream", json!({"topic": "t", "secret": 1})),
            ("/v1/work", json!({"recv": {"topic": "t", "secret": 1}})),
            ("/v1/settle", json!({"settle": [], "secret": 1})),
            ("/v1/ack/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"secret": 1})),
            ("/v1/nack/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"secret": 1})),
            ("/v1/extend/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"visibility_ms": 500, "secret": 1})),
            ("/v1/dlq/reprocess", json!({"secret": 1})),
            ("/v1/admin/messages/redrive", json!({"secret": 1})),
            ("/v1/admin/messages/purge", json!({"confirm": true, "secret": 1})),
        ];
        for (path, body) in &calls {
            let reply = server.post(path, body).refused(400, "E_SCHEMA");
            assert!(reply.contains("unknown field") && !reply.contains("secret"), "{path}: {reply}");
        }
        // In a batch, the item with the field is refused.
        let send = json!({"topic": "t", "idem_key": "k", "payload_b64": "", "secret": 1});
        let settle = json!({"op": "ack", "delivery": "x", "secret": 1});
        for (path, body) in [
            ("/v1/queues/mailbox/send", json!({"messages": [send]})),
            ("/v1/settle", json!({"settle": [settle]})),
            ("/v1/work", json!({"settle": [settle], "recv": {"topic": "t"}})),
        ] {
            let item = &server.post(path, &body).ok()["results"][0];
            assert_eq!((&item["ok"], text(item, "code")), (&json!(false), "E_SCHEMA"), "{path}: {item}");
            let said = text(item, "message");
            assert!(said.contains("unknown field") && !said.contains("secret"), "{path}: {said}");
        }
        server.get("/v1/admin/messages?secret=1").refused(400, "E_SCHEMA");
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Replays R-T10.
/// Holds: MBX-G-4, MBX-I-6, RULE-19.
#[test]
fn a_payload_of_one_mebibyte_is_accepted_and_one_byte_more_is_refused() {
    on_every_store(&[], |server| {
        let send = |idem_key: &str, bytes: usize| {
            let payload = base64(vec![b'x'; bytes]);
            server.post("/v1/send", &json!({"topic": "t", "idem_key": idem_key, "payload_b64": payload}))
        };
        send("too large", MIB + 1).refused(413, "E_FRAME_TOO_LARGE");
        send("much too large", 2 * MIB).refused(413, "E_FRAME_TOO_LARGE");
        assert_eq!(send("just fits", MIB).ok()["duplicate"], false);
        assert_eq!(texts(&server.recv("t"), "idem_key"), ["just fits"]);
        assert_eq!(server.metric(r#"rejected_total{reason="oversize"}"#).as_deref(), Some("2"));
    });
}

/// A request that is too large is refused by its headers alone: the server does not wait for 50 MiB.
/// Holds: MBX-G-4, MBX-P-2.
#[test]
fn a_body_with_a_content_length_above_the_limit_is_refused_before_it_arrives() {
    on_own_stores(&[], |server| {
        for path in ["/v1/send", "/v1/queues/mailbox/send", "/v1/recv", "/v1/settle", "/v1/inbox/try-begin"] {
            let request = Request::new("POST", path).header("content-type", "application/json");
            let mut connection = server.connect();
            connection.write(&request.header("expect", "100-continue").head(50 * MIB));
            connection.answer().refused(413, "E_FRAME_TOO_LARGE");
            assert_eq!(connection.rest(), b"", "the server does not wait for the body");
        }
    });
}

/// Replays R-T11.
/// Holds: MBX-I-5, MBX-C-5, MBX-G-4.
#[test]
fn a_full_shard_refuses_messages_and_never_exceeds_its_capacity() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=3", "mailbox.global_in_flight=3"];
    on_every_store(&set, |server| {
        for idem_key in ["1", "2", "3"] {
            server.sent("t", idem_key);
        }
        for idem_key in ["4", "5", "6", "7"] {
            saturated(&server.send("t", idem_key, ""));
        }
        assert_eq!(server.metric(r#"queue_depth{topic="t",shard="0"}"#).as_deref(), Some("3"));
        assert_eq!(server.metric(r#"saturation{topic="t",shard="0"}"#).as_deref(), Some("1"));
        assert_eq!(server.metric(r#"rejected_total{reason="saturated"}"#).as_deref(), Some("4"));
        assert_eq!(
            server.send("t", "1", "1").ok()["duplicate"],
            true,
            "accepted messages are still deduplicated"
        );
        let held = server.recv("t");
        assert_eq!(texts(&held, "idem_key"), ["1", "2", "3"]);
        saturated(&server.send("t", "4", ""));
        assert_eq!(server.metric(r#"inflight{topic="t",shard="0"}"#).as_deref(), Some("3"));
        server.ack(text(&held[0], "receipt")).ok();
        server.sent("t", "4");
    });
}

/// Replays R-T11.
/// Holds: MBX-I-5, RULE-17.
#[test]
fn receivers_are_refused_at_the_in_flight_limit() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=2", "mailbox.global_in_flight=2"];
    on_every_store(&set, |server| {
        for (topic, idem_key) in [("a", "1"), ("a", "2"), ("b", "3")] {
            server.sent(topic, idem_key);
        }
        let held = server.recv("a");
        assert_eq!(held.len(), 2);
        saturated(&server.post("/v1/recv", &json!({"topic": "b"})));
        saturated(&server.post("/v1/recv", &json!({"topic": "b", "wait_ms": 1_000})));
        saturated(&server.post("/v1/recv/stream", &json!({"topic": "b"})));
        // A work call still returns the results of its settlements.
        let receipt = text(&held[0], "receipt");
        let foreign = format!("{}f", &receipt[..receipt.len() - 1]);
        for (item, ok) in [
            (json!({"op": "extend", "delivery": receipt, "visibility_ms": 60_000}), true),
            (json!({"op": "ack", "delivery": foreign}), false),
        ] {
            let worked = server
                .post("/v1/work", &json!({"settle": [item], "recv": {"topic": "b", "wait_ms": 300}}))
                .ok();
            assert_eq!(
                (&worked["results"][0]["ok"], &worked["messages"]),
                (&json!(ok), &json!([])),
                "{worked}"
            );
        }
        server.ack(text(&held[0], "receipt")).ok();
        assert_eq!(texts(&server.recv("b"), "idem_key"), ["3"]);
    });
}

/// Replays R-T17.
/// Holds: MBX-P-2, MBX-I-10.
#[test]
fn a_full_store_refuses_writes_and_still_serves_reads() {
    let on = |store: &str| {
        let server = Server::start_with(
            new_storage(),
            &["--store", store],
            &["mailbox.visibility_default=250ms", "mailbox.topic.replay_window=500ms"],
        );
        assert_eq!(server.get("/readyz").ok()["status"], "ready");
        for idem_key in ["1", "2", "3", "4", "5"] {
            server.sent("t", idem_key);
        }
        saturated(&server.send("t", "6", ""));
        let ready = server.get("/readyz");
        assert_eq!((ready.status, ready.header("retry-after").is_some()), (503, true), "{ready:?}");
        let reply = ready.json();
        assert_eq!((&reply["missing"], &reply["degraded"]), (&json!(["capacity"]), &json!(true)), "{reply}");
        assert_eq!((&reply["reads"], &reply["writes"]), (&json!(true), &json!(false)), "{reply}");
        assert_eq!(server.get("/readyz?for=writes").status, 503);
        assert_eq!(server.get("/readyz?for=reads").ok()["status"], "degraded");
        assert_eq!(server.get("/health/ready").status, 503);
        assert_eq!(server.get("/healthz").ok(), json!({"status": "live"}));
        assert_eq!(server.get("/health/live").ok(), json!({"status": "live"}));
        for message in server.recv("t") {
            assert_eq!(server.ack(text(&message, "receipt")).ok(), json!({"ok": true}));
        }
        // Their keys are held until the deduplication window ends.
        let ready = server.eventually(|| Some(server.get("/readyz")).filter(|ready| ready.status == 200));
        assert_eq!(ready.json()["missing"], json!([]));
        server.sent("t", "6");
    };
    on("memory:?messages_max=5");
    let storage = new_storage();
    on(&format!("embedded:{}?messages_max=5", storage.path().display()));
}

/// Reaches a bound: refusals, readiness, stats and one log line name the bound.
#[track_caller]
fn assert_bound_is_named(server: &Server, refused: &Request, bound: &str, setting: &str) {
    let answers = [server.call(refused), server.call(refused)];
    for answer in &answers {
        saturated(answer);
        let json = answer.json();
        assert_eq!(json["bound"]["name"], bound, "{json}");
        let (used, limit) = (json["bound"]["used"].as_u64(), json["bound"]["limit"].as_u64());
        assert!(used >= limit || bound == "live_bytes", "{json}");
        let (message, remedy) = (text(&json, "message"), text(&json["bound"], "remedy"));
        assert!(message.contains(remedy) && remedy.contains(setting), "{message}");
        assert!(!message.contains("nothing was accepted"), "{message}");
    }
    let finding = |answer: &Value| {
        let findings = answer["findings"].as_array().expect("a list");
        findings.iter().any(|finding| finding["subject"] == bound && text(finding, "text").contains(setting))
    };
    let stats = server.get("/v1/admin/stats").ok();
    assert!(finding(&stats), "{stats}");
    let known = stats["bounds"].as_array().expect("a list");
    assert!(
        known.iter().any(|known| known["name"] == bound && text(known, "remedy").contains(setting)),
        "{stats}"
    );
    let ready = server.get("/readyz");
    assert!(finding(&ready.json()), "{}", ready.text());
    // A full shard, the in-flight limit or a message that does not fit do not stop other writes.
    let stops_writes = ["messages", "keys"].contains(&bound);
    assert_eq!(ready.status, if stops_writes { 503 } else { 200 }, "{}", ready.text());
    assert_eq!(ready.json()["writes"], !stops_writes);
    server.get("/readyz?for=reads").ok();
    let lines = server.log();
    let lines: Vec<_> = lines.lines().filter(|line| line.contains("requests are rejected")).collect();
    assert!(lines.len() == 1 && lines[0].contains(bound) && lines[0].contains(setting), "{lines:?}");
}

fn send(topic: &str, idem_key: &str, bytes: usize) -> Request {
    let payload = base64(vec![b'x'; bytes]);
    Request::post("/v1/send", &json!({"topic": topic, "idem_key": idem_key, "payload_b64": payload}))
}

/// Holds: RULE-27.
#[test]
fn a_refusal_for_a_full_shard_names_the_bound() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=1"];
    on_every_store(&set, |server| {
        server.sent("t", "1");
        assert_bound_is_named(&server, &send("t", "2", 1), "lane_messages", "`mailbox.shard_capacity`");
        server.sent("another", "1");
    });
}

/// Holds: RULE-27.
#[test]
fn a_refusal_at_the_in_flight_limit_names_the_bound() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=2", "mailbox.global_in_flight=2"];
    on_every_store(&set, |server| {
        for (topic, idem_key) in [("a", "1"), ("a", "2"), ("b", "3")] {
            server.sent(topic, idem_key);
        }
        assert_eq!(server.recv("a").len(), 2);
        let recv = Request::post("/v1/recv", &json!({"topic": "b"}));
        assert_bound_is_named(&server, &recv, "in_flight", "`mailbox.global_in_flight`");
    });
}

/// Holds: RULE-27, RULE-19.
#[test]
fn a_refusal_for_a_full_store_names_the_bound() {
    for store in [Store::Memory, Store::Embedded] {
        for (setting, bound) in
            [("messages_max=1", "messages"), ("keys_max=1", "keys"), ("live_bytes_max=5000", "live_bytes")]
        {
            let storage = new_storage();
            let url = format!("{}?{setting}", storage.url(store));
            let server = Server::start_with(storage, &["--store", &url], &[]);
            server.call(&send("t", "1", 3_000)).ok();
            let name = setting.split('=').next().unwrap();
            assert_bound_is_named(&server, &send("t", "2", 3_000), bound, &format!("`{name}`"));
        }
    }
    let storage = new_storage();
    let url = format!("{}&keys_max=1", storage.url(Store::Postgres));
    let server = Server::start_with(storage, &["--store", &url], &[]);
    server.call(&send("t", "1", 1)).ok();
    // The number of keys comes from the statistics of the database.
    let numbers = std::cell::Cell::new(2);
    server.eventually(|| {
        numbers.set(numbers.get() + 1);
        (server.call(&send("t", &numbers.get().to_string(), 1)).status == 429).then_some(())
    });
    assert_bound_is_named(&server, &send("t", "late", 1), "keys", "`keys_max`");
}
