//! Clients that are slow, stuck or many: each is bounded, and the others are served.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::http::{Connection, Request};
use super::rig::{Server, Store, on_own_stores};
use super::talk::text;

const HURRIED: [&str; 3] =
    ["http.header_timeout=300ms", "http.body_timeout=300ms", "http.idle_timeout=300ms"];
/// Together more than any buffers between the server and its client hold.
const LARGE: (usize, usize) = (24, 600 * 1024);

/// Holds: MBX-G-4.
#[test]
fn half_a_head_is_not_waited_for() {
    on_own_stores(&HURRIED, |server| {
        for head in
            ["P", "POST /v1/send HTTP/1.1\r\nhost: loc", "POST /v1/send HTTP/1.1\r\nhost: localhost\r\n"]
        {
            let mut connection = server.connect();
            connection.write(head.as_bytes());
            let rest = connection.rest();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"),
                "{}",
                String::from_utf8_lossy(&rest)
            );
        }
        assert_eq!(server.connect().rest(), b"", "nor for none at all");
        let mut connection = server.connect();
        connection.call(&Request::get("/healthz")).ok();
        connection.write(b"GET /heal");
        assert!(!connection.rest().starts_with(b"HTTP/1.1 200"), "nor for the second");
        server.get("/healthz").ok();
    });
}

/// Holds: MBX-G-4.
#[test]
fn half_a_body_is_not_waited_for() {
    on_own_stores(&HURRIED, |server| {
        let request = Request::new("POST", "/v1/send").header("content-type", "application/json");
        for sent in [&b""[..], br#"{"topic":"t","#] {
            let mut connection = server.connect();
            connection.write(&request.head(1_000));
            connection.write(sent);
            let answer = connection.answer();
            answer.refused(408, "E_TIMEOUT");
            assert!(answer.header("retry-after").is_some());
            assert_eq!(connection.rest(), b"", "what follows could be anything");
        }
        server.get("/healthz").ok();
    });
}

/// Who is still being answered does not idle, however long that takes.
/// Holds: MBX-G-4.
#[test]
fn a_quiet_stream_is_not_cut() {
    on_own_stores(&HURRIED, |server| {
        let mut connection = server.connect();
        let wish = json!({"topic": "t", "wait_ms": 1_000});
        let answer = connection.call(&Request::post("/v1/recv/stream", &wish));
        assert_eq!((answer.status, answer.text()), (200, ""));
        connection.call(&Request::get("/healthz")).ok();
    });
}

/// Holds: MBX-G-4.
#[test]
fn a_client_that_does_not_read_its_answer_is_cut() {
    let server = Server::start(Store::Memory, &["http.write_timeout=300ms"]);
    let (messages, bytes) = LARGE;
    for number in 0..messages {
        let send = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let send = send.header("x-topic", "t").header("x-idem-key", &number.to_string());
        server.call(&send.body(vec![b'x'; bytes])).ok();
    }
    let wish =
        json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 256, "max_bytes": messages * bytes});
    let mut deaf = server.connect();
    deaf.write(&Request::post("/v1/recv", &wish).to_bytes());
    server.eventually(|| server.metric("mailbox_delivered_total{topic=\"t\"}").filter(|count| count != "0"));
    server.eventually(|| server.metric("http_connections").filter(|connections| connections == "1"));
    let (answer, whole) = (deaf.rest(), messages * bytes * 4 / 3);
    assert!(answer.len() < whole, "{} bytes came, of {whole}", answer.len());
    assert_eq!(server.counts("t")["in_flight"], messages, "they come again when their visibility ends");
}

/// Those beyond the limit wait, and are served when somebody leaves.
#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    on_own_stores(&["http.connections_max=2"], |server| {
        let (mut one, mut two) = (server.connect(), server.connect());
        one.call(&Request::get("/healthz")).ok();
        two.call(&Request::get("/healthz")).ok();
        let mut third = TcpStream::connect(&server.address).unwrap();
        third.write_all(&Request::get("/healthz").to_bytes()).unwrap();
        third.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let waits = third.read(&mut [0]).expect_err("it is not served yet");
        assert!(matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waits}");
        one.call(&Request::get("/healthz")).ok();
        drop(two);
        Connection::over(third).answer().ok();
    });
}

/// A client keeps its connection and asks again, also before the answer came.
#[test]
fn a_connection_is_kept_for_what_is_asked_next() {
    on_own_stores(&[], |server| {
        let mut connection = server.connect();
        for _ in 0..3 {
            connection.call(&Request::get("/healthz")).ok();
            connection.call(&Request::post("/v1/recv", &json!({}))).refused(400, "E_SCHEMA");
        }
        let send = Request::post("/v1/send", &json!({"topic": "t", "idem_key": "k", "payload_b64": ""}));
        let twice = [send.to_bytes(), Request::get("/healthz").to_bytes()].concat();
        connection.write(&twice);
        assert_eq!(connection.answer().ok()["duplicate"], false);
        assert_eq!(text(&connection.answer().ok(), "status"), "live");
    });
}
