//! Stopping: nothing more is taken in, everybody who asked is answered, and everything is there the next time.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::http::{Connection, Request};
use super::rig::{Server, Store, home, on_durable_stores, on_every_store, on_own_stores};
use super::talk::{base64, text, texts};

/// Whoever is slow in these tests must not be cut.
const PATIENT: [&str; 3] = ["shutdown.drain=60s", "http.body_timeout=60s", "mailbox.shards=1"];

/// A request whose body is to follow.
fn json(path: &str) -> Request {
    Request::new("POST", path).header("content-type", "application/json")
}

/// Sends a head and waits until the server asks for the body.
fn begin(server: &Server, request: &Request, length: usize) -> Connection {
    let mut connection = server.connect();
    connection.write(&request.clone().header("expect", "100-continue").head(length));
    let head = connection.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    connection
}

/// A server that did not end the waiting would cut it after `shutdown.drain`, without an answer.
#[test]
fn who_waits_for_messages_is_answered_when_the_server_stops() {
    on_every_store(&["shutdown.drain=20s"], |server| {
        let wish = json!({"topic": "t", "wait_ms": 60_000});
        let mut stream = server.connect();
        stream.write(&Request::post("/v1/recv/stream", &wish).to_bytes());
        assert!(stream.head().unwrap().starts_with("HTTP/1.1 200"));
        let body = wish.to_string();
        let mut recv = begin(&server, &json("/v1/recv"), body.len());
        recv.write(body.as_bytes());
        server.eventually(|| {
            server.metric("oncebox_http_connections").filter(|connections| connections == "3")
        });
        server.terminate();
        assert_eq!(recv.answer().ok(), json!({"messages": []}));
        assert_eq!(stream.chunk().unwrap(), None, "it ends as streams do");
        let (status, _) = server.ended();
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn requests_under_way_are_answered_and_sends_refused() {
    on_every_store(&PATIENT, |server| {
        server.sent("t", "1");
        let held = server.recv_one("t");
        let send = json!({"topic": "t", "idem_key": "2", "payload_b64": base64("x")}).to_string();
        let batch = json!({"messages": []}).to_string();
        let nack = json!({"reason": "stopping"}).to_string();
        let nacked = format!("/v1/nack/{}", text(&held, "receipt"));
        let mut sending = begin(&server, &json("/v1/send"), send.len());
        let mut batching = begin(&server, &json("/v1/send/batch"), batch.len());
        let mut settling = begin(&server, &json(&nacked), nack.len());
        server.terminate();
        server.wait_for_line("stopping: nothing more is taken in");
        sending.write(send.as_bytes());
        let refused = sending.answer();
        refused.refused(503, "E_UNAVAILABLE");
        assert!(refused.header("retry-after").is_some());
        assert_eq!((refused.header("connection"), &*sending.rest()), (Some("close"), &b""[..]));
        batching.write(batch.as_bytes());
        batching.answer().refused(503, "E_UNAVAILABLE");
        settling.write(nack.as_bytes());
        assert_eq!(settling.answer().ok(), json!({"ok": true}));
        let (status, _) = server.ended();
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn everything_is_there_after_a_stop() {
    on_durable_stores(|store| {
        let server = Server::start(store, &PATIENT);
        let ids: Vec<_> = ["1", "2", "3"].into_iter().map(|idem_key| server.sent("t", idem_key)).collect();
        let held = server.recv_one("t");
        server.post("/v1/inbox/mark-processed", &json!({"key": "k"})).ok();
        let counts = server.counts("t");
        let server = Server::start_in(server.stop(), store, &PATIENT);
        assert_eq!(server.counts("t"), counts);
        assert_eq!(server.ack(text(&held, "receipt")).ok(), json!({"ok": true}), "receipts outlive a stop");
        assert_eq!(texts(&server.recv("t"), "msg_id"), ids[1..]);
        assert_eq!(text(&server.get("/v1/inbox/k").ok(), "status"), "Processed");
    });
}

/// Somebody who does not end is not waited for longer than is set.
#[test]
fn who_does_not_finish_is_cut() {
    on_own_stores(&["shutdown.drain=1s", "http.body_timeout=60s"], |server| {
        let mut stuck = begin(&server, &json("/v1/send"), 1_000);
        server.terminate();
        let (status, _) = server.ended();
        assert_eq!((status.code(), &*stuck.rest()), (Some(0), &b""[..]));
    });
}

/// Whoever started the server may stop it as soon as it says that it listens.
#[test]
fn a_signal_right_after_the_start_stops_it_well() {
    for _ in 0..10 {
        Server::start(Store::Memory, &[]).stop();
    }
}

/// Holds: RULE-21.
#[test]
fn a_socket_is_private_and_gone_after_the_stop() {
    let home = home();
    let path = home.path().join("oncebox.sock");
    let listen = format!("unix:{}", path.display());
    let server = Server::start_with(home.clone(), &["--store", "memory:", "--listen", &listen], &[]);
    server.wait_for_line(&listen);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let send = Request::post("/v1/send", &json!({"topic": "t", "idem_key": "k", "payload_b64": ""}));
    let mut socket = Connection::unix(&path);
    assert_eq!(socket.call(&send.clone().host(Some("whatever"))).ok()["duplicate"], false);
    assert_eq!(socket.call(&send.clone()).ok()["duplicate"], true);
    socket.call(&send.header("origin", "null")).refused(403, "E_CAP_SCOPE");
    assert_eq!(server.recv("t").len(), 1, "all doors lead to one store");
    server.stop();
    assert!(!path.exists());
}

/// A socket that a crash left behind is no obstacle; one that somebody listens on is.
#[test]
fn a_socket_of_a_server_that_died_is_taken_over() {
    let home = home();
    let path = home.path().join("oncebox.sock");
    let listen = format!("unix:{}", path.display());
    let arguments = ["--store", "memory:", "--listen", &listen];
    Server::start_with(home.clone(), &arguments, &[]).kill();
    assert!(path.exists(), "a crash leaves it behind");
    let server = Server::start_with(home.clone(), &arguments, &[]);
    Connection::unix(&path).call(&Request::get("/healthz")).ok();
    let off = ["--set", "admin.listen=off"];
    let second = crate::rig::run(&["serve", "--store", "memory:", "--listen", &listen, off[0], off[1]]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("another server listens there"), "{second:?}");
    Connection::unix(&path).call(&Request::get("/healthz")).ok();
    server.stop();
}
