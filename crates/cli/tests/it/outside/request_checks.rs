//! Checks before a request is handled: host, origin, content type and path; and the format of errors.

use serde_json::json;

use super::http::Request;
use super::mailbox_client::{NOTHING, text};
use super::rig::on_own_stores;

fn send() -> Request {
    Request::post("/v1/send", &json!({"topic": "t", "idem_key": "k", "payload_b64": ""}))
}

/// Web pages in a browser on the same machine can reach the port.
/// Holds: RULE-21.
#[test]
fn foreign_hosts_and_origins_are_refused() {
    on_own_stores(&[], |server| {
        for host in ["example.com", "localhost.example.com", "127.0.0.1.example.com:7420", "10.0.0.1", ""] {
            server.call(&send().host(Some(host))).refused(403, "E_CAP_SCOPE");
        }
        server.call(&send().host(None)).refused(403, "E_CAP_SCOPE");
        for origin in ["https://example.com", "http://localhost", "null"] {
            server.call(&send().header("origin", origin)).refused(403, "E_CAP_SCOPE");
            server.call(&Request::get("/metrics").header("origin", origin)).refused(403, "E_CAP_SCOPE");
        }
        assert_eq!(server.recv("t"), NOTHING);
        for host in ["localhost", "LocalHost:1", "127.0.0.1:7420", "[::1]:7420"] {
            assert_eq!(server.call(&Request::get("/healthz").host(Some(host))).status, 200, "{host}");
        }
    });
}

/// Holds: RULE-21, MBX-G-4.
#[test]
fn bodies_that_a_web_page_could_send_are_refused() {
    on_own_stores(&[], |server| {
        let body = r#"{"topic":"t","idem_key":"k","payload_b64":""}"#;
        let kinds = [
            "application/x-www-form-urlencoded",
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/jsonp",
        ];
        for kind in kinds {
            let request = Request::new("POST", "/v1/send").header("content-type", kind).body(body);
            server.call(&request).refused(415, "E_SCHEMA");
        }
        server.call(&Request::new("POST", "/v1/send").body(body)).refused(415, "E_SCHEMA");
        let id = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
        let form =
            Request::new("POST", &format!("/v1/nack/{id}")).header("content-type", kinds[0]).body("{}");
        server.call(&form).refused(415, "E_SCHEMA");
        assert_eq!(server.recv("t"), NOTHING);
        let utf8 = Request::new("POST", "/v1/send").header("content-type", "Application/JSON; charset=utf-8");
        assert_eq!(server.call(&utf8.body(body)).ok()["duplicate"], false);
    });
}

/// Holds: MBX-P-8.
#[test]
fn a_correlation_id_is_echoed_generated_or_refused_and_kept_with_the_message() {
    on_own_stores(&[], |server| {
        let mine = "0198a1b2-0000-7000-8000-00000000002a";
        let answer = server.call(&send().header("x-corr-id", mine));
        assert_eq!((answer.status, answer.header("x-corr-id")), (200, Some(mine)));
        assert_eq!(text(&server.recv_one("t"), "corr_id"), mine);
        let own = "0198a1b2-0000-7000-8000-00000000002b";
        let one = |key| json!({"topic": "many", "idem_key": key, "payload_b64": ""});
        let mut with_own = one("2");
        with_own["corr_id"] = own.into();
        let batch =
            Request::post("/v1/queues/mailbox/send", &json!({"messages": [one("1"), with_own, one("3")]}));
        server.call(&batch.header("x-corr-id", mine)).ok();
        let ids = [(); 3].map(|()| text(&server.recv_one("many"), "corr_id").to_owned());
        assert_eq!(ids, [mine, own, mine]);
        let (one, two) = (server.get("/healthz"), server.get("/healthz"));
        let generated = one.header("x-corr-id").unwrap();
        assert_eq!((generated.len(), &generated[14..15]), (36, "7"), "a UUID of version 7: {generated}");
        assert_ne!(Some(generated), two.header("x-corr-id"));
        let refused = server.call(&send().header("x-corr-id", "my request"));
        refused.refused(400, "E_SCHEMA");
        assert_ne!(refused.header("x-corr-id"), Some("my request"));
        let body = json!({"topic": "t", "idem_key": "2", "payload_b64": "", "corr_id": "no uuid"});
        server.post("/v1/send", &body).refused(400, "E_SCHEMA");
    });
}

/// Holds: MBX-C-10.
#[test]
fn errors_have_one_format_or_that_of_rfc_9457_on_request() {
    on_own_stores(&[], |server| {
        let plain = server.post("/v1/recv", &json!({}));
        assert_eq!(plain.header("content-type"), Some("application/json"));
        let reply = plain.json();
        let names: Vec<_> = reply.as_object().unwrap().keys().collect();
        assert_eq!(names, ["code", "corr_id", "message"]);
        let asked = Request::post("/v1/recv", &json!({})).header("accept", "application/problem+json");
        let problem = server.call(&asked);
        assert_eq!(problem.header("content-type"), Some("application/problem+json"));
        problem.refused(400, "E_SCHEMA");
        let reply = problem.json();
        assert_eq!(
            (text(&reply, "type"), text(&reply, "title"), &reply["status"]),
            ("about:blank", "E_SCHEMA", &json!(400))
        );
        assert_eq!(reply["detail"], reply["message"]);
    });
}

/// Holds: MBX-C-10.
#[test]
fn unknown_paths_and_methods_are_refused() {
    on_own_stores(&[], |server| {
        for path in ["/", "/v1", "/v1/nothing", "/v1/send/", "/v2/send", "/v1/inbox/a/b"] {
            server.get(path).refused(404, "E_NOT_FOUND");
        }
        let methods =
            [("GET", "/v1/send"), ("PUT", "/v1/send"), ("POST", "/v1/dlq"), ("DELETE", "/v1/admin/messages")];
        for (method, path) in methods {
            let answer = server.call(&Request::new(method, path));
            answer.refused(405, "E_METHOD");
            assert!(answer.header("allow").is_some(), "{method} {path}: {}", answer.head);
        }
        server.get("/v1/dlq/7ZZZZZZZZZZZZZZZZZZZZZZZZZ").refused(404, "E_NOT_FOUND");
        server.get("/v1/admin/messages/7ZZZZZZZZZZZZZZZZZZZZZZZZZ").refused(404, "E_NOT_FOUND");
        server.get("/v1/admin/messages/nonsense").refused(400, "E_SCHEMA");
        assert_eq!(server.get("/openapi.json").ok()["info"]["title"], "Oncebox");
        let docs = server.get("/docs");
        assert!(docs.status == 200 && docs.text().contains("/v1/send"));
    });
}

#[test]
fn invalid_json_and_invalid_messages_are_explained() {
    on_own_stores(&[], |server| {
        let call = |body: &str| {
            let request = Request::new("POST", "/v1/send").header("content-type", "application/json");
            server.call(&request.body(body)).refused(400, "E_SCHEMA")
        };
        assert!(call("").contains("ends unexpectedly"));
        assert!(call("{").contains("ends unexpectedly"));
        assert!(call("{]").contains("not valid JSON"));
        assert!(call(r#"{"topic":"t","idem_key":"k"}"#).contains("payload_b64"));
        assert!(call(r#"{"topic":"t","idem_key":1,"payload_b64":""}"#).contains("string"));
        call(r#"{"topic":"t","idem_key":"k","payload_b64":"not base64!"}"#);
        call(r#"{"topic":"","idem_key":"k","payload_b64":""}"#);
        call(r#"{"topic":"t","idem_key":"","payload_b64":""}"#);
        call(r#"{"topic":"t\u0000","idem_key":"k","payload_b64":""}"#);
        call(r#"{"topic":"t","idem_key":"k","payload_b64":"","payload_hash":"md5:1"}"#);
        call(&format!(r#"{{"topic":"t","idem_key":"{}","payload_b64":""}}"#, "k".repeat(1_025)));
    });
}
