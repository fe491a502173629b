//! The refusals that the description lists: each can be provoked, on each route that lists it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::http::{Answer, Connection, Request};
use super::super::rig::{Server, Store, on_own_stores};
use super::super::talk::text;

/// The form of an id, and no message has it.
const NO_ID: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
/// Listed and not provoked here. 503 needs a store that is out of reach: `outside::stopping` and the tests of PostgreSQL have one. 422 of
/// `recv` needs a store whose data was changed: `outside::tampering` does that.
const ELSEWHERE: [(&str, u16); 2] = [("*", 503), ("/v1/recv", 422)];
/// A body of this size takes room, and nothing of it is sent.
const LARGE: usize = 100_000;
const BODIES_BYTES_MAX: usize = 16 * 1024 * 1024;

struct Route {
    method: String,
    path: String,
    /// The statuses of its refusals, with the codes that the description names.
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
                // What is answered by a body of its own is no refusal.
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

    /// A head without its end, to a route that names nothing that is there.
    fn head(&self, host: &str) -> String {
        let path = self.path.replace("{delivery}", NO_ID).replace("{msg_id}", NO_ID).replace("{key}", "none");
        let query = if path.ends_with("by-key") { "?source=t&id=none" } else { "" };
        format!("{} {path}{query} HTTP/1.1\r\nhost: {host}\r\n", self.method)
    }

    fn ask(&self, server: &Server, lines: &str) -> Answer {
        ask(server, &format!("{}{lines}\r\n", self.head("localhost")))
    }

    /// Provokes a refusal with this status.
    fn provoke(&self, status: u16, servers: &Servers) -> Answer {
        const JSON: &str = "content-type: application/json\r\n";
        let usual = &servers.usual;
        match status {
            400 => self.ask(usual, "x-corr-id: nonsense\r\n"),
            403 => ask(usual, &format!("{}\r\n", self.head("example.com"))),
            404 if self.path.starts_with("/v1/inbox/") => self.ask(&servers.forgetful, ""),
            404 if self.path.starts_with("/v1/extend/") => {
                self.ask(usual, &with_body(JSON, r#"{"visibility_ms":1000}"#))
            }
            404 if self.path.ends_with("/redrive") || self.path.ends_with("/reprocess") => {
                usual.post(&self.path, &json!({"ids": [NO_ID]}))
            }
            404 => self.ask(usual, ""),
            408 => self.ask(&servers.hurried, &format!("{JSON}content-length: 10\r\n")),
            409 if self.path == "/v1/send" => {
                usual.send("taken", "key", "one");
                usual.send("taken", "key", "other")
            }
            409 => {
                let path = self.path.replace("{delivery}", &delivered_twice(usual, &self.path));
                usual.post(&path, &if path.contains("extend") { json!({"visibility_ms": 1000}) } else { Value::Null })
            }
            413 => self.ask(usual, &format!("{JSON}expect: 100-continue\r\ncontent-length: 1000000000\r\n")),
            415 => self.ask(usual, &with_body("content-type: text/plain\r\n", "{}")),
            422 => usual.post(
                "/v1/send",
                &json!({"topic": "t", "idem_key": "k", "payload_b64": "", "payload_hash": format!("b3:{}", "0".repeat(64))}),
            ),
            429 => self.ask(
                &servers.crowded,
                &format!("{JSON}expect: 100-continue\r\ncontent-length: {LARGE}\r\n"),
            ),
            501 => self.ask(usual, "transfer-encoding: gzip, chunked\r\n"),
            _ => panic!("{} {} lists {status}, and nothing here provokes it", self.method, self.path),
        }
    }
}

fn with_body(lines: &str, body: &str) -> String {
    // The blank line that ends the head comes behind what is given: it is a part of the body here.
    format!("{lines}content-length: {}\r\n\r\n{body}", body.len() + 2)
}

fn ask(server: &Server, request: &str) -> Answer {
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

/// Servers whose settings lead to refusals.
struct Servers {
    usual: Server,
    /// Bodies must come at once.
    hurried: Server,
    /// An unknown key of the ledger is not found.
    forgetful: Server,
    /// Another request takes almost all of the memory for bodies.
    crowded: Server,
    _taking: Connection,
}

impl Servers {
    fn start() -> Self {
        let quick = ["mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=2ms"];
        let start = |set: &[&str]| Server::start(Store::Memory, set);
        let bodies = format!("http.bodies_bytes_max={BODIES_BYTES_MAX}B");
        let crowded = start(&[
            &bodies,
            &bodies.replace("bodies", "batch"),
            "http.body_timeout=10m",
            "http.header_timeout=10m",
        ]);
        let mut taking = crowded.connect();
        let length = BODIES_BYTES_MAX - LARGE / 2;
        taking.write(
            format!(
                "POST /v1/send/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 expect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
            )
            .as_bytes(),
        );
        // The server asks for a body when it has the memory for it.
        let asked = taking.head().expect("an answer");
        assert!(asked.starts_with("HTTP/1.1 100"), "{asked}");
        Self {
            usual: start(&quick),
            hurried: start(&["http.body_timeout=50ms"]),
            forgetful: start(&["ledger.unknown_key=not-found"]),
            crowded,
            _taking: taking,
        }
    }
}

/// Holds: MBX-C-10.
#[test]
fn every_refusal_that_a_route_lists_can_be_given() {
    let servers = Servers::start();
    let routes = Route::all(&servers.usual);
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
fn only_a_route_that_takes_a_body_lists_refusals_of_bodies() {
    on_own_stores(&[], |server| {
        for route in Route::all(&server) {
            let of_bodies = [408, 413, 415, 429].map(|status| route.refusals.contains_key(&status));
            assert_eq!(of_bodies, [route.takes_a_body(); 4], "{} {}", route.method, route.path);
            assert!(!route.refusals.contains_key(&405), "who calls a route has its method");
            assert!(!route.refusals.contains_key(&401), "nothing asks who calls");
            let settles = ["/v1/ack/{delivery}", "/v1/nack/{delivery}", "/v1/extend/{delivery}"];
            let conflicts = settles.contains(&&*route.path) || route.path == "/v1/send";
            assert_eq!(route.refusals.contains_key(&409), conflicts, "{}", route.path);
        }
    });
}

/// The description is right for the address that it came from: it has the routes that are there, and a URL that leads to them.
#[test]
fn the_description_is_that_of_its_address() {
    on_own_stores(&[], |server| {
        let main = server.get("/openapi.json").ok();
        assert_eq!(main["servers"], json!([{"url": "/"}]));
        assert!(main["paths"]["/v1/send"].is_object() && main["paths"]["/v1/stats"].is_object());
        let mut operators = Connection::tcp(&server.admin_address());
        let admin = operators.call(&Request::get("/openapi.json")).ok();
        assert_eq!(admin["servers"], json!([{"url": "/"}]));
        assert!(admin["paths"]["/v1/send"].is_null() && admin["paths"]["/v1/stats"].is_object());
    });
}

/// What has the form that the description gives is not refused for its form.
#[test]
fn receipts_and_whole_numbers_are_taken_in_every_form_that_is_described() {
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
            assert!(message.starts_with("max_bytes has a wrong") && !message.contains(number), "{message}");
        }
    });
}
