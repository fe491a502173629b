//! Pausing and resuming topics.

use serde_json::{Value, json};

use super::http::{Connection, Request};
use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::{Server, Store, new_storage, on_durable_stores, on_every_store};

impl Server {
    fn pause_topic(&self, request: &Value) -> Value {
        self.post("/v1/admin/topics/pause", request).ok()["paused"].clone()
    }

    fn resume_topic(&self, request: &Value) -> Value {
        self.post("/v1/admin/topics/resume", request).ok()["paused"].clone()
    }

    /// Waits for the longest time until a pause applies in another server.
    fn wait_a_second(&self) {
        self.post("/v1/recv", &json!({"topic": "nobody-sends-here", "wait_ms": 1_000})).ok();
    }

    fn is_paused_for_sending(&self, topic: &str) -> bool {
        let answer = self.send(topic, "paused", "paused");
        if answer.status == 429 {
            let message = answer.refused(429, "E_SATURATED");
            assert!(
                message.contains("sending to this topic is paused") && message.contains("oncebox resume")
            );
            assert_eq!(answer.json()["bound"]["name"], "paused", "{}", answer.json());
            assert!(answer.header("retry-after").is_some(), "{}", answer.head);
        } else {
            answer.ok();
        }
        answer.status == 429
    }
}

#[test]
fn a_topic_that_is_paused_for_sending_drains() {
    on_every_store(&[], |server| {
        server.sent("t", "1");
        let pause = json!({"topic": "t", "pause": "sending", "because": "moving"});
        let actor = Request::post("/v1/admin/topics/pause", &pause).header("x-actor", "ann");
        let paused = server.call(&actor).ok()["paused"].clone();
        assert_eq!((&paused["topic"], &paused["pause"]), (&json!("t"), &json!("sending")));
        assert_eq!((&paused["actor"], &paused["reason"]), (&json!("ann"), &json!("moving")));
        assert!(server.is_paused_for_sending("t"));
        let batch =
            ["t", "u"].map(|topic| json!({"topic": topic, "idem_key": "2", "payload_b64": base64("2")}));
        let batch = server.post("/v1/queues/mailbox/send", &json!({"messages": batch})).ok();
        assert_eq!(
            (&batch["results"][0]["code"], &batch["results"][1]["ok"]),
            (&json!("E_SATURATED"), &json!(true))
        );

        let listed = server.get("/v1/admin/topics/paused").ok();
        assert_eq!(listed["topics"], json!([paused]));
        assert_eq!(server.get("/v1/admin/topics?topic=t").ok()["topics"][0]["paused"], "sending");
        for path in ["/readyz", "/v1/admin/stats"] {
            let answer = server.get(path).ok();
            let finding =
                answer["findings"].as_array().unwrap().iter().find(|finding| finding["subject"] == "paused");
            let finding = text(finding.unwrap_or_else(|| panic!("{answer}")), "text");
            assert!(finding.contains("topic t of namespace mailbox is paused (sending)"), "{finding}");
        }
        assert_eq!(server.get("/readyz").ok()["status"], "ready", "other topics work");
        for (pause, count) in [("sending", "1"), ("receiving", "0"), ("both", "0")] {
            let series = format!(r#"oncebox_paused_topics{{namespace="mailbox",pause="{pause}"}}"#);
            assert_eq!(server.metric(&series).as_deref(), Some(count), "{pause}");
        }

        assert_eq!(server.recv("t").len(), 1, "stored messages are delivered");
        assert_eq!(server.resume_topic(&json!({"topic": "t"})), Value::Null);
        assert!(!server.is_paused_for_sending("t"));
        assert_eq!(server.get("/v1/admin/topics/paused").ok()["topics"], json!([]));
        assert!(server.get("/v1/admin/topics?topic=t").ok()["topics"][0].get("paused").is_none());
    });
}

#[test]
fn receivers_of_a_paused_topic_get_no_messages_and_the_reason() {
    on_every_store(&[], |server| {
        server.sent("t", "1");
        let held = server.recv_one("t");
        server.sent("t", "2");
        server.pause_topic(&json!({"topic": "t", "pause": "receiving"}));
        let recv = json!({"topic": "t", "wait_ms": 10});
        let nothing = json!({"messages": [], "paused": true});
        assert_eq!(server.post("/v1/recv", &recv).ok(), nothing);
        let settle = json!([{"op": "ack", "delivery": text(&held, "receipt")}]);
        let worked = server.post("/v1/work", &json!({"settle": settle, "recv": recv})).ok();
        assert_eq!(
            (&worked["results"][0]["ok"], &worked["paused"]),
            (&json!(true), &json!(true)),
            "{worked}"
        );
        let binary = Request::post("/v1/recv", &recv).header("accept", "application/octet-stream");
        let binary = server.call(&binary);
        assert_eq!((binary.status, binary.header("x-paused")), (204, Some("true")));
        let stream = server.post("/v1/recv/stream", &recv);
        assert_eq!((stream.status, stream.body.len()), (200, 0));
        server.sent("t", "3");
        assert_eq!(server.pause_topic(&json!({"topic": "t"}))["pause"], "both");
        assert!(server.is_paused_for_sending("t"));
        let left = server.resume_topic(&json!({"topic": "t", "pause": "receiving"}));
        assert_eq!(left["pause"], "sending");
        let mut keys = server.recv("t");
        keys.sort_by_key(|message| text(message, "idem_key").to_owned());
        assert_eq!(texts(&keys, "idem_key"), ["2", "3"]);
        assert_eq!(server.post("/v1/recv", &recv).ok(), json!({"messages": []}), "it is no longer paused");
    });
}

/// Holds: RULE-32.
#[test]
fn a_pause_survives_a_crash() {
    on_durable_stores(|store| {
        let server = Server::start(store, &[]);
        server.sent("t", "1");
        let paused = server.pause_topic(&json!({"topic": "t"}));
        let server = Server::start_in(server.kill(), store, &[]);
        assert!(server.is_paused_for_sending("t"));
        assert_eq!(server.recv("t"), NOTHING);
        assert_eq!(server.get("/v1/admin/topics/paused").ok()["topics"], json!([paused]));
        server.resume_topic(&json!({"topic": "t"}));
        let server = Server::start_in(server.kill(), store, &[]);
        assert!(!server.is_paused_for_sending("t"));
        assert_eq!(server.recv("t").len(), 2);
    });
}

/// Holds: RULE-32.
#[test]
fn another_server_applies_a_pause_within_a_second() {
    let storage = new_storage();
    let [one, two] = [(); 2].map(|()| Server::start_in(storage.clone(), Store::Postgres, &[]));
    two.sent("t", "1");
    one.pause_topic(&json!({"topic": "t"}));
    one.wait_a_second();
    assert!(two.is_paused_for_sending("t"));
    assert_eq!(two.recv("t"), NOTHING);
    // A receiver that waits at the other server gets the message soon after the topic is resumed.
    let wait = json!({"topic": "t", "wait_ms": 60_000});
    let received = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| two.recv_as(&wait));
        one.wait_a_second();
        one.resume_topic(&json!({"topic": "t"}));
        waiting.join().unwrap()
    });
    assert_eq!(texts(&received, "idem_key"), ["1"]);
}

#[test]
fn a_topic_whose_messages_die_is_paused() {
    let set = [
        "mailbox.topic.attempts_max=1",
        "mailbox.topic.dlq_pause_per_minute=2",
        "mailbox.topics.other.dlq_pause_per_minute=0",
    ];
    on_every_store(&set, |server| {
        for (topic, number) in
            ["t", "other"].into_iter().flat_map(|topic| (0..4).map(move |number| (topic, number)))
        {
            server.sent(topic, &format!("{topic}{number}"));
        }
        server.fail("other", 4);
        server.fail("t", 3);
        let paused = server.eventually(|| {
            let paused = server.get("/v1/admin/topics/paused").ok()["topics"].clone();
            paused.as_array().filter(|paused| !paused.is_empty()).cloned()
        });
        let [paused] = &paused[..] else { panic!("{paused:?}") };
        assert_eq!(
            (text(paused, "topic"), text(paused, "pause"), text(paused, "actor")),
            ("t", "receiving", "oncebox")
        );
        assert!(text(paused, "reason").contains("messages died within a minute; the limit is 2"), "{paused}");
        assert_eq!(server.recv("t"), NOTHING);
        server.wait_for_line("paused the delivery of a topic because too many of its messages died");
        server.resume_topic(&json!({"topic": "t"}));
        assert_eq!(server.recv("t").len(), 1);
    });
}

#[test]
fn invalid_requests_change_nothing() {
    on_every_store(&[], |server| {
        let invalid = [
            (json!({"topic": ""}), "topic"),
            (json!({"topic": "t", "pause": "all"}), "pause"),
            (json!({"topic": "t", "namespace": "ledger"}), "namespace"),
            (json!({"topic": "t", "because": "x".repeat(1_025)}), "because"),
            (json!({"pause": "both"}), "topic"),
        ];
        for (request, field) in invalid {
            for path in ["/v1/admin/topics/pause", "/v1/admin/topics/resume"] {
                let message = server.post(path, &request).refused(400, "E_SCHEMA");
                assert!(message.contains(field), "{message}");
            }
        }
        assert_eq!(server.get("/v1/admin/topics/paused").ok()["topics"], json!([]));
        let admin = Connection::tcp(&server.admin_address());
        let paused = { admin }.call(&Request::post("/v1/admin/topics/pause", &json!({"topic": "t"}))).ok();
        assert_eq!(paused["paused"]["pause"], "both", "the operator address serves it, too");
    });
}
