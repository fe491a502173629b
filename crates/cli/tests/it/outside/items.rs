//! Batches in which something is not what it should be: an item is refused by itself, the whole as a whole.

use serde_json::{Value, json};

use super::http::Request;
use super::rig::on_every_store;
use super::talk::{NOTHING, base64, text};

/// A message that cannot be read as one is refused by itself, however wrong it is, and says which field.
/// Holds: RULE-13.
#[test]
fn a_message_that_is_none_does_not_keep_the_others_of_its_batch_out() {
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
            (with("payload_b64", json!(7)), "payload_b64 has a wrong type: expected a text in base64"),
            (with("idem_key", json!(7)), "idem_key has a wrong type: expected a string"),
            (with("topic", Value::Null), "topic has a wrong type: expected a string"),
            (with("attrs", json!(["a"])), "attrs has a wrong type: expected an object"),
            (with("secret", json!(1)), "a field has an unknown name: known are `topic`"),
            (json!({"topic": "t", "idem_key": "wrong"}), "payload_b64 is missing"),
            (json!("secret"), "the item has a wrong type: expected an object"),
            (json!([]), "the item has a wrong type: expected an object"),
            (Value::Null, "the item has a wrong type: expected an object"),
        ];
        let mut messages = vec![message("first")];
        for (place, (wrong, _)) in wrong.iter().enumerate() {
            messages.extend([wrong.clone(), message(&place.to_string())]);
        }
        let answer = server.post("/v1/send/batch", &json!({"messages": messages})).ok();
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), messages.len());
        for (place, (_, says)) in wrong.iter().enumerate() {
            let (refused, taken) = (&results[2 * place + 1], &results[2 * place + 2]);
            assert_eq!((&refused["ok"], text(refused, "code")), (&json!(false), "E_SCHEMA"), "{refused}");
            let said = text(refused, "message");
            assert!(said.starts_with(says) && !said.contains("secret"), "{said}");
            assert_eq!((&taken["ok"], &taken["duplicate"]), (&json!(true), &json!(false)), "{taken}");
        }
        assert_eq!(server.recv("t").len(), 1 + wrong.len(), "all that are right");
        let rejected = server.metric(r#"rejected_total{reason="schema"}"#);
        assert_eq!(rejected, Some(wrong.len().to_string()));
    });
}

/// What is wrong with the whole is told of the whole, and nothing is taken in.
/// Holds: RULE-13.
#[test]
fn a_batch_that_is_none_is_refused_as_a_whole() {
    on_every_store(&[], |server| {
        let call = |path: &str, body: String| {
            let request = Request::new("POST", path).header("content-type", "application/json");
            server.call(&request.body(body)).refused(400, "E_SCHEMA")
        };
        let good = r#"{"topic":"t","idem_key":"k","payload_b64":""}"#;
        for (body, says) in [
            (format!(r#"{{"messages":[{good},{{]}}"#), "the body is not JSON"),
            (format!(r#"{{"messages":[{good}"#), "the JSON ends too early"),
            (format!(r#"{{"messages":[{good}]}} x"#), "the body is not JSON"),
            (String::new(), "the JSON ends too early"),
            ("{}".to_owned(), "messages is missing"),
            ("[]".to_owned(), "the request has a wrong type: expected an object"),
            (r#"{"messages":7}"#.to_owned(), "messages has a wrong type: expected a list"),
            (format!(r#"{{"messages":{good}}}"#), "messages has a wrong type: expected a list"),
            (r#"{"messages":null}"#.to_owned(), "messages has a wrong type: expected a list"),
            (
                format!(r#"{{"messages":[{good}],"secret":1}}"#),
                "a field has an unknown name: known are `messages`",
            ),
            (format!(r#"{{"messages":[{good}],"messages":[]}}"#), "messages is there more than once"),
            (format!(r#"{{"messages":[{}7]}}"#, "7,".repeat(1_000)), "the batch has more than 1000 messages"),
            (
                format!(r#"{{"messages":[{}7]}}"#, "7,".repeat(200_000)),
                "the batch has more than 1000 messages",
            ),
        ] {
            let said = call("/v1/send/batch", body);
            assert!(said.starts_with(says) && !said.contains("secret"), "{said}");
        }
        for (path, rest) in [("/v1/settle", ""), ("/v1/work", r#","recv":{"topic":"t"}"#)] {
            for (list, says) in [
                ("7".to_owned(), "settle has a wrong type: expected a list"),
                (format!("[{}7]", "7,".repeat(1_000)), "there are more than 1000 deliveries"),
                ("[".to_owned(), "the body is not JSON"),
            ] {
                let said = call(path, format!(r#"{{"settle":{list}{rest}}}"#));
                assert!(said.starts_with(says), "{path}: {said}");
            }
            let said = call(path, format!(r#"{{"settle":[]{rest},"secret":1}}"#));
            assert!(said.starts_with("a field has an unknown name: known are `settle`"), "{path}: {said}");
        }
        assert!(call("/v1/settle", "{}".to_owned()).starts_with("settle is missing"));
        assert!(call("/v1/work", r#"{"settle":[7]}"#.to_owned()).starts_with("recv is missing"));
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Holds: RULE-13, RULE-17.
#[test]
fn a_settlement_that_is_none_does_not_keep_the_others_out() {
    on_every_store(&[], |server| {
        let recv = json!({"topic": "t", "max_messages": 1});
        for path in ["/v1/settle", "/v1/work"] {
            server.sent("t", path);
            let receipt = text(&server.recv_one("t"), "receipt").to_owned();
            let wrong = [
                (json!({"op": "drop", "delivery": receipt}), "op has a wrong value: expected one of `ack`"),
                (json!({"op": "ack", "delivery": 7}), "delivery has a wrong type: expected a string"),
                (json!({"op": "ack"}), "delivery is missing"),
                (json!({"op": "ack", "delivery": receipt, "secret": 1}), "a field has an unknown name"),
                (
                    json!({"op": "extend", "delivery": receipt, "visibility_ms": "1s"}),
                    "visibility_ms has a wrong",
                ),
                (json!(7), "the item has a wrong type: expected an object"),
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
            assert_eq!(server.counts("t")["in_flight"], 0, "{path}: the right one was settled");
        }
    });
}

/// A round of work whose `recv` is refused carries nothing out: no lease is extended, nothing is settled.
/// Holds: RULE-13.
#[test]
fn a_round_that_is_refused_changes_nothing() {
    on_every_store(&[], |server| {
        server.sent("t", "extended");
        server.sent("t", "settled");
        let held = server.recv_as(&json!({"topic": "t", "visibility_ms": 30_000, "worker": "me"}));
        let receipts: Vec<_> = held.iter().map(|message| text(message, "receipt")).collect();
        let leases = || {
            let ids = held.iter().map(|message| text(message, "msg_id"));
            ids.map(|id| server.get(&format!("/v1/messages/{id}")).ok()["lease"].clone()).collect::<Vec<_>>()
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
        assert_ne!(leases(), before, "now it counts");
    });
}
