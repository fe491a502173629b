//! Ambiguous JSON and unexpected encodings of the body.

use serde_json::json;

use super::super::http::Request;
use super::super::mailbox_client::{NOTHING, text, texts};
use super::super::rig::{Server, on_own_stores};
use super::{call, refused, wire};

const ID: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";

/// Asserts that a JSON body is refused; returns the message.
#[track_caller]
fn json_refused(server: &Server, path: &str, body: &str) -> String {
    let headers = ["host: localhost", "content-type: application/json"];
    refused(server, &wire(&format!("POST {path}"), &headers, body), 400, "E_SCHEMA")
}

/// Holds: MBX-G-4.
#[test]
fn arrays_are_not_accepted_as_objects() {
    on_own_stores(&[], |server| {
        let send = r#"["t","k","",null,{},null,null,null]"#;
        let recv = r#"["t",null,null,null,null,null]"#;
        let settle = format!(r#"["ack","{ID}",null,null]"#);
        for (path, body) in [
            ("/v1/send", send.to_owned()),
            ("/v1/queues/mailbox/send", "[[]]".to_owned()),
            ("/v1/recv", recv.to_owned()),
            ("/v1/recv/stream", recv.to_owned()),
            ("/v1/work", r#"[[],{"topic":"t"}]"#.to_owned()),
            ("/v1/work", format!(r#"{{"recv":{recv}}}"#)),
            ("/v1/settle", "[[]]".to_owned()),
            (&format!("/v1/ack/{ID}"), "[]".to_owned()),
            (&format!("/v1/nack/{ID}"), r#"["reason"]"#.to_owned()),
            (&format!("/v1/extend/{ID}"), "[250]".to_owned()),
            ("/v1/dlq/reprocess", "[[],null,null,null,true]".to_owned()),
            ("/v1/admin/messages/redrive", "[null,[],null,null,null,null,null,true,false,null]".to_owned()),
            ("/v1/admin/messages/purge", "[null,[],null,null,null,null,null,true,false,null]".to_owned()),
            ("/v1/inbox/try-begin", r#"["k",null,null]"#.to_owned()),
            ("/v1/inbox/mark-processed", r#"["k",null]"#.to_owned()),
            ("/v1/inbox/release", r#"["k","l"]"#.to_owned()),
        ] {
            let said = json_refused(&server, path, &body);
            assert!(said.contains("has the wrong type: expected an object"), "{path}: {said}");
        }
        // Items of a batch are refused individually.
        for (path, body) in [
            ("/v1/queues/mailbox/send", format!(r#"{{"messages":[{send}]}}"#)),
            ("/v1/settle", format!(r#"{{"settle":[{settle}]}}"#)),
            ("/v1/work", format!(r#"{{"settle":[{settle}],"recv":{{"topic":"t"}}}}"#)),
        ] {
            let request = Request::new("POST", path).header("content-type", "application/json").body(body);
            let result = &server.call(&request).ok()["results"][0];
            assert_eq!((&result["ok"], text(result, "code")), (&json!(false), "E_SCHEMA"), "{path}");
            assert_eq!(text(result, "message"), "the item has the wrong type: expected an object", "{path}");
        }
        assert_eq!(server.recv("t"), NOTHING);
        assert_eq!(server.get("/v1/inbox/k").ok()["status"], "Unknown");
    });
}

/// Holds: MBX-G-4, RULE-16.
#[test]
fn duplicate_field_names_are_refused() {
    on_own_stores(&[], |server| {
        let said = |path: &str, body: &str| json_refused(&server, path, body);
        for (body, name) in [
            (r#"{"topic":"t","topic":"t","idem_key":"k","payload_b64":""}"#, "topic"),
            (r#"{"topic":"t","idem_key":"k","idem_key":"l","payload_b64":""}"#, "idem_key"),
            (r#"{"topic":"t","idem_key":"k","idem_\u006bey":"l","payload_b64":""}"#, "idem_key"),
            (r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{"secret":"1","secret":"2"}}"#, "attrs"),
            (r#"{"topic":"t","idem_key":"k","payload_b64":"","attrs":{},"attrs":{}}"#, "attrs"),
        ] {
            let said = said("/v1/send", body);
            assert!(said.starts_with(name) && said.contains("more than once"), "{body}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
        said("/v1/queues/mailbox/send", r#"{"messages":[],"messages":[]}"#);
        said("/v1/recv", r#"{"topic":"t","max_messages":1,"max_messages":2}"#);
        said("/v1/work", r#"{"recv":{"topic":"t","topic":"u"}}"#);
        said("/v1/work", r#"{"recv":{"topic":"t"},"recv":{"topic":"t"}}"#);
        said("/v1/settle", r#"{"settle":[],"settle":[]}"#);
        said(&format!("/v1/nack/{ID}"), r#"{"reason":"a","reason":"b"}"#);
        said("/v1/admin/messages/purge", r#"{"dry_run":true,"dry_run":false,"confirm":true}"#);
        // The ledger ignores case and unknown names, but still refuses duplicates.
        for body in [
            r#"{"key":"k","key":"l"}"#,
            r#"{"key":"k","KEY":"l"}"#,
            r#"{"Key":"k","owner":"o","keY":"k"}"#,
            r#"{"key":"k","leaseId":"a","leaseid":"b"}"#,
            r#"{"key":"k","leaseSeconds":30,"LeaseSeconds":60}"#,
            r#"{"key":"k","extra":1,"Extra":1}"#,
        ] {
            for path in ["/v1/inbox/try-begin", "/v1/inbox/mark-processed", "/v1/inbox/release"] {
                let said = said(path, body);
                assert!(said.contains("more than once"), "{path} {body}: {said}");
            }
        }
        assert_eq!(server.recv("t"), NOTHING);
        assert_eq!(server.get("/v1/inbox/k").ok()["status"], "Unknown");
    });
}

/// Holds: MBX-G-4.
#[test]
fn an_enum_value_is_a_string() {
    on_own_stores(&[], |server| {
        json_refused(&server, "/v1/admin/messages/purge", r#"{"state":{"dead":null},"dry_run":true}"#);
        let item = json!({"settle": [{"op": {"ack": null}, "delivery": ID}]});
        let result = &server.post("/v1/settle", &item).ok()["results"][0];
        assert_eq!(text(result, "code"), "E_SCHEMA", "{result}");
        assert_eq!(text(result, "message"), "op has the wrong type: expected a string");
    });
}

/// Holds: MBX-G-4.
#[test]
fn a_compressed_body_is_refused() {
    on_own_stores(&[], |server| {
        let json = "content-type: application/json";
        let bytes = ["content-type: application/octet-stream", "x-topic: t", "x-idem-key: k"];
        let body = r#"{"topic":"t","idem_key":"k","payload_b64":""}"#;
        for coding in ["gzip", "GZIP", "deflate", "br", "identity, gzip", "x", ""] {
            let coding = format!("content-encoding: {coding}");
            let (json, bytes) =
                (["host: localhost", json, &coding], [&["host: localhost", &coding], &bytes[..]]);
            let said = refused(&server, &wire("POST /v1/send", &bytes.concat(), "\x1f"), 415, "E_SCHEMA");
            assert!(said.contains("without `content-encoding`"), "{said}");
            for (path, body) in [
                ("/v1/send", body),
                ("/v1/queues/mailbox/send", r#"{"messages":[]}"#),
                ("/v1/recv", r#"{"topic":"t"}"#),
                ("/v1/settle", r#"{"settle":[]}"#),
                ("/v1/inbox/try-begin", r#"{"key":"k"}"#),
                ("/v1/admin/messages/redrive", r#"{"dry_run":true}"#),
                (&format!("/v1/nack/{ID}"), "{}"),
            ] {
                refused(&server, &wire(&format!("POST {path}"), &json, body), 415, "E_SCHEMA");
            }
        }
        let two = ["host: localhost", json, "content-encoding: identity", "content-encoding: gzip"];
        refused(&server, &wire("POST /v1/send", &two, body), 415, "E_SCHEMA");
        let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for coding in ["gzip, chunked", "identity, chunked", "chunked, chunked"] {
            let headers = ["host: localhost", json, &format!("transfer-encoding: {coding}")];
            let request = [wire("POST /v1/send", &headers, ""), chunked.clone().into_bytes()].concat();
            refused(&server, &request, 501, "E_UNSUPPORTED");
        }
        assert_eq!(server.recv("t"), NOTHING);
        let identity = ["host: localhost", json, "content-encoding: Identity"];
        assert_eq!(call(&server, &wire("POST /v1/send", &identity, body)).ok()["duplicate"], false);
    });
}

/// Holds: RULE-21, RULE-17.
#[test]
fn the_body_of_a_settlement_is_json_or_empty() {
    on_own_stores(&[], |server| {
        let id = server.sent("t", "k");
        assert_eq!(texts(&server.recv("t"), "msg_id"), [id.as_str()]);
        for path in ["ack", "nack", "extend"].map(|op| format!("/v1/{op}/{id}")) {
            for kind in ["text/plain", "application/x-www-form-urlencoded", "application/octet-stream"] {
                let headers = ["host: localhost", &format!("content-type: {kind}")];
                let body = r#"{"visibility_ms":250}"#;
                refused(&server, &wire(&format!("POST {path}"), &headers, body), 415, "E_SCHEMA");
            }
            let untyped = wire(&format!("POST {path}"), &["host: localhost"], "{}");
            refused(&server, &untyped, 415, "E_SCHEMA");
            json_refused(&server, &path, r#"{"secret":1}"#);
            json_refused(&server, &path, "7");
        }
        assert_eq!(server.counts("t")["in_flight"], 1, "nothing was settled");
        for body in ["", "null", "{}"] {
            let headers = ["host: localhost", "content-type: application/json"];
            let ack = wire(&format!("POST /v1/ack/{id}"), &headers, body);
            assert_eq!(call(&server, &ack).ok(), json!({"ok": true}), "{body}");
        }
        let bare = wire(&format!("POST /v1/ack/{id}"), &["host: localhost"], "");
        assert_eq!(call(&server, &bare).ok(), json!({"ok": true}), "an empty body needs no content type");
    });
}
