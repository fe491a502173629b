//! Binary requests: the payload is the body, and the other fields are headers.

use serde_json::json;

use super::http::Request;
use super::mailbox_client::{base64, text};
use super::rig::{on_every_store, on_own_stores};

/// Every byte value.
fn payload() -> Vec<u8> {
    (0..=255).collect()
}

fn send() -> Request {
    let send = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
    send.header("x-topic", "%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7%D1%8B").header("x-idem-key", "%E2%84%96%207")
}

fn recv(topic: &str) -> Request {
    let recv = Request::post("/v1/recv", &json!({"topic": topic, "visibility_ms": 60_000}));
    recv.header("accept", "application/octet-stream")
}

/// Holds: MBX-C-1, RULE-18.
#[test]
fn binary_messages_are_sent_and_received() {
    on_every_store(&[], |server| {
        let attrs = "kind=%D1%82%D0%B8%D0%BF&a%26b=c%3Dd";
        let sent =
            server.call(&send().header("x-attrs", attrs).header("x-partition", "p%201").body(payload())).ok();
        let again = server.send("заказы", "№ 7", "");
        again.refused(409, "E_DUPLICATE");
        let shown = server.get(&format!("/v1/admin/messages/{}?payload=true", text(&sent, "msg_id"))).ok();
        assert_eq!((text(&shown, "topic"), text(&shown, "id")), ("заказы", "№ 7"));
        assert_eq!((text(&shown, "partition"), text(&shown, "payload_b64")), ("p 1", &*base64(payload())));
        let answer = server.call(&recv("заказы"));
        assert_eq!((answer.status, &answer.body), (200, &payload()));
        let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{name}: {}", answer.head));
        assert_eq!(header("content-type"), "application/octet-stream");
        assert_eq!(header("x-topic"), "%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7%D1%8B");
        assert_eq!((header("x-idem-key"), header("x-msg-id")), ("%E2%84%96%207", text(&sent, "msg_id")));
        assert_eq!((header("x-attempt"), header("x-payload-hash").len()), ("1", 67));
        let mut attrs: Vec<_> = header("x-attrs").split('&').collect();
        attrs.sort_unstable();
        assert_eq!(attrs, ["a%26b=c%3Dd", "kind=%D1%82%D0%B8%D0%BF"]);
        assert_eq!(server.ack(header("x-receipt")).ok(), json!({"ok": true}));
        let nothing = server.call(&recv("заказы"));
        assert_eq!((nothing.status, &*nothing.body), (204, &b""[..]));
    });
}

/// Holds: MBX-G-4.
#[test]
fn missing_and_invalid_headers_are_refused() {
    on_own_stores(&[], |server| {
        let bare = || Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let reply = server.call(&bare().header("x-idem-key", "k")).refused(400, "E_SCHEMA");
        assert!(reply.contains("x-topic"), "{reply}");
        let reply = server.call(&bare().header("x-topic", "t")).refused(400, "E_SCHEMA");
        assert!(reply.contains("x-idem-key"), "{reply}");
        server.call(&bare().header("x-topic", "%ff").header("x-idem-key", "k")).refused(400, "E_SCHEMA");
        server.call(&send().header("x-attrs", "novalue")).refused(400, "E_SCHEMA");
        let wrong = format!("b3:{}", "0".repeat(64));
        server.call(&send().header("x-payload-hash", &wrong)).refused(422, "E_INTEGRITY");
        server.call(&send().body(vec![0; 1024 * 1024 + 1])).refused(413, "E_FRAME_TOO_LARGE");
        let many = Request::post("/v1/recv", &json!({"topic": "t", "max_messages": 2}));
        server.call(&many.header("accept", "application/octet-stream")).refused(400, "E_SCHEMA");
        let other = Request::new("POST", "/v1/recv").header("content-type", "application/octet-stream");
        server.call(&other.body(r#"{"topic":"t"}"#)).refused(415, "E_SCHEMA");
    });
}
