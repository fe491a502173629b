//! Bounds: what is too much is refused, says how to go on, and leaves the rest alone.

use serde_json::{Value, json};

use super::http::{Answer, Request};
use super::rig::{Server, Store, home, on_every_store, on_own_stores};
use super::talk::{NOTHING, base64, text, texts};

const MIB: usize = 1024 * 1024;

/// It is refused for now; gives the seconds after which to come again.
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
            ("/v1/send/batch", json!({"messages": [], "secret": 1})),
            ("/v1/recv", json!({"topic": "t", "secret": 1})),
            ("/v1/recv/stream", json!({"topic": "t", "secret": 1})),
            ("/v1/work", json!({"recv": {"topic": "t", "secret": 1}})),
            ("/v1/settle", json!({"settle": [], "secret": 1})),
            ("/v1/ack/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"secret": 1})),
            ("/v1/nack/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"secret": 1})),
            ("/v1/extend/7ZZZZZZZZZZZZZZZZZZZZZZZZZ", json!({"visibility_ms": 500, "secret": 1})),
            ("/v1/dlq/reprocess", json!({"secret": 1})),
            ("/v1/messages/redrive", json!({"secret": 1})),
            ("/v1/messages/purge", json!({"confirm": true, "secret": 1})),
        ];
        for (path, body) in &calls {
            let told = server.post(path, body).refused(400, "E_SCHEMA");
            assert!(told.contains("unknown name") && !told.contains("secret"), "{path}: {told}");
        }
        // In a batch, the item with the field is refused.
        let send = json!({"topic": "t", "idem_key": "k", "payload_b64": "", "secret": 1});
        let settle = json!({"op": "ack", "delivery": "x", "secret": 1});
        for (path, body) in [
            ("/v1/send/batch", json!({"messages": [send]})),
            ("/v1/settle", json!({"settle": [settle]})),
            ("/v1/work", json!({"settle": [settle], "recv": {"topic": "t"}})),
        ] {
            let item = &server.post(path, &body).ok()["results"][0];
            assert_eq!((&item["ok"], text(item, "code")), (&json!(false), "E_SCHEMA"), "{path}: {item}");
            let said = text(item, "message");
            assert!(said.contains("unknown name") && !said.contains("secret"), "{path}: {said}");
        }
        server.get("/v1/messages?secret=1").refused(400, "E_SCHEMA");
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Replays R-T10.
/// Holds: MBX-G-4, MBX-I-6, RULE-19.
#[test]
fn a_mebibyte_is_taken_and_a_byte_more_is_not() {
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

/// What is too large is refused by its head alone: nobody waits for 50 MiB.
/// Holds: MBX-G-4, MBX-P-2.
#[test]
fn a_body_that_is_announced_too_large_is_refused_before_it_comes() {
    on_own_stores(&[], |server| {
        for path in ["/v1/send", "/v1/send/batch", "/v1/recv", "/v1/settle", "/v1/inbox/try-begin"] {
            let request = Request::new("POST", path).header("content-type", "application/json");
            let mut connection = server.connect();
            connection.write(&request.header("expect", "100-continue").head(50 * MIB));
            connection.answer().refused(413, "E_FRAME_TOO_LARGE");
            assert_eq!(connection.rest(), b"", "it does not wait for the rest");
        }
    });
}

/// Replays R-T11.
/// Holds: MBX-I-5, MBX-C-5, MBX-G-4.
#[test]
fn a_full_shard_pushes_back_and_never_grows_beyond() {
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
        assert_eq!(server.send("t", "1", "1").ok()["duplicate"], true, "what is in is known");
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
fn too_much_in_flight_pushes_receivers_back() {
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
        // A round of work that settled something tells what became of it all the same.
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
            home(),
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
        let told = ready.json();
        assert_eq!((&told["missing"], &told["degraded"]), (&json!(["capacity"]), &json!(true)), "{told}");
        assert_eq!((&told["reads"], &told["writes"]), (&json!(true), &json!(false)), "{told}");
        assert_eq!(server.get("/readyz?for=writes").status, 503);
        assert_eq!(server.get("/readyz?for=reads").ok()["status"], "degraded");
        assert_eq!(server.get("/health/ready").status, 503);
        assert_eq!(server.get("/healthz").ok(), json!({"status": "live"}));
        assert_eq!(server.get("/health/live").ok(), json!({"status": "live"}));
        for message in server.recv("t") {
            assert_eq!(server.ack(text(&message, "receipt")).ok(), json!({"ok": true}));
        }
        // Their keys are held until the replay window ends.
        let ready = server.eventually(|| Some(server.get("/readyz")).filter(|ready| ready.status == 200));
        assert_eq!(ready.json()["missing"], json!([]));
        server.sent("t", "6");
    };
    on("memory:?messages_max=5");
    let home = home();
    on(&format!("embedded:{}?messages_max=5", home.path().display()));
}

/// Reaches a bound: what is refused names it, and so do health, stats and one line of the log, until it is not reached any more.
#[track_caller]
fn names_its_bound(server: &Server, refused: &Request, bound: &str, setting: &str) {
    let answers = [server.call(refused), server.call(refused)];
    for answer in &answers {
        saturated(answer);
        let json = answer.json();
        assert_eq!(json["bound"]["name"], bound, "{json}");
        let (used, limit) = (json["bound"]["used"].as_u64(), json["bound"]["limit"].as_u64());
        assert!(used >= limit || bound == "live_bytes", "{json}");
        let (message, remedy) = (text(&json, "message"), text(&json["bound"], "remedy"));
        assert!(message.contains(remedy) && remedy.contains(setting), "{message}");
        assert!(!message.contains("taken in"), "{message}");
    }
    let finding = |answer: &Value| {
        let findings = answer["findings"].as_array().expect("a list");
        findings.iter().any(|finding| finding["subject"] == bound && text(finding, "text").contains(setting))
    };
    let stats = server.get("/v1/stats").ok();
    assert!(finding(&stats), "{stats}");
    let known = stats["bounds"].as_array().expect("a list");
    assert!(
        known.iter().any(|known| known["name"] == bound && text(known, "remedy").contains(setting)),
        "{stats}"
    );
    let ready = server.get("/readyz");
    assert!(finding(&ready.json()), "{}", ready.text());
    // One shard that is full, receivers that hold too much, or a message that is too large do not stop others.
    let stops_writes = ["messages", "keys"].contains(&bound);
    assert_eq!(ready.status, if stops_writes { 503 } else { 200 }, "{}", ready.text());
    assert_eq!(ready.json()["writes"], !stops_writes);
    server.get("/readyz?for=reads").ok();
    let lines = server.log();
    let lines: Vec<_> = lines.lines().filter(|line| line.contains("requests are refused")).collect();
    assert!(lines.len() == 1 && lines[0].contains(bound) && lines[0].contains(setting), "{lines:?}");
}

fn send(topic: &str, idem_key: &str, bytes: usize) -> Request {
    let payload = base64(vec![b'x'; bytes]);
    Request::post("/v1/send", &json!({"topic": topic, "idem_key": idem_key, "payload_b64": payload}))
}

/// Holds: RULE-27.
#[test]
fn a_refusal_for_a_full_shard_names_it() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=1"];
    on_every_store(&set, |server| {
        server.sent("t", "1");
        names_its_bound(&server, &send("t", "2", 1), "lane_messages", "`mailbox.shard_capacity`");
        server.sent("another", "1");
    });
}

/// Holds: RULE-27.
#[test]
fn a_refusal_for_too_much_in_flight_names_it() {
    let set = ["mailbox.shards=1", "mailbox.shard_capacity=2", "mailbox.global_in_flight=2"];
    on_every_store(&set, |server| {
        for (topic, idem_key) in [("a", "1"), ("a", "2"), ("b", "3")] {
            server.sent(topic, idem_key);
        }
        assert_eq!(server.recv("a").len(), 2);
        let recv = Request::post("/v1/recv", &json!({"topic": "b"}));
        names_its_bound(&server, &recv, "in_flight", "`mailbox.global_in_flight`");
    });
}

/// Holds: RULE-27, RULE-19.
#[test]
fn a_refusal_for_a_full_store_names_its_bound() {
    for store in [Store::Memory, Store::Embedded] {
        for (setting, bound) in
            [("messages_max=1", "messages"), ("keys_max=1", "keys"), ("live_bytes_max=5000", "live_bytes")]
        {
            let home = home();
            let url = format!("{}?{setting}", home.url(store));
            let server = Server::start_with(home, &["--store", &url], &[]);
            server.call(&send("t", "1", 3_000)).ok();
            let name = setting.split('=').next().unwrap();
            names_its_bound(&server, &send("t", "2", 3_000), bound, &format!("`{name}`"));
        }
    }
    let home = home();
    let url = format!("{}&keys_max=1", home.url(Store::Postgres));
    let server = Server::start_with(home, &["--store", &url], &[]);
    server.call(&send("t", "1", 1)).ok();
    // The number of keys follows the server's statistics.
    let numbers = std::cell::Cell::new(2);
    server.eventually(|| {
        numbers.set(numbers.get() + 1);
        (server.call(&send("t", &numbers.get().to_string(), 1)).status == 429).then_some(())
    });
    names_its_bound(&server, &send("t", "late", 1), "keys", "`keys_max`");
}
