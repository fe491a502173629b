//! Invalid batches: an invalid item is refused individually, an invalid request as a whole.

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{NOTHING, base64, text};
use super::rig::on_every_store;

/// An item that is not a valid message is refused individually, with the field that is invalid.
/// Holds: RULE-13.
#[test]
fn an_invalid_message_does_not_affect_the_others_of_its_batch() {
    on_every_store(&[], |server| {
        let message =
            |idem_key: &str| json!({"topic": "t", "idem_key": idem_key, "payload_b64": base64(idem_key)});
        let with = |name: &str, value: Value| {
            let mut message = message("wrong");
            message[name] = value;
            message
        };
        let wrong = [
            (with("payload_b64", json!("not base64!")), "payload_b64 is not base64"),
            (with("payload_b64", json!(7)), "payload_b64 has the wrong type: expected a base64 string"),
            (with("idem_key", json!(7)), "idem_key has the wrong type: expected a string"),
            (with("topic", Value::Null), "topic has the wrong type: expected a string"),
            (with("attrs", json!(["a"])), "attrs has the wrong type: expected an object"),
            (with("secret", json!(1)), "unknown field: known fields are `topic`"),
            (json!({"topic": "t", "idem_key": "wrong"}), "payload_b64 is missing"),
            (json!("secret"), "the item has the wrong type: expected an object"),
            (json!([]), "the item has the wrong type: expected an object"),
            (Value::Null, "the item has the wrong type: expected an object"),
        ];
        let mut messages = vec![message("first")];
        for (index, (wrong, _)) in wrong.iter().enumerate() {
            messages.extend([wrong.clone(), message(&index.to_string())]);
        }
        let answer = server.post("/v1/queues/mailbox/send", &json!({"messages": messages})).ok();
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), messages.len());
        for (index, (_, says)) in wrong.iter().enumerate() {
            let (refused, accepted) = (&results[2 * index + 1], &results[2 * index + 2]);
            assert_eq!((&refused["ok"], text(refused, "code")), (&json!(false), "E_SCHEMA"), "{refused}");
            let said = text(refused, "message");
            assert!(said.starts_with(says) && !said.contains("secret"), "{said}");
            assert_eq!(
                (&accepted["ok"], &accepted["duplicate"]),
                (&json!(true), &json!(false)),
                "{accepted}"
            );
        }
        assert_eq!(server.recv("t").len(), 1 + wrong.len(), "all valid messages");
        let rejected = server.metric(r#"rejected_total{reason="schema"}"#);
        assert_eq!(rejected, Some(wrong.len().to_string()));
    });
}

/// An invalid request is refused as a whole, and no message is accepted.
/// Holds: RULE-13.
#[test]
fn an_invalid_batch_is_refused_as_a_whole() {
    on_every_store(&[], |server| {
        let call = |path: &str, body: String| {
            let request = Request::new("POST", path).header("content-type", "application/json");
            server.call(&request.body(body)).refused(400, "E_SCHEMA")
        };
        let good = r#"{"topic":"t","idem_key":"k","payload_b64":""}"#;
        for (body, says) in [
            (format!(r#"{{"messages":[{good},{{]}}"#), "the body is not valid JSON"),
            (format!(r#"{{"messages":[{good}"#), "the JSON ends unexpectedly"),
            (format!(r#"{{"messages":[{good}]}} x"#), "the body is not valid JSON"),
            (String::new(), "the JSON ends unexpectedly"),
            ("{}".to_owned(), "messages is missing"),
            ("[]".to_owned(), "the request has the wrong type: expected an object"),
            (r#"{"messages":7}"#.to_owned(), "messages has the wrong type: expected a list"),
            (format!(r#"{{"messages":{good}}}"#), "messages has the wrong type: expected a list"),
            (r#"{"messages":null}"#.to_owned(), "messages has the wrong type: expected a list"),
            (format!(r#"{{"messages":[{good}],"secret":1}}"#), "unknown field: known fields are `messages`"),
            (format!(r#"{{"messages":[{good}],"messages":[]}}"#), "messages occurs more than once"),
            (format!(r#"{{"messages":[{}7]}}"#, "7,".repeat(1_000)), "the batch has more than 1000 messages"),
            (
                format!(r#"{{"messages":[{}7]}}"#, "7,".repeat(200_000)),
                "the batch has more than 1000 messages",
            ),
        ] {
            let said = call("/v1/queues/mailbox/send", body);
            assert!(said.starts_with(says) && !said.contains("secret"), "{said}");
        }
        for (path, rest) in [("/v1/settle", ""), ("/v1/work", r#","recv":{"topic":"t"}"#)] {
            for (list, says) in [
                ("7".to_owned(), "settle has the wrong type: expected a list"),
                (format!("[{}7]", "7,".repeat(1_000)), "the batch has more than 1000 deliveries"),
                ("[".to_owned(), "the body is not valid JSON"),
            ] {
                let said = call(path, format!(r#"{{"settle":{list}{rest}}}"#));
                assert!(said.starts_with(says), "{path}: {said}");
            }
            let said = call(path, format!(r#"{{"settle":[]{rest},"secret":1}}"#));
            assert!(said.starts_with("unknown field: known fields are `settle`"), "{path}: {said}");
        }
        assert!(call("/v1/settle", "{}".to_owned()).starts_with("settle is missing"));
        assert!(call("/v1/work", r#"{"settle":[7]}"#.to_owned()).starts_with("recv is missing"));
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Holds: RULE-13, RULE-17.
#[test]
fn an_invalid_settlement_does_not_affect_the_others() {
    on_every_store(&[], |server| {
        let recv = json!({"topic": "t", "max_messages": 1});
        for path in ["/v1/settle", "/v1/work"] {
            server.sent("t", path);
            let receipt = text(&server.recv_one("t"), "receipt").to_owned();
            let wrong = [
                (
                    json!({"op": "drop", "delivery": receipt}),
                    "op has an invalid value: expected one of `ack`",
                ),
                (json!({"op": "ack", "delivery": 7}), "delivery has the wrong type: expected a string"),
                (json!({"op": "ack"}), "delivery is missing"),
                (json!({"op": "ack", "delivery": receipt, "secret": 1}), "unknown field"),
                (
                    json!({"op": "extend", "delivery": receipt, "visibility_ms": "1s"}),
                    "visibility_ms has the wrong type",
                ),
                (json!(7), "the item has the wrong type: expected an object"),
            ];
            let mut items: Vec<_> = wrong.iter().map(|(item, _)| item.clone()).collect();
            items.insert(3, json!({"op": "ack", "delivery": receipt}));
            let mut body = json!({"settle": items});
            if path == "/v1/work" {
                body["recv"] = recv.clone();
            }
            let answer = server.post(path, &body).ok();
            let mut results = answer["results"].as_array().unwrap().clone();
            assert_eq!(results.remove(3), json!({"ok": true}), "{path}");
            assert_eq!(results.len(), wrong.len());
            for (result, (_, says)) in results.iter().zip(&wrong) {
                assert_eq!((&result["ok"], text(result, "code")), (&json!(false), "E_SCHEMA"), "{path}");
                assert!(text(result, "message").starts_with(says), "{path}: {result}");
            }
            assert_eq!(server.counts("t")["in_flight"], 0, "{path}: the valid one was settled");
        }
    });
}

/// A work call whose `recv` is refused has no effect: no lease is extended, nothing is settled.
/// Holds: RULE-13.
#[test]
fn a_refused_work_call_changes_nothing() {
    on_every_store(&[], |server| {
        server.sent("t", "extended");
        server.sent("t", "settled");
        let held = server.recv_as(&json!({"topic": "t", "visibility_ms": 30_000, "worker": "me"}));
        let receipts: Vec<_> = held.iter().map(|message| text(message, "receipt")).collect();
        let leases = || {
            let ids = held.iter().map(|message| text(message, "msg_id"));
            ids.map(|id| server.get(&format!("/v1/admin/messages/{id}")).ok()["lease"].clone())
                .collect::<Vec<_>>()
        };
        let before = leases();
        for (lease, message) in before.iter().zip(&held) {
            assert_eq!(lease["until"], message["visible_until"], "{lease}");
        }
        let settle = json!([
            {"op": "extend", "delivery": receipts[0], "visibility_ms": 250_000},
            {"op": "ack", "delivery": receipts[1]},
        ]);
        for (field, value) in [
            ("worker", json!("\u{e4}")),
            ("worker", json!("")),
            ("worker", json!("x".repeat(129))),
            ("max_messages", json!(0)),
            ("max_messages", json!(257)),
            ("visibility_ms", json!(1)),
            ("visibility_ms", json!(43_200_001)),
            ("wait_ms", json!(60_001)),
            ("request_id", json!("none")),
            ("topic", json!("")),
            ("topic", json!("x".repeat(1_025))),
        ] {
            let mut recv = json!({"topic": "nothing-is-here"});
            recv[field] = value;
            let said =
                server.post("/v1/work", &json!({"settle": settle, "recv": recv})).refused(400, "E_SCHEMA");
            assert!(said.contains(field), "{field}: {said}");
            assert_eq!(leases(), before, "{field}: {said}");
        }
        let recv = json!({"topic": "nothing-is-here", "worker": "me"});
        let answer = server.post("/v1/work", &json!({"settle": settle, "recv": recv})).ok();
        assert_eq!(answer["results"][1], json!({"ok": true}), "{answer}");
        assert_ne!(leases(), before, "the valid call takes effect");
    });
}
