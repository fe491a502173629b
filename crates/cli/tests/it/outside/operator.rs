//! The operator API: list, show, count, redrive and purge.

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::{Server, on_durable_stores, on_every_store};

const QUICK: [&str; 4] = [
    "mailbox.shards=1",
    "mailbox.topic.attempts_max=1",
    "mailbox.topic.backoff_base=1ms",
    "mailbox.topic.backoff_max=5ms",
];

/// Creates dead letters; returns their ids.
fn dead(server: &Server, topic: &str, keys: &[&str]) -> Vec<String> {
    let ids: Vec<_> = keys.iter().map(|idem_key| server.sent(topic, idem_key)).collect();
    server.fail(topic, keys.len());
    ids
}

fn list(server: &Server, path: &str) -> Vec<Value> {
    server.get(path).ok()["messages"].as_array().expect("a list").clone()
}

/// Holds: MBX-C-4, MBX-P-5.
#[test]
fn dead_letters_are_listed_shown_and_reprocessed_by_topic() {
    on_every_store(&QUICK, |server| {
        let (a, b) = (dead(&server, "a", &["1", "2", "3"]), dead(&server, "b", &["4"]));
        assert_eq!(texts(&list(&server, "/v1/dlq?topic=a"), "msg_id"), a);
        assert_eq!(texts(&list(&server, "/v1/dlq?reason=exhausted&topic=b"), "msg_id"), b);
        assert_eq!(list(&server, "/v1/dlq?reason=expired"), NOTHING);
        let dead_letter = server.get(&format!("/v1/dlq/{}", a[0])).ok();
        assert_eq!((text(&dead_letter, "id"), &dead_letter["payload_b64"]), ("1", &json!(null)));
        let whole = server.get(&format!("/v1/dlq/{}?payload=true", a[0])).ok();
        assert_eq!(text(&whole, "payload_b64"), base64("1"));
        let by_uuid = server.get(&format!("/v1/dlq/{}", text(&dead_letter, "uid"))).ok();
        assert_eq!(by_uuid, dead_letter);
        let reprocess = |request: Value| server.post("/v1/dlq/reprocess", &request).ok();
        let dry = reprocess(json!({"topic": "a", "dry_run": true}));
        assert_eq!(dry, json!({"matched": 3, "changed": 0, "dry_run": true, "more": false}));
        assert_eq!(server.recv("a"), NOTHING, "a dry run changes nothing");
        let some = reprocess(json!({"topic": "a", "limit": 2}));
        assert_eq!((&some["changed"], &some["more"]), (&json!(2), &json!(true)));
        assert_eq!(reprocess(json!({"topic": "b", "reason": "failed"}))["changed"], 0);
        assert_eq!(texts(&server.recv("a"), "msg_id"), a[..2], "oldest first");
        assert_eq!(server.metric("oncebox_mailbox_dlq_reprocess_total").as_deref(), Some("2"));
        server.get(&format!("/v1/dlq/{}", a[0])).refused(404, "E_NOT_FOUND");
        assert_eq!(list(&server, "/v1/dlq").len(), 2);
    });
}

/// Holds: MBX-C-4, RULE-11.
#[test]
fn dead_letters_are_reprocessed_by_their_ids() {
    on_every_store(&QUICK, |server| {
        let ids = dead(&server, "t", &["1", "2", "3"]);
        let alive = server.sent("u", "4");
        let request = json!({"ids": [ids[0], ids[2], alive, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"]});
        let mut dry = request.clone();
        dry["dry_run"] = json!(true);
        let swept = server.post("/v1/dlq/reprocess", &dry).ok();
        assert_eq!((&swept["matched"], &swept["changed"]), (&json!(2), &json!(0)));
        let swept = server.post("/v1/dlq/reprocess", &request).ok();
        assert_eq!((&swept["matched"], &swept["changed"]), (&json!(2), &json!(2)));
        let received = server.recv("t");
        assert_eq!(texts(&received, "msg_id"), [&ids[0], &ids[2]]);
        let shown = server.get(&format!("/v1/admin/messages/{}", ids[0])).ok();
        assert_eq!(
            (&shown["attempts"], &shown["deliveries"]),
            (&json!(0), &json!(2)),
            "a redrive resets the attempts"
        );
        assert_eq!(shown["redrives"], 1);
        let both = json!({"ids": [ids[1]], "topic": "t"});
        server.post("/v1/dlq/reprocess", &both).refused(400, "E_SCHEMA");
        server.post("/v1/dlq/reprocess", &json!({"ids": ["nonsense"]})).refused(400, "E_SCHEMA");
        server.post("/v1/dlq/reprocess", &json!({"limit": 10_001})).refused(400, "E_SCHEMA");
        for limit in [0, 10_001] {
            let named = json!({"ids": [ids[1]], "limit": limit});
            server.post("/v1/dlq/reprocess", &named).refused(400, "E_SCHEMA");
        }
        let actor =
            Request::post("/v1/admin/messages/redrive", &json!({"ids": [ids[1]], "because": "fixed"}));
        assert_eq!(server.call(&actor.header("x-actor", "ann")).ok()["changed"], 1);
        let line = server.wait_for_line("\"actor\":\"ann\"");
        assert!(line.contains(r#""reason":"fixed""#), "the reason is in the audit log: {line}");
        assert!(
            line.contains(&format!(r#""msg_id":"{}""#, ids[1])),
            "with the id that responses use: {line}"
        );
        assert!(!line.contains("\"uid\""), "and no other id: {line}");
    });
}

/// Lists all messages page by page.
fn walk(server: &Server, path: &str) -> Vec<Value> {
    let (mut messages, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{path}{after}")).ok();
        messages.extend(page["messages"].as_array().expect("a list").clone());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return messages,
        }
    }
}

#[test]
fn messages_are_listed_page_by_page() {
    on_every_store(&["mailbox.shards=1"], |server| {
        let keys: Vec<_> = (0..7).map(|number| number.to_string()).collect();
        let ids: Vec<_> = keys.iter().map(|idem_key| server.sent("t", idem_key)).collect();
        server.sent("other", "x");
        assert_eq!(texts(&walk(&server, "/v1/admin/messages?topic=t&limit=3"), "msg_id"), ids);
        let newest = walk(&server, "/v1/admin/messages?topic=t&limit=2&sort=newest");
        assert_eq!(texts(&newest, "msg_id"), ids.iter().rev().collect::<Vec<_>>());
        assert_eq!(walk(&server, "/v1/admin/messages?limit=1").len(), 8);
        server.recv_one("t");
        let held = list(&server, "/v1/admin/messages?topic=t&limit=1&state=processing");
        assert!(held[0]["lease"]["until"].is_string(), "{held:?}");
        assert_eq!(list(&server, "/v1/admin/messages?state=dead"), NOTHING);
        assert_eq!(list(&server, "/v1/admin/messages?namespace=inbox"), NOTHING);
        for query in ["limit=0", "limit=1001", "state=odd", "after=nonsense", "namespace=odd", "sort=odd"] {
            server.get(&format!("/v1/admin/messages?{query}")).refused(400, "E_SCHEMA");
        }
    });
}

#[test]
fn a_message_is_found_by_its_key_and_counted() {
    on_every_store(&QUICK, |server| {
        let id = server.sent("t/1", "k 1");
        let found = server.get("/v1/admin/messages/by-key?source=t%2F1&id=k%201").ok();
        assert_eq!(
            (text(&found, "msg_id"), text(&found, "state"), text(&found, "topic")),
            (&*id, "processing", "t/1")
        );
        let whole = server.get("/v1/admin/messages/by-key?source=t%2F1&id=k+1&payload=true").ok();
        assert_eq!(text(&whole, "payload_b64"), base64("k 1"));
        server.get("/v1/admin/messages/by-key?source=t&id=k").refused(404, "E_NOT_FOUND");
        server.get("/v1/admin/messages/by-key?id=k").refused(400, "E_SCHEMA");
        server.post("/v1/inbox/try-begin", &json!({"key": "ledger key"})).ok();
        let entry = server.get("/v1/admin/messages/by-key?namespace=ledger&id=ledger%20key").ok();
        assert_eq!((text(&entry, "namespace"), text(&entry, "state")), ("ledger", "seen"));
        dead(&server, "t", &["2"]);
        server.sent("t", "3");
        server.sent("t", "4");
        server.recv_one("t");
        let counts = server.counts("t");
        let expected = json!({"seen": 0, "ready": 1, "waiting": 0, "in_flight": 1, "done": 0, "dead": 1, "estimated": false});
        assert_eq!(counts, expected);
        assert_eq!(server.get("/v1/admin/counts?namespace=ledger").ok()["seen"], 1);
        assert_eq!(server.get("/v1/admin/counts?namespace=mailbox").ok()["ready"], 2);
        let stats = server.get("/v1/admin/stats").ok();
        let mailbox =
            stats["namespaces"].as_array().unwrap().iter().find(|counts| counts["namespace"] == "mailbox");
        assert_eq!(mailbox.unwrap()["counts"]["dead"], 1, "{stats}");
    });
}

#[test]
fn a_redrive_selects_dead_messages_and_a_purge_must_be_confirmed() {
    on_every_store(&QUICK, |server| {
        let ids = dead(&server, "t", &["1", "2", "3"]);
        let alive = server.sent("u", "4");
        let redrive = server.post("/v1/admin/messages/redrive", &json!({"ids": [ids[0]]})).ok();
        assert_eq!(redrive["changed"], 1);
        server.post("/v1/admin/messages/redrive", &json!({"state": "processing"})).refused(400, "E_SCHEMA");
        let purge = |request: Value| server.post("/v1/admin/messages/purge", &request);
        let reply = purge(json!({"topic": "t"})).refused(400, "E_SCHEMA");
        assert!(reply.contains("confirm"), "{reply}");
        purge(json!({"ids": [ids[1]]})).refused(400, "E_SCHEMA");
        assert_eq!(purge(json!({"topic": "t", "dry_run": true})).ok()["matched"], 2);
        assert_eq!(list(&server, "/v1/dlq").len(), 2, "nothing is gone yet");
        assert_eq!(purge(json!({"ids": [ids[1]], "confirm": true})).ok()["changed"], 1);
        assert_eq!(
            purge(json!({"topic": "t", "confirm": true})).ok()["changed"],
            1,
            "Dead ones, if it does not say"
        );
        server.get(&format!("/v1/admin/messages/{}", ids[1])).refused(404, "E_NOT_FOUND");
        assert_eq!(server.send("t", "2", "2").ok()["duplicate"], false, "not even its key is known");
        assert_eq!(text(&server.recv_one("u"), "msg_id"), alive);
    });
}

/// Operators see the current and the last holder of a message and the end of the lease, also after a restart.
#[test]
fn the_current_and_the_last_holder_of_a_message_are_shown() {
    let shown = |server: &Server, id: &str| server.get(&format!("/v1/admin/messages/{id}")).ok();
    on_every_store(&QUICK, |server| {
        let longest = "n".repeat(128);
        let requests = [
            ("a", "/v1/recv", json!({"topic": "a", "worker": "billing-3:4711"}), "billing-3:4711"),
            ("b", "/v1/work", json!({"recv": {"topic": "b", "worker": longest}}), &*longest),
            ("c", "/v1/recv/stream", json!({"topic": "c", "worker": "a stream"}), "a stream"),
        ];
        for (topic, path, request, worker) in requests {
            let id = server.sent(topic, "1");
            assert_eq!(shown(&server, &id).get("last_lease"), None, "it was not delivered yet");
            let answer = server.post(path, &request);
            let envelope: Value = match path {
                "/v1/recv/stream" => {
                    serde_json::from_str(answer.text().lines().next().expect("a line")).unwrap()
                }
                _ => answer.ok()["messages"][0].clone(),
            };
            let held = shown(&server, &id);
            assert_eq!(held["lease"]["worker"], worker, "{held}");
            assert_eq!(held["lease"]["until"], envelope["visible_until"], "{held}");
            assert_eq!(held.get("last_lease"), None, "{held}");
            let listed = list(&server, &format!("/v1/admin/messages?topic={topic}"));
            assert_eq!(listed[0]["lease"]["worker"], worker, "{listed:?}");
            server.post(&format!("/v1/nack/{}", text(&envelope, "receipt")), &json!({})).ok();
            let dead_letter = server.get(&format!("/v1/dlq/{id}")).ok();
            assert_eq!(
                (&dead_letter["last_lease"]["worker"], dead_letter.get("lease")),
                (&json!(worker), None),
                "{dead_letter}"
            );
            assert_eq!(dead_letter["last_lease"]["until"], envelope["visible_until"]);
        }
        for (worker, error) in [
            (json!(""), "worker is empty"),
            (json!("n".repeat(129)), "worker is 129 bytes long, the limit is 128"),
            (json!("a\nb"), "worker has a character that is not printable ASCII"),
            (json!("ö"), "worker has a character that is not printable ASCII"),
            (json!(7), "worker has the wrong type"),
        ] {
            let refused =
                server.post("/v1/recv", &json!({"topic": "a", "worker": worker})).refused(400, "E_SCHEMA");
            assert!(refused.contains(error), "{refused}");
        }
        let metrics = server.get("/metrics");
        assert!(!metrics.text().contains("billing-3"), "no metric label contains it");
        assert!(!server.log().contains("billing-3"), "the log does not contain it");
    });
    on_durable_stores(|store| {
        let server = Server::start(store, &[]);
        let id = server.sent("t", "1");
        let request = json!({"topic": "t", "worker": "before", "visibility_ms": 3_600_000});
        server.post("/v1/recv", &request).ok();
        let held = shown(&server, &id)["lease"].clone();
        let storage = server.kill();
        let server = Server::start_in(storage, store, &[]);
        let after = shown(&server, &id)["lease"].clone();
        assert_eq!((&after["owner"], &after["worker"]), (&held["owner"], &json!("before")));
    });
}
