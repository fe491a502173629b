//! The `host`, `origin` and `sec-fetch-site` headers.

use super::super::http::{Connection, Request};
use super::super::mailbox_client::NOTHING;
use super::super::rig::{Server, new_storage, on_own_stores};
use super::{call, refused, wire};

const BODY: &str = r#"{"topic":"t","idem_key":"k","payload_b64":""}"#;

/// Asserts it for a request that reads and one that writes.
#[track_caller]
fn both_refused(server: &Server, target: &str, headers: &[&str], status: u16, code: &str) {
    refused(server, &wire(&format!("GET {target}/healthz"), headers, ""), status, code);
    let json = [headers, &["content-type: application/json"]].concat();
    refused(server, &wire(&format!("POST {target}/v1/send"), &json, BODY), status, code);
}

/// Holds: RULE-21.
#[test]
fn a_host_must_match_exactly() {
    on_own_stores(&[], |server| {
        for host in [
            "localhost:18011.evil.com",
            "127.0.0.1:evil.com",
            "[::1].evil.com",
            "[::1]:evil.com",
            "[::1",
            "::1",
            "localhost:-1",
            "localhost:+1",
            "localhost:0",
            "localhost:65536",
            "localhost:",
            "localhost.evil.com",
            "localhost.",
            "user@localhost",
            "localhost@evil.com",
            "localhost:80@evil.com",
            "localhost, localhost",
            "127.0.0.1.evil.com",
            "0.0.0.0",
            "evil.com",
            "",
        ] {
            both_refused(&server, "", &[&format!("host: {host}")], 403, "E_CAP_SCOPE");
        }
        both_refused(&server, "", &[], 403, "E_CAP_SCOPE");
        assert_eq!(server.recv("t"), NOTHING);
        for host in ["localhost", "LocalHost:65535", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:7420"] {
            let answer = call(&server, &wire("GET /healthz", &[&format!("host: {host}")], ""));
            assert_eq!(answer.status, 200, "{host}");
        }
    });
}

/// Holds: RULE-21.
#[test]
fn a_request_has_exactly_one_host() {
    on_own_stores(&[], |server| {
        let local = "host: localhost:7420";
        both_refused(&server, "", &[local, local], 400, "E_SCHEMA");
        both_refused(&server, "", &[local, "host: evil.com"], 400, "E_SCHEMA");
        both_refused(&server, "", &["Host: evil.com", "HOST: localhost"], 400, "E_SCHEMA");
        for target in [
            "http://evil.com",
            "http://evil.com:7420",
            "http://localhost",
            "http://127.0.0.1:7420",
            "http://localhost:7420.evil.com",
            "http://user@localhost:7420",
            "https://evil.com",
        ] {
            both_refused(&server, target, &[local], 400, "E_SCHEMA");
        }
        both_refused(&server, "http://evil.com", &["host: evil.com"], 403, "E_CAP_SCOPE");
        refused(&server, &wire("CONNECT evil.com:443", &[local], ""), 400, "E_SCHEMA");
        assert_eq!(server.recv("t"), NOTHING);
        let same = wire("GET http://LOCALHOST:7420/healthz", &[local], "");
        assert_eq!(call(&server, &same).status, 200);
    });
}

/// Holds: RULE-21.
#[test]
fn cross_site_browser_requests_are_refused() {
    on_own_stores(&[], |server| {
        let from = |site: &str| format!("sec-fetch-site: {site}");
        for site in ["cross-site", "same-site", "Cross-Site", "", "none, cross-site"] {
            both_refused(&server, "", &["host: localhost", &from(site)], 403, "E_CAP_SCOPE");
        }
        let two = ["host: localhost", &from("none"), &from("cross-site")];
        both_refused(&server, "", &two, 403, "E_CAP_SCOPE");
        both_refused(&server, "", &["host: localhost", "origin: null"], 403, "E_CAP_SCOPE");
        assert_eq!(server.recv("t"), NOTHING);
        for site in ["none", "same-origin"] {
            let answer = call(&server, &wire("GET /docs", &["host: localhost", &from(site)], ""));
            assert_eq!((answer.status, answer.header("x-content-type-options")), (200, Some("nosniff")));
        }
    });
}

/// Browsers cannot reach a socket, so any host is accepted; ambiguous requests are refused there, too.
/// Holds: RULE-21.
#[test]
fn any_single_host_is_accepted_over_a_socket() {
    let storage = new_storage();
    let socket = storage.path().join("socket");
    let listen = format!("unix:{}", socket.display());
    let server = Server::start_with(storage, &["--store", "memory:", "--listen", &listen], &[]);
    server.wait_for_line(&listen);
    let call = |request: &Request| Connection::unix(&socket).call(request);
    assert_eq!(call(&Request::get("/healthz").host(Some("anything"))).status, 200);
    assert_eq!(call(&Request::get("/healthz").host(None)).status, 200);
    call(&Request::get("/healthz").header("host", "localhost")).refused(400, "E_SCHEMA");
    call(&Request::get("http://evil.com/healthz")).refused(400, "E_SCHEMA");
    call(&Request::get("/healthz").header("sec-fetch-site", "cross-site")).refused(403, "E_CAP_SCOPE");
}
