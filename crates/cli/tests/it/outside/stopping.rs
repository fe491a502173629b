//! Graceful shutdown: no new requests are accepted, requests in progress are answered, and nothing is lost.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::http::{Connection, Request};
use super::mailbox_client::{base64, text, texts};
use super::rig::{Server, Store, new_storage, on_durable_stores, on_every_store, on_own_stores};

/// Slow requests in these tests must not time out.
const LONG_TIMEOUTS: [&str; 3] = ["shutdown.drain=60s", "http.body_timeout=60s", "mailbox.shards=1"];

/// A request without its body.
fn json(path: &str) -> Request {
    Request::new("POST", path).header("content-type", "application/json")
}

/// Sends a head and waits until the server requests the body.
fn begin(server: &Server, request: &Request, length: usize) -> Connection {
    let mut connection = server.connect();
    connection.write(&request.clone().header("expect", "100-continue").head(length));
    let head = connection.head().expect("a head");
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    connection
}

/// Otherwise the server would close the connection after `shutdown.drain` without a response.
#[test]
fn waiting_receivers_are_answered_when_the_server_stops() {
    on_every_store(&["shutdown.drain=20s"], |server| {
        let request = json!({"topic": "t", "wait_ms": 60_000});
        let mut stream = server.connect();
        stream.write(&Request::post("/v1/recv/stream", &request).to_bytes());
        assert!(stream.head().unwrap().starts_with("HTTP/1.1 200"));
        let body = request.to_string();
        let mut recv = begin(&server, &json("/v1/recv"), body.len());
        recv.write(body.as_bytes());
        server.eventually(|| {
            server.metric("oncebox_http_connections").filter(|connections| connections == "3")
        });
        server.terminate();
        assert_eq!(recv.answer().ok(), json!({"messages": []}));
        assert_eq!(stream.chunk().unwrap(), None, "the stream ends cleanly");
        let (status, _) = server.wait_for_exit();
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn requests_in_progress_are_answered_and_sends_are_refused() {
    on_every_store(&LONG_TIMEOUTS, |server| {
        server.sent("t", "1");
        let held = server.recv_one("t");
        let send = json!({"topic": "t", "idem_key": "2", "payload_b64": base64("x")}).to_string();
        let batch = json!({"messages": []}).to_string();
        let nack = json!({"reason": "stopping"}).to_string();
        let nacked = format!("/v1/nack/{}", text(&held, "receipt"));
        let mut sending = begin(&server, &json("/v1/send"), send.len());
        let mut batching = begin(&server, &json("/v1/queues/mailbox/send"), batch.len());
        let mut settling = begin(&server, &json(&nacked), nack.len());
        server.terminate();
        server.wait_for_line("stopping: no new requests are accepted");
        sending.write(send.as_bytes());
        let refused = sending.answer();
        refused.refused(503, "E_UNAVAILABLE");
        assert!(refused.header("retry-after").is_some());
        assert_eq!((refused.header("connection"), &*sending.rest()), (Some("close"), &b""[..]));
        batching.write(batch.as_bytes());
        batching.answer().refused(503, "E_UNAVAILABLE");
        settling.write(nack.as_bytes());
        assert_eq!(settling.answer().ok(), json!({"ok": true}));
        let (status, _) = server.wait_for_exit();
        assert_eq!(status.code(), Some(0));
    });
}

#[test]
fn nothing_is_lost_by_a_graceful_shutdown() {
    on_durable_stores(|store| {
        let server = Server::start(store, &LONG_TIMEOUTS);
        let ids: Vec<_> = ["1", "2", "3"].into_iter().map(|idem_key| server.sent("t", idem_key)).collect();
        let held = server.recv_one("t");
        server.post("/v1/inbox/mark-processed", &json!({"key": "k"})).ok();
        let counts = server.counts("t");
        let server = Server::start_in(server.stop(), store, &LONG_TIMEOUTS);
        assert_eq!(server.counts("t"), counts);
        assert_eq!(
            server.ack(text(&held, "receipt")).ok(),
            json!({"ok": true}),
            "receipts survive a shutdown"
        );
        assert_eq!(texts(&server.recv("t"), "msg_id"), ids[1..]);
        assert_eq!(text(&server.get("/v1/inbox/k").ok(), "status"), "Processed");
    });
}

/// The server does not wait longer than configured for a client that does not finish.
#[test]
fn a_request_that_does_not_finish_is_cut_off() {
    on_own_stores(&["shutdown.drain=1s", "http.body_timeout=60s"], |server| {
        let mut stuck = begin(&server, &json("/v1/send"), 1_000);
        server.terminate();
        let (status, _) = server.wait_for_exit();
        assert_eq!((status.code(), &*stuck.rest()), (Some(0), &b""[..]));
    });
}

/// A supervisor may stop the server as soon as it logs that it listens.
#[test]
fn a_signal_right_after_the_start_stops_the_server_cleanly() {
    for _ in 0..10 {
        Server::start(Store::Memory, &[]).stop();
    }
}

/// Holds: RULE-21.
#[test]
fn a_socket_is_private_and_removed_by_the_shutdown() {
    let storage = new_storage();
    let path = storage.path().join("oncebox.sock");
    let listen = format!("unix:{}", path.display());
    let server = Server::start_with(storage.clone(), &["--store", "memory:", "--listen", &listen], &[]);
    server.wait_for_line(&listen);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let send = Request::post("/v1/send", &json!({"topic": "t", "idem_key": "k", "payload_b64": ""}));
    let mut socket = Connection::unix(&path);
    assert_eq!(socket.call(&send.clone().host(Some("whatever"))).ok()["duplicate"], false);
    assert_eq!(socket.call(&send.clone()).ok()["duplicate"], true);
    socket.call(&send.header("origin", "null")).refused(403, "E_CAP_SCOPE");
    assert_eq!(server.recv("t").len(), 1, "all listeners share one store");
    server.stop();
    assert!(!path.exists());
}

/// A socket that a crash left behind is replaced; a socket with a listening server is not.
#[test]
fn a_stale_socket_is_replaced() {
    let storage = new_storage();
    let path = storage.path().join("oncebox.sock");
    let listen = format!("unix:{}", path.display());
    let arguments = ["--store", "memory:", "--listen", &listen];
    Server::start_with(storage.clone(), &arguments, &[]).kill();
    assert!(path.exists(), "a crash leaves the socket behind");
    let server = Server::start_with(storage.clone(), &arguments, &[]);
    Connection::unix(&path).call(&Request::get("/healthz")).ok();
    let off = ["--set", "admin.listen=off"];
    let second = crate::rig::run(&["serve", "--store", "memory:", "--listen", &listen, off[0], off[1]]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("another server listens on this socket"), "{second:?}");
    Connection::unix(&path).call(&Request::get("/healthz")).ok();
    server.stop();
}
