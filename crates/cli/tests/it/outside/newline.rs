//! Responses end with a newline, so that a shell prompt starts on its own line.

use serde_json::json;

use super::http::Request;
use super::mailbox_client::{base64, text};
use super::rig::on_own_stores;

#[test]
fn every_response_ends_with_a_newline() {
    on_own_stores(&["mailbox.shards=1"], |server| {
        let message =
            |idem_key: &str| json!({"topic": "t", "idem_key": idem_key, "payload_b64": base64("x")});
        let check = |request: &Request, status: u16| {
            let answer = server.call(request);
            let reply = answer.text();
            assert_eq!(answer.status, status, "{request:?}: {reply}");
            assert!(reply.ends_with('\n'), "{request:?}: {reply:?}");
            reply.to_owned()
        };
        for path in [
            "/healthz",
            "/readyz",
            "/readyz?for=reads",
            "/health/live",
            "/health/ready",
            "/v1/admin/stats",
            "/metrics",
            "/openapi.json",
            "/docs",
            "/v1/dlq",
            "/v1/admin/messages",
            "/v1/admin/counts",
            "/v1/admin/topics",
            "/v1/inbox/k",
        ] {
            check(&Request::get(path), 200);
        }
        check(&Request::post("/v1/send", &message("1")), 200);
        check(&Request::post("/v1/send", &message("1")), 200);
        check(
            &Request::post("/v1/queues/mailbox/send", &json!({"messages": [message("2"), {"topic": 1}]})),
            200,
        );
        let received = check(&Request::post("/v1/recv", &json!({"topic": "t", "max_messages": 1})), 200);
        let received: serde_json::Value = serde_json::from_str(&received).expect("JSON");
        let receipt = text(&received["messages"][0], "receipt");
        check(&Request::post(&format!("/v1/extend/{receipt}"), &json!({"visibility_ms": 60_000})), 200);
        check(&Request::post(&format!("/v1/ack/{receipt}"), &json!({})), 200);
        check(&Request::post(&format!("/v1/nack/{receipt}"), &json!({})), 404);
        check(&Request::post("/v1/settle", &json!({"settle": [{"op": "ack", "delivery": receipt}]})), 200);
        check(&Request::post("/v1/work", &json!({"settle": [], "recv": {"topic": "none"}})), 200);
        check(&Request::post("/v1/recv/stream", &json!({"topic": "t"})), 200);
        check(&Request::post("/v1/dlq/reprocess", &json!({"topic": "t"})), 200);
        check(&Request::post("/v1/admin/messages/purge", &json!({"topic": "t", "dry_run": true})), 200);
        for call in ["try-begin", "mark-processed"] {
            check(&Request::post(&format!("/v1/inbox/{call}"), &json!({"key": "k"})), 200);
        }
        check(&Request::get("/nowhere"), 404);
        check(&Request::get("/nowhere").header("accept", "application/problem+json"), 404);
        check(&Request::new("DELETE", "/v1/admin/stats"), 405);
        check(&Request::post("/v1/send", &json!([])), 400);
        check(&Request::new("POST", "/v1/send").header("content-type", "text/plain").body("x"), 415);
        check(&Request::get("/v1/admin/stats").host(Some("evil.com")), 403);
        check(&Request::get("/v1/admin/messages?limit=0"), 400);
        let mut unparsed = server.connect();
        unparsed.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n");
        let answer = unparsed.answer();
        assert_eq!((answer.status, answer.text().ends_with("}\n")), (400, true), "{}", answer.text());
    });
}
