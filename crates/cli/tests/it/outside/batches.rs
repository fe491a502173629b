//! Batches, settlements, work calls and streams.

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::on_every_store;

/// Holds: RULE-13.
#[test]
fn a_refused_message_does_not_affect_the_others_of_its_batch() {
    on_every_store(&[], |server| {
        let message = |idem_key: &str, payload: &str| json!({"topic": "t", "idem_key": idem_key, "payload_b64": base64(payload)});
        let mut damaged = message("damaged", "x");
        damaged["payload_hash"] = json!(format!("b3:{}", "0".repeat(64)));
        let large = message("large", &"x".repeat(1024 * 1024 + 1));
        let messages = json!([
            message("1", "a"),
            message("", "blank"),
            damaged,
            large,
            message("1", "a"),
            message("1", "b"),
            message("2", "c")
        ]);
        let answer = server.post("/v1/queues/mailbox/send", &json!({"messages": messages})).ok();
        let results = answer["results"].as_array().unwrap();
        let codes: Vec<_> = results.iter().map(|result| result["code"].as_str().unwrap_or("ok")).collect();
        assert_eq!(codes, ["ok", "E_SCHEMA", "E_INTEGRITY", "E_FRAME_TOO_LARGE", "ok", "E_DUPLICATE", "ok"]);
        let id = text(&results[0], "msg_id");
        assert_eq!((text(&results[4], "msg_id"), &results[4]["duplicate"]), (id, &json!(true)));
        assert_eq!((text(&results[5], "msg_id"), &results[5]["ok"]), (id, &json!(false)));
        assert!(results.iter().all(|result| result["ok"] == json!(true) || result["message"].is_string()));
        let mut received = server.recv("t");
        received.sort_by_key(|message| text(message, "idem_key").to_owned());
        assert_eq!(texts(&received, "idem_key"), ["1", "2"]);
        assert_eq!(
            server.post("/v1/queues/mailbox/send", &json!({"messages": []})).ok(),
            json!({"results": []})
        );
        let many: Vec<_> = (0..1_001).map(|number| message(&number.to_string(), "")).collect();
        let reply =
            server.post("/v1/queues/mailbox/send", &json!({"messages": many})).refused(400, "E_SCHEMA");
        assert!(reply.contains("1000"), "{reply}");
    });
}

/// Settlements of two deliveries, with invalid ones among them.
fn settlements(first: &str, second: &str, delay_ms: u64) -> Value {
    json!([
        {"op": "ack", "delivery": first},
        {"op": "ack", "delivery": "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
        {"op": "nack", "delivery": "nonsense", "reason": "no"},
        {"op": "extend", "delivery": second},
        {"op": "ack", "delivery": second, "reason": "odd"},
        {"op": "extend", "delivery": second, "visibility_ms": 60_000},
        {"op": "nack", "delivery": second, "reason": "busy", "delay_ms": delay_ms},
        {"op": "ack", "delivery": first},
    ])
}

#[track_caller]
fn check(results: &Value) {
    let results = results.as_array().expect("a list");
    let codes: Vec<_> = results.iter().map(|result| result["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(codes[..5], ["ok", "E_LEASE_LOST", "E_SCHEMA", "E_SCHEMA", "E_SCHEMA"]);
    assert_eq!(codes[5..], ["ok", "ok", "ok"], "in order: the extension comes before the nack");
}

/// Holds: RULE-13, RULE-17.
#[test]
fn each_settlement_has_its_own_outcome() {
    on_every_store(&["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"], |server| {
        server.sent("t", "1");
        server.sent("t", "2");
        let held = server.recv("t");
        let (first, second) = (text(&held[0], "receipt"), text(&held[1], "receipt"));
        let answer = server.post("/v1/settle", &json!({"settle": settlements(first, second, 1)})).ok();
        check(&answer["results"]);
        assert_eq!(server.recv_one("t")["msg_id"], held[1]["msg_id"]);
        assert_eq!(server.post("/v1/settle", &json!({"settle": []})).ok(), json!({"results": []}));
    });
}

/// Holds: RULE-13, RULE-17.
#[test]
fn a_work_call_settles_and_receives_the_next_messages() {
    on_every_store(&["mailbox.topic.backoff_base=10s", "mailbox.shards=1"], |server| {
        for idem_key in ["1", "2", "3"] {
            server.sent("t", idem_key);
        }
        let recv = json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 2});
        let round = server.post("/v1/work", &json!({"recv": recv})).ok();
        let held = round["messages"].as_array().unwrap();
        assert_eq!((&round["results"], texts(held, "idem_key")), (&json!([]), vec!["1", "2"]));
        let (first, second) = (text(&held[0], "receipt"), text(&held[1], "receipt"));
        let round = server
            .post("/v1/work", &json!({"settle": settlements(first, second, 60_000), "recv": recv}))
            .ok();
        check(&round["results"]);
        let next = round["messages"].as_array().unwrap();
        assert_eq!(texts(next, "idem_key"), ["3"]);
        let bad = json!({"settle": [{"op": "ack", "delivery": next[0]["receipt"]}], "recv": {"topic": "t", "visibility_ms": 1}});
        server.post("/v1/work", &bad).refused(400, "E_SCHEMA");
        assert_eq!(server.counts("t")["in_flight"], 1, "an invalid request settles nothing");
    });
}

/// The wait is one minute: only a notification ends it before the client times out.
#[test]
fn a_waiting_receiver_is_woken_by_a_send() {
    on_every_store(&[], |server| {
        let recv = json!({"topic": "t", "visibility_ms": 60_000, "wait_ms": 60_000});
        for (path, request) in [("/v1/recv", recv.clone()), ("/v1/work", json!({"recv": recv}))] {
            let mut waiting = server.connect();
            waiting.write(&Request::post(path, &request).to_bytes());
            server.eventually(|| {
                server.metric("oncebox_http_connections").filter(|connections| connections == "2")
            });
            let id = server.sent("t", path);
            assert_eq!(text(&waiting.answer().ok()["messages"][0], "msg_id"), id);
        }
    });
}

/// A message delivered to a closed connection would be hidden from all receivers until its visibility timeout ends.
#[test]
fn a_disconnected_receiver_gets_no_message() {
    on_every_store(&[], |server| {
        let request = json!({"topic": "t", "visibility_ms": 3_600_000, "wait_ms": 60_000});
        for path in ["/v1/recv", "/v1/recv/stream"] {
            let mut waiting = server.connect();
            waiting.write(&Request::post(path, &request).to_bytes());
            server.eventually(|| {
                server.metric("oncebox_http_connections").filter(|connections| connections == "2")
            });
            drop(waiting);
            server.eventually(|| {
                server.metric("oncebox_http_connections").filter(|connections| connections == "1")
            });
            server.sent("t", path);
            let message = server.recv_one("t");
            assert_eq!((text(&message, "idem_key"), &message["attempt"]), (path, &json!(1)));
            server.ack(text(&message, "receipt")).ok();
        }
    });
}

/// Holds: MBX-C-1.
#[test]
fn a_stream_delivers_messages_as_they_arrive_and_ends_after_its_wait() {
    on_every_store(&[], |server| {
        let request = json!({"topic": "t", "visibility_ms": 60_000, "wait_ms": 60_000});
        let mut stream = server.connect();
        stream.write(&Request::post("/v1/recv/stream", &request).to_bytes());
        let head = stream.head().unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/x-ndjson"), "{head}");
        for idem_key in ["1", "2", "3"] {
            let id = server.sent("t", idem_key);
            let line = stream.chunk().unwrap().expect("a line of the open stream");
            assert_eq!(line.last(), Some(&b'\n'));
            let message: Value = serde_json::from_slice(&line).expect("one envelope");
            assert_eq!(text(&message, "msg_id"), id);
            assert_eq!(server.ack(text(&message, "receipt")).ok(), json!({"ok": true}));
        }
        drop(stream);
        server.sent("u", "4");
        server.sent("u", "5");
        let short = json!({"topic": "u", "visibility_ms": 60_000, "max_messages": 1, "wait_ms": 100});
        let answer = server.post("/v1/recv/stream", &short);
        let lines: Vec<Value> =
            answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((answer.status, lines.len()), (200, 2), "{}", answer.text());
        assert_eq!(server.recv("u"), NOTHING, "both are held");
    });
}
