//! Percent-encoding in URLs and in our own headers.

use serde_json::json;

use super::super::http::Request;
use super::super::mailbox_client::{NOTHING, text};
use super::super::rig::{Server, on_own_stores};
use super::{refused, wire};

/// Holds: MBX-G-4, LDG-08.
#[test]
fn a_url_is_percent_encoded_utf_8() {
    on_own_stores(&[], |server| {
        for target in [
            "/v1/admin/counts?topic=%FF",
            "/v1/admin/counts?topic=%zz",
            "/v1/admin/counts?topic=%4",
            "/v1/admin/counts?topic=%",
            "/v1/admin/counts?%FF=1",
            "/v1/admin/messages?topic=a%C3",
            "/v1/admin/messages/by-key?source=%ff&id=k",
            "/v1/admin/messages/by-key?namespace=ledger&id=%C3%28",
            "/v1/dlq?topic=%zz",
            "/v1/inbox/%FF",
            "/v1/inbox/%zz",
            "/v1/inbox/a%4",
            "/v1/inbox/%C3/%BC",
            "/v1/admin/messages/%FF",
            "/v1/dlq/%zz",
            "/readyz?for=%zz",
            "/healthz?%zz",
            "/%zz",
        ] {
            let said =
                refused(&server, &wire(&format!("GET {target}"), &["host: localhost"], ""), 400, "E_SCHEMA");
            assert!(said.contains("percent-encoded UTF-8"), "{target}: {said}");
        }
        for target in ["/v1/ack/%zz", "/v1/nack/%FF", "/v1/extend/%4", "/v1/recv?%zz"] {
            refused(&server, &wire(&format!("POST {target}"), &["host: localhost"], ""), 400, "E_SCHEMA");
        }
        server.post("/v1/inbox/mark-processed", &json!({"key": "a/%zz ü"})).ok();
        assert_eq!(server.get("/v1/inbox/a%2F%25zz%20%C3%BC").ok()["status"], "Processed");
    });
}

/// Errors about query parameters name the parameter and do not repeat its value.
#[test]
fn an_invalid_query_parameter_is_named() {
    on_own_stores(&[], |server| {
        for (target, says) in [
            ("/v1/admin/messages?limit=secret", "limit has an invalid value: expected a whole number"),
            ("/v1/admin/messages?limit=0", "limit must be from 1 to 1000"),
            ("/v1/admin/messages?limit=1001", "limit must be from 1 to 1000"),
            ("/v1/admin/messages?limit=99999999999", "limit has an invalid value: the number is too large"),
            ("/v1/admin/messages?after=secret", "after is not valid"),
            ("/v1/admin/messages?state=secret", "state has an invalid value: expected one of `seen`"),
            ("/v1/admin/messages?topic=a&topic=b", "topic occurs more than once"),
            ("/v1/admin/messages?secret=1", "unknown field: known fields are `namespace`"),
            ("/v1/admin/messages/by-key?source=t", "id is missing"),
            (
                "/v1/dlq/7ZZZZZZZZZZZZZZZZZZZZZZZZZ?payload=secret",
                "payload has an invalid value: expected `true`",
            ),
            ("/v1/admin/counts?topic=", "topic is empty"),
            ("/readyz?for=secret", "for has an invalid value: expected `reads` or `writes`"),
        ] {
            let said =
                refused(&server, &wire(&format!("GET {target}"), &["host: localhost"], ""), 400, "E_SCHEMA");
            assert!(said.starts_with(says) && !said.contains("secret"), "{target}: {said}");
        }
    });
}

fn send(headers: &[&str]) -> Vec<u8> {
    let all = [&["host: localhost", "content-type: application/octet-stream"], headers].concat();
    wire("POST /v1/send", &all, "payload")
}

/// Holds: MBX-G-4.
#[test]
fn our_own_headers_occur_once_and_are_percent_encoded_utf_8() {
    on_own_stores(&[], |server| {
        let (topic, key) = ("x-topic: t", "x-idem-key: k");
        for name in ["x-topic", "x-idem-key", "x-partition", "x-shard-key", "x-payload-hash", "x-attrs"] {
            let others: Vec<_> = [topic, key].into_iter().filter(|line| !line.starts_with(name)).collect();
            for value in ["%zz", "%4", "a%", "%FF", "%C3", "\u{fc}"] {
                let line = format!("{name}: {}{value}", if name == "x-attrs" { "a=" } else { "" });
                let said = refused(&server, &send(&[&others[..], &[&line]].concat()), 400, "E_SCHEMA");
                assert!(said.contains(name) && said.contains("percent-encoded UTF-8"), "{line}: {said}");
            }
            let line = format!("{name}: a=1");
            let twice = [&others[..], &[&line, &line]].concat();
            let said = refused(&server, &send(&twice), 400, "E_SCHEMA");
            assert_eq!(said, format!("the header `{name}` occurs more than once: send it once"));
        }
        for attrs in ["secret=1&secret=1", "secret=1&b=2&%73ecret=2"] {
            let said = refused(&server, &send(&[topic, key, &format!("x-attrs: {attrs}")]), 400, "E_SCHEMA");
            assert_eq!(said, "x-attrs contains a name more than once: send each name once");
        }
        for name in ["x-corr-id", "x-idempotency-mode", "x-actor", "content-type"] {
            let value = if name == "x-corr-id" { "01890a5d-ac96-774b-bcce-b302099a8057" } else { "200-flag" };
            let line = format!("{name}: {value}");
            let said = refused(&server, &send(&[topic, key, &line, &line]), 400, "E_SCHEMA");
            assert!(said.contains(name) && said.contains("more than once"), "{said}");
        }
        assert_eq!(server.recv("t"), NOTHING);
        let whole = send(&["x-topic: %74", "x-idem-key: 100%25%20%C3%BC", "x-attrs: a=%26&A=1"]);
        assert_eq!(super::call(&server, &whole).ok()["duplicate"], false);
        let message = server.recv_one("t");
        assert_eq!(text(&message, "idem_key"), "100% ü");
        assert_eq!(message["attrs"], json!({"a": "&", "A": "1"}));
    });
}

/// Errors use the field names of the request, also where the library has other names.
#[test]
fn an_invalid_field_is_named_as_in_the_request() {
    on_own_stores(&[], |server| {
        let long = "k".repeat(1_025);
        let message = |name: &str, value: serde_json::Value| {
            let mut message = json!({"topic": "t", "idem_key": "k", "payload_b64": ""});
            message[name] = value;
            message
        };
        for (name, value, says) in [
            ("topic", json!(""), "topic is empty"),
            ("idem_key", json!(""), "idem_key is empty"),
            ("idem_key", json!("a\0"), "idem_key contains a NUL"),
            ("idem_key", json!(long), "idem_key is 1025 bytes long, the limit is 1024"),
            ("idem_key", json!(7), "idem_key has the wrong type: expected a string"),
            ("payload_b64", json!("?"), "payload_b64 is not base64"),
            ("payload_hash", json!("md5:1"), "payload_hash is not"),
            ("partition", json!(""), "partition is empty"),
            ("shard_key", json!(""), "shard_key must have"),
            ("corr_id", json!("x"), "corr_id is not a UUID"),
            ("attrs", json!({"": "x"}), "a name in attrs is empty"),
            ("attrs", json!({"secret": "\0"}), "a name or value in attrs contains a NUL"),
            ("attrs", json!({"secret": 1}), "attrs has the wrong type: expected a string"),
            ("attrs", json!({"secret": "x".repeat(16 * 1024)}), "attrs is 16390 bytes long"),
        ] {
            let said = server.post("/v1/send", &message(name, value.clone())).refused(400, "E_SCHEMA");
            assert!(said.starts_with(says) && !said.contains("secret"), "{name}: {said}");
            let batch = json!({"messages": [message(name, value)]});
            let item = &server.post("/v1/queues/mailbox/send", &batch).ok()["results"][0];
            assert!(text(item, "message").starts_with(says), "{name}: {item}");
        }
        for (line, says) in [
            ("x-idem-key: ", "x-idem-key is empty"),
            ("x-partition: ", "x-partition is empty"),
            ("x-payload-hash: md5:1", "x-payload-hash is not"),
        ] {
            let key = if line.starts_with("x-idem-key") { "x-actor: a" } else { "x-idem-key: k" };
            let said = refused(&server, &send(&["x-topic: t", key, line]), 400, "E_SCHEMA");
            assert!(said.starts_with(says), "{line}: {said}");
        }
        check_others(&server, &long);
        assert_eq!(server.recv("t"), NOTHING);
    });
}

fn check_others(server: &Server, long: &str) {
    for (path, body, says) in [
        ("/v1/recv", json!({"topic": "t", "max_messages": 0}), "max_messages must be from 1 to 256"),
        ("/v1/recv", json!({"topic": "t", "max_messages": "1"}), "max_messages has the wrong type"),
        ("/v1/recv", json!({"topic": "t", "visibility_ms": 1}), "visibility_ms is 1"),
        ("/v1/recv/stream", json!({"topic": "t", "max_messages": 0}), "max_messages must be from 1 to 256"),
        (
            "/v1/work",
            json!({"recv": {"topic": "t", "max_messages": 0}}),
            "max_messages must be from 1 to 256",
        ),
        ("/v1/work", json!({"recv": {"topic": 7}}), "recv.topic has the wrong type: expected a string"),
        (
            "/v1/work",
            json!({"settle": 7, "recv": {"topic": "t"}}),
            "settle has the wrong type: expected a list",
        ),
        ("/v1/inbox/try-begin", json!({"key": long}), "key is 1025 bytes long"),
        ("/v1/inbox/try-begin", json!({"key": "a\0"}), "key contains a NUL"),
        ("/v1/inbox/try-begin", json!({"key": "k", "leaseSeconds": "x"}), "leaseSeconds has the wrong type"),
        ("/v1/inbox/release", json!({"key": "k"}), "leaseId is missing"),
        ("/v1/inbox/release", json!({"KEY": 7, "leaseId": "l"}), "key has the wrong type: expected a string"),
        ("/v1/admin/messages/redrive", json!({"limit": "x"}), "limit has the wrong type"),
    ] {
        let said = server.post(path, &body).refused(400, "E_SCHEMA");
        assert!(said.starts_with(says), "{path}: {said}");
    }
    let key = server.call(&Request::get(&format!("/v1/inbox/{long}"))).refused(400, "E_SCHEMA");
    assert!(key.starts_with("key is 1025 bytes long"), "{key}");
}
