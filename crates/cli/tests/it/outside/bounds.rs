//! Bounds: what is too much is refused, says how to go on, and leaves the rest alone.

use serde_json::json;

use super::http::{Answer, Request};
use super::rig::{Server, home, on_every_store, on_own_stores};
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
