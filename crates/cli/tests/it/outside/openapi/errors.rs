//! The errors that the OpenAPI description lists: each can be provoked on each route that lists it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::capabilities::Guarded;
use super::super::http::{Answer, Connection, Request};
use super::super::mailbox_client::text;
use super::super::rig::{Server, Store, on_own_stores};

/// A valid id that no message has.
const NO_ID: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
/// Listed, but not provoked here. 503 needs an unavailable store: see `outside::stopping` and the PostgreSQL tests. 422
/// of `recv` needs changed data: see `outside::tampering`.
const ELSEWHERE: [(&str, u16); 2] = [("*", 503), ("/v1/recv", 422)];
/// Announced size of a body, for which the server reserves memory; nothing of it is sent.
const LARGE: usize = 100_000;
const BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;

struct Route {
    method: String,
    path: String,
    /// The error statuses, with the descriptions that name their codes.
    refusals: BTreeMap<u16, String>,
}

impl Route {
    fn all(server: &Server) -> Vec<Self> {
        let document = server.get("/openapi.json").ok();
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, item)| {
            let item = item.as_object().expect("methods").iter();
            item.map(move |(method, operation)| (path, method, operation))
        });
        let routes = operations.map(|(path, method, operation)| {
            let responses = operation["responses"].as_object().expect("responses").iter();
            let refusals = responses.filter_map(|(status, response)| {
                // A response with its own body is not an error.
                let name = response["$ref"].as_str()?.rsplit('/').next()?;
                let described = text(&document["components"]["responses"][name], "description");
                Some((status.parse().expect("a status"), described.to_owned()))
            });
            Self { method: method.to_uppercase(), path: path.clone(), refusals: refusals.collect() }
        });
        routes.collect()
    }

    fn takes_a_body(&self) -> bool {
        self.method == "POST"
    }

    /// The start of a head, with path parameters that do not exist.
    fn head(&self, host: &str) -> String {
        let path = self.path.replace("{delivery}", NO_ID).replace("{msg_id}", NO_ID).replace("{key}", "none");
        let query = if path.ends_with("by-key") { "?source=t&id=none" } else { "" };
        format!("{} {path}{query} HTTP/1.1\r\nhost: {host}\r\n", self.method)
    }

    fn call(&self, server: &Server, lines: &str) -> Answer {
        call(server, &format!("{}{lines}\r\n", self.head("localhost")))
    }

    /// Provokes an error with this status.
    fn provoke(&self, status: u16, servers: &Servers) -> Answer {
        const JSON: &str = "content-type: application/json\r\n";
        let default = &servers.default;
        match status {
            400 => self.call(default, "x-corr-id: nonsense\r\n"),
            401 => self.call(&servers.guarded.server, ""),
            403 => call(default, &format!("{}\r\n", self.head("example.com"))),
            404 if self.path.starts_with("/v1/inbox/") => self.call(&servers.not_found, ""),
            404 if self.path.starts_with("/v1/extend/") => {
                self.call(default, &with_body(JSON, r#"{"visibility_ms":1000}"#))
            }
            404 if self.path.ends_with("/redrive") || self.path.ends_with("/reprocess") => {
                default.post(&self.path, &json!({"ids": [NO_ID]}))
            }
            404 if self.path.ends_with("/revocations") && self.takes_a_body() => {
                default.post(&self.path, &json!({"target": "key:none"}))
            }
            404 => self.call(default, ""),
            408 => self.call(&servers.impatient, &format!("{JSON}content-length: 10\r\n")),
            409 if self.path == "/v1/send" => {
                default.send("taken", "key", "one");
                default.send("taken", "key", "other")
            }
            409 => {
                let path = self.path.replace("{delivery}", &delivered_twice(default, &self.path));
                default.post(&path, &if path.contains("extend") { json!({"visibility_ms": 1000}) } else { Value::Null })
            }
            413 => self.call(default, &format!("{JSON}expect: 100-continue\r\ncontent-length: 1000000000\r\n")),
            415 => self.call(default, &with_body("content-type: text/plain\r\n", "{}")),
            422 => default.post(
                "/v1/send",
                &json!({"topic": "t", "idem_key": "k", "payload_b64": "", "payload_hash": format!("b3:{}", "0".repeat(64))}),
            ),
            429 => self.call(
                &servers.full,
                &format!("{JSON}expect: 100-continue\r\ncontent-length: {LARGE}\r\n"),
            ),
            501 => self.call(default, "transfer-encoding: gzip, chunked\r\n"),
            _ => panic!("{} {} lists {status}, which this test does not provoke", self.method, self.path),
        }
    }
}

fn with_body(lines: &str, body: &str) -> String {
    // The caller appends the blank line that ends the head; here it is part of the body.
    format!("{lines}content-length: {}\r\n\r\n{body}", body.len() + 2)
}

fn call(server: &Server, request: &str) -> Answer {
    let mut connection = server.connect();
    connection.write(request.as_bytes());
    connection.answer()
}

/// The id of a message that was delivered twice.
fn delivered_twice(server: &Server, idem_key: &str) -> String {
    let id = server.sent("twice", idem_key);
    for _ in 0..2 {
        let delivery = server.eventually(|| server.recv("twice").pop());
        server.nack(text(&delivery, "receipt"), "again").ok();
    }
    server.eventually(|| server.recv("twice").pop());
    id
}

/// Servers with settings that lead to errors.
struct Servers {
    default: Server,
    /// Demands tokens.
    guarded: Guarded,
    /// With a short body timeout.
    impatient: Server,
    /// Answers 404 for an unknown ledger key.
    not_found: Server,
    /// Another request has reserved almost all of the memory for bodies.
    full: Server,
    _reserving: Connection,
}

impl Servers {
    fn start() -> Self {
        let quick = ["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=2ms"];
        let start = |set: &[&str]| Server::start(Store::Memory, set);
        let bodies = format!("http.bodies_bytes_max={BODIES_BYTES_MAX}B");
        let full = start(&[
            &bodies,
            &bodies.replace("bodies", "batch"),
            "http.body_timeout=10m",
            "http.header_timeout=10m",
        ]);
        let mut reserving = full.connect();
        let length = BODIES_BYTES_MAX - LARGE / 2;
        reserving.write(
            format!(
                "POST /v1/queues/mailbox/send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
            )
            .as_bytes(),
        );
        // The server requests a body once it has reserved memory for it.
        let head = reserving.head().expect("an answer");
        assert!(head.starts_with("HTTP/1.1 100"), "{head}");
        Self {
            default: start(&quick),
            guarded: Guarded::start(Store::Memory),
            impatient: start(&["http.body_timeout=50ms"]),
            not_found: start(&["ledger.unknown_key=not-found"]),
            full,
            _reserving: reserving,
        }
    }
}

/// Holds: MBX-C-10.
#[test]
fn every_listed_error_can_be_provoked() {
    let servers = Servers::start();
    let routes = Route::all(&servers.default);
    assert!(routes.len() >= 28, "all routes");
    for route in &routes {
        for (status, described) in &route.refusals {
            if ELSEWHERE.contains(&("*", *status)) || ELSEWHERE.contains(&(&*route.path, *status)) {
                continue;
            }
            let answer = route.provoke(*status, &servers);
            let shown = format!("{} {}: {answer:?}", route.method, route.path);
            assert_eq!(answer.status, *status, "{shown}");
            let code = format!("`{}`", text(&answer.json(), "code"));
            assert!(described.contains(&code), "{code} is not in {described:?}: {shown}");
        }
    }
}

/// Holds: MBX-C-10.
#[test]
fn only_routes_with_a_body_list_errors_about_bodies() {
    on_own_stores(&[], |server| {
        for route in Route::all(&server) {
            let of_bodies = [408, 413, 415, 429].map(|status| route.refusals.contains_key(&status));
            assert_eq!(of_bodies, [route.takes_a_body(); 4], "{} {}", route.method, route.path);
            assert!(!route.refusals.contains_key(&405), "a call of a route has its method");
            let is_health = route.path.contains("health") || route.path == "/readyz";
            assert_eq!(route.refusals.contains_key(&401), !is_health, "{}", route.path);
            let settles = ["/v1/ack/{delivery}", "/v1/nack/{delivery}", "/v1/extend/{delivery}"];
            let conflicts = settles.contains(&&*route.path) || route.path == "/v1/send";
            assert_eq!(route.refusals.contains_key(&409), conflicts, "{}", route.path);
        }
    });
}

/// Each listener serves a description of its own routes, with a URL that leads to them.
#[test]
fn each_listener_describes_its_own_routes() {
    on_own_stores(&[], |server| {
        let main = server.get("/openapi.json").ok();
        assert_eq!(main["servers"], json!([{"url": "/"}]));
        assert!(main["paths"]["/v1/send"].is_object() && main["paths"]["/v1/admin/stats"].is_object());
        let mut operators = Connection::tcp(&server.admin_address());
        let admin = operators.call(&Request::get("/openapi.json")).ok();
        assert_eq!(admin["servers"], json!([{"url": "/"}]));
        assert!(admin["paths"]["/v1/send"].is_null() && admin["paths"]["/v1/admin/stats"].is_object());
    });
}

/// Values that match the description are not refused for their format.
#[test]
fn receipts_and_integers_are_accepted_in_every_described_format() {
    on_own_stores(&[], |server| {
        server.ack(&"0".repeat(80)).refused(404, "E_LEASE_LOST");
        server.nack(&"F".repeat(80), "").refused(404, "E_LEASE_LOST");
        server.ack(&"0".repeat(79)).refused(400, "E_SCHEMA");
        server.sent("t", "k");
        let received = server.post("/v1/recv", &json!({"topic": "t", "max_messages": 1.0, "max_bytes": 1e3}));
        assert_eq!(received.ok()["messages"].as_array().map(Vec::len), Some(1));
        for number in ["1.5", "9223372036854775808", "-1"] {
            let body = format!(r#"{{"topic":"t","max_bytes":{number}}}"#);
            let request = Request::new("POST", "/v1/recv").header("content-type", "application/json");
            let message = server.call(&request.body(body)).refused(400, "E_SCHEMA");
            assert!(message.starts_with("max_bytes has ") && !message.contains(number), "{message}");
        }
    });
}
