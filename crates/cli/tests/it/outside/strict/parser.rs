//! Invalid HTTP: errors of the HTTP parser have the same format as other errors.

use std::fmt::Write as _;

use super::super::http::Request;
use super::super::rig::on_own_stores;
use super::{call, refused, wire};

/// Holds: MBX-C-10, MBX-P-8.
#[test]
fn an_invalid_head_is_refused_like_any_other_request() {
    on_own_stores(&[], |server| {
        let host = "host: localhost";
        for (line, headers) in [
            ("nonsense", &[host][..]),
            ("G@T /healthz", &[host]),
            ("GET /hea lthz", &[host]),
            ("GET /\x01", &[host]),
            ("GET /healthz HTTP/1.1", &[host]),
            ("GET /healthz", &[host, "x y: z"]),
            ("GET /healthz", &[host, ": x"]),
            ("GET /healthz", &[host, "x: \x01"]),
            ("GET /healthz", &[host, " folded"]),
            ("POST /v1/send", &[host, "content-length: x"]),
            ("POST /v1/send", &[host, "content-length: -1"]),
            ("POST /v1/send", &[host, "content-length: 1", "content-length: 2"]),
            ("POST /v1/send", &[host, "transfer-encoding: gzip"]),
        ] {
            let said = refused(&server, &wire(line, headers, ""), 400, "E_SCHEMA");
            assert!(said.contains("not valid HTTP/1.1"), "{line}: {said}");
        }
        for bytes in
            [&b"GET / HTTP/1.2\r\n\r\n"[..], b"GET /\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n"]
        {
            refused(&server, bytes, 400, "E_SCHEMA");
        }
        server.get("/healthz").ok();
    });
}

/// Holds: MBX-C-10, MBX-G-4.
#[test]
fn a_head_that_is_too_large_is_refused_and_the_error_arrives() {
    on_own_stores(&[], |server| {
        let mut large = String::from("GET /healthz HTTP/1.1\r\nhost: localhost\r\n");
        for number in 0..60 {
            let _ = write!(large, "x-{number}: {}\r\n", "x".repeat(4_000));
        }
        let many: Vec<_> = (0..100).map(|number| format!("x-{number}: x")).collect();
        let many: Vec<_> = ["host: localhost"].into_iter().chain(many.iter().map(String::as_str)).collect();
        for bytes in [large.into_bytes(), wire("GET /healthz", &many, ""), vec![b'G'; 100_000]] {
            let said = refused(&server, &bytes, 431, "E_FRAME_TOO_LARGE");
            assert!(said.contains("64 KiB") && said.contains("100 headers"), "{said}");
        }
        // Which of the two limits is reached first depends on how the bytes arrive.
        let long = wire(&format!("GET /healthz?{}", "x".repeat(100_000)), &["host: localhost"], "");
        let answer = call(&server, &long);
        assert!(matches!(answer.status, 414 | 431), "{}", answer.head);
        answer.refused(answer.status, "E_FRAME_TOO_LARGE");
        let fits: Vec<_> = many[..100].to_vec();
        assert_eq!(call(&server, &wire("GET /healthz", &fits, "")).status, 200);
    });
}

/// The same after other requests on the connection; it is closed, and the refusal is counted.
#[test]
fn an_invalid_later_head_is_refused_the_same_way() {
    on_own_stores(&[], |server| {
        let mut connection = server.connect();
        connection.write(&[Request::get("/healthz").to_bytes(), b"nonsense\r\n\r\n".to_vec()].concat());
        connection.answer().ok();
        let refusal = connection.answer();
        refusal.refused(400, "E_SCHEMA");
        assert_eq!(refusal.header("connection"), Some("close"));
        assert_eq!(connection.rest(), b"");
        assert_eq!(server.metric(r#"rejected_total{reason="schema"}"#).as_deref(), Some("1"));
    });
}

/// Holds: MBX-C-10.
#[test]
fn unusual_methods_and_targets_are_refused_in_the_common_format() {
    on_own_stores(&[], |server| {
        for (line, status, code) in [
            ("GET healthz", 400, "E_SCHEMA"),
            ("OPTIONS *", 404, "E_NOT_FOUND"),
            ("TRACE /healthz", 405, "E_METHOD"),
            ("BREW /v1/send", 405, "E_METHOD"),
            ("CONNECT localhost:80", 404, "E_NOT_FOUND"),
            ("GET /v1/inbox/", 404, "E_NOT_FOUND"),
            ("GET //healthz", 404, "E_NOT_FOUND"),
            ("GET /healthz/%2e%2e", 404, "E_NOT_FOUND"),
        ] {
            refused(&server, &wire(line, &["host: localhost"], ""), status, code);
        }
    });
}

/// The newline is for terminals, `nosniff` for browsers.
#[test]
fn every_response_ends_with_a_newline_and_has_nosniff() {
    on_own_stores(&[], |server| {
        let id = server.sent("t", "k");
        for path in [
            "/healthz",
            "/readyz",
            "/health/live",
            "/health/ready",
            "/v1/admin/stats",
            "/metrics",
            "/openapi.json",
            "/docs",
            "/v1/admin/messages",
            &format!("/v1/admin/messages/{id}"),
            "/v1/admin/counts",
            "/v1/dlq",
            "/v1/inbox/k",
            "/nowhere",
        ] {
            let answer = server.get(path);
            assert!(answer.text().ends_with('\n'), "{path}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        }
        let post = |path: &str, body: &str| {
            let request = Request::new("POST", path).header("content-type", "application/json");
            let answer = server.call(&request.body(body));
            assert!(answer.status == 200 && answer.text().ends_with("}\n"), "{path}: {}", answer.text());
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        };
        post("/v1/send", r#"{"topic":"t","idem_key":"2","payload_b64":""}"#);
        post("/v1/queues/mailbox/send", r#"{"messages":[]}"#);
        post("/v1/recv", r#"{"topic":"t"}"#);
        post("/v1/recv", r#"{"topic":"u"}"#);
        post("/v1/work", r#"{"recv":{"topic":"t"}}"#);
        post("/v1/settle", r#"{"settle":[]}"#);
        post(&format!("/v1/ack/{id}"), "");
        post("/v1/dlq/reprocess", r#"{"dry_run":true}"#);
        post("/v1/inbox/try-begin", r#"{"key":"k"}"#);
        let problem = Request::get("/nowhere").header("accept", "application/problem+json");
        assert!(server.call(&problem).text().ends_with("}\n"));
    });
}
