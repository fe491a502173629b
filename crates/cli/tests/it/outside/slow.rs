//! Slow, stuck and numerous clients: each is bounded, and other clients are served.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::http::{Connection, Request, TIMEOUT};
use super::mailbox_client::text;
use super::rig::{Server, Store, on_own_stores};

const HURRIED: [&str; 3] =
    ["http.header_timeout=300ms", "http.body_timeout=300ms", "http.idle_timeout=300ms"];
/// Number and size of messages, together larger than the buffers between server and client.
const LARGE: (usize, usize) = (24, 600 * 1024);

/// Sends messages for a large response; returns the request that receives all of them.
fn send_large(server: &Server) -> Request {
    let (messages, bytes) = LARGE;
    for number in 0..messages {
        let send = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let send = send.header("x-topic", "t").header("x-idem-key", &number.to_string());
        server.call(&send.body(vec![b'x'; bytes])).ok();
    }
    let recv =
        json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 256, "max_bytes": messages * bytes});
    Request::post("/v1/recv", &recv)
}

/// Holds: MBX-G-4.
#[test]
fn an_incomplete_head_times_out() {
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
        assert_eq!(server.connect().rest(), b"", "a connection without a request times out, too");
        let mut connection = server.connect();
        connection.call(&Request::get("/healthz")).ok();
        connection.write(b"GET /heal");
        assert!(!connection.rest().starts_with(b"HTTP/1.1 200"), "an incomplete second head times out, too");
        server.get("/healthz").ok();
    });
}

/// Holds: MBX-G-4.
#[test]
fn an_incomplete_body_times_out() {
    on_own_stores(&HURRIED, |server| {
        let request = Request::new("POST", "/v1/send").header("content-type", "application/json");
        for sent in [&b""[..], br#"{"topic":"t","#] {
            let mut connection = server.connect();
            connection.write(&request.head(1_000));
            connection.write(sent);
            let answer = connection.answer();
            answer.refused(408, "E_TIMEOUT");
            assert!(answer.header("retry-after").is_some());
            assert_eq!(connection.rest(), b"", "the connection is closed");
        }
        server.get("/healthz").ok();
    });
}

/// A connection with a response in progress is not idle.
/// Holds: MBX-G-4.
#[test]
fn a_quiet_stream_is_not_closed() {
    on_own_stores(&HURRIED, |server| {
        let mut connection = server.connect();
        let request = json!({"topic": "t", "wait_ms": 1_000});
        let answer = connection.call(&Request::post("/v1/recv/stream", &request));
        assert_eq!((answer.status, answer.text()), (200, ""));
        connection.call(&Request::get("/healthz")).ok();
    });
}

/// Holds: MBX-G-4.
#[test]
fn a_client_that_does_not_read_its_response_is_disconnected() {
    let server = Server::start(Store::Memory, &["http.write_timeout=300ms"]);
    let request = send_large(&server);
    let mut stuck = server.connect();
    stuck.write(&request.to_bytes());
    server.eventually(|| {
        server.metric("oncebox_mailbox_delivered_total{topic=\"t\"}").filter(|count| count != "0")
    });
    server.eventually(|| server.metric("oncebox_http_connections").filter(|connections| connections == "1"));
    let (messages, bytes) = LARGE;
    let (answer, whole) = (stuck.rest(), messages * bytes * 4 / 3);
    assert!(answer.len() < whole, "{} of {whole} bytes arrived", answer.len());
    assert_eq!(
        server.counts("t")["in_flight"],
        messages,
        "they are redelivered when their visibility timeout ends"
    );
}

/// Also after it was used, which a connection without requests does not show.
/// Holds: MBX-G-4.
#[test]
fn an_idle_connection_is_closed() {
    on_own_stores(&["http.header_timeout=5m", "http.idle_timeout=300ms"], |server| {
        let get = Request::get("/healthz");
        for requests in [1, 3] {
            let mut connections: Vec<_> = (0..64).map(|_| server.connect()).collect();
            for connection in &mut connections {
                // All requests at once, so that the connection is not idle in between on a busy machine.
                connection.write(&get.to_bytes().repeat(requests));
                (0..requests).for_each(|_| drop(connection.answer().ok()));
            }
            for mut connection in connections {
                assert_eq!(connection.rest(), b"");
            }
        }
    });
}

/// 512 bytes per poll are below the required rate.
/// Holds: MBX-G-4.
#[test]
fn a_client_that_reads_its_response_too_slowly_is_disconnected() {
    let server = Server::start(Store::Memory, &["http.write_timeout=300ms"]);
    let request = send_large(&server);
    let mut trickling = TcpStream::connect(&server.address).unwrap();
    trickling.write_all(&request.to_bytes()).unwrap();
    trickling.set_read_timeout(Some(TIMEOUT)).unwrap();
    server.eventually(|| {
        (&trickling).read_exact(&mut [0; 512]).expect("there is more");
        server.metric("oncebox_http_connections_closed_total{reason=\"write\"}")
    });
    server.get("/healthz").ok();
}

/// While all connections are busy, a new one waits; an idle one is closed to make space for it.
#[test]
fn connections_beyond_the_limit_wait_while_none_is_idle() {
    on_own_stores(&["http.connections_max=2", "http.body_timeout=5m"], |server| {
        let expecting = Request::new("POST", "/v1/recv").header("content-type", "application/json");
        let expecting = expecting.header("expect", "100-continue");
        let body = json!({"topic": "t", "wait_ms": 60_000}).to_string();
        let (mut one, mut two) = (server.connect(), server.connect());
        for connection in [&mut one, &mut two] {
            connection.write(&expecting.head(body.len()));
            assert_eq!(connection.answer().status, 100, "its request is being read");
        }
        let mut third = TcpStream::connect(&server.address).unwrap();
        third.write_all(&Request::get("/healthz").to_bytes()).unwrap();
        third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let waits = third.read(&mut [0]).expect_err("it is not served yet");
        assert!(matches!(waits.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waits}");
        let send = json!({"topic": "t", "idem_key": "k", "payload_b64": ""});
        let mut operator = Connection::tcp(&server.admin_address());
        operator.call(&Request::post("/v1/send", &send)).refused(404, "E_NOT_FOUND");
        drop(two);
        let mut third = Connection::over(third);
        third.answer().ok();
        third.call(&Request::post("/v1/send", &send)).ok();
        one.write(body.as_bytes());
        assert_eq!(one.answer().ok()["messages"].as_array().unwrap().len(), 1, "its request was completed");
    });
}

/// Holds: MBX-G-4.
#[test]
fn silent_connections_do_not_lock_out_other_clients() {
    // Descriptors for both ends of the connections.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    // Without other clients, they would stay open for an hour.
    let settings = ["http.header_timeout=1h", "http.idle_timeout=1h"];
    let server = Server::start(Store::Memory, &settings);
    let mut silent: Vec<_> = (0..1_024).map(|_| server.connect()).collect();
    for _ in 0..3 {
        server.get("/healthz").ok();
        server.sent("t", &format!("{}", silent.len()));
        let mut operator = Connection::tcp(&server.admin_address());
        operator.call(&Request::get("/metrics"));
        let ready = operator.call(&Request::get("/readyz")).ok();
        let findings = ready["findings"].as_array().expect("a list");
        assert!(
            findings.iter().any(|finding| finding["subject"] == "connections"
                && text(finding, "text").contains("http.connections_max")),
            "{ready}"
        );
        silent.extend((0..100).map(|_| server.connect()));
    }
    assert_eq!(silent[0].rest(), b"", "the oldest was closed");
    let lines = |text: &str| server.log().lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("all connections are in use"), 1, "{}", server.log());
    drop(silent);
    server.wait_for_line("connections available again");
    server.eventually(|| server.metric("oncebox_http_connections").filter(|connections| connections == "1"));
    let ready = server.get("/readyz").ok();
    assert_eq!(ready["findings"], json!([]), "{ready}");
}

/// A client may close its sending side and wait for the response. The server cannot tell it from a client that is
/// gone, so it does not wait for messages.
#[test]
fn a_client_that_closed_its_sending_side_is_answered() {
    on_own_stores(&[], |server| {
        let half = |request: &Request| {
            let mut stream = TcpStream::connect(&server.address).unwrap();
            stream.write_all(&request.to_bytes()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            Connection::over(stream).answer()
        };
        let send = json!({"topic": "t", "idem_key": "k", "payload_b64": ""});
        assert_eq!(half(&Request::post("/v1/send", &send)).ok()["duplicate"], false);
        let recv = Request::post("/v1/recv", &json!({"topic": "t", "wait_ms": 60_000}));
        assert_eq!(half(&recv).ok()["messages"].as_array().unwrap().len(), 1);
        assert_eq!(half(&recv).ok()["messages"], json!([]), "the server does not wait for messages");
        let stream = Request::post("/v1/recv/stream", &json!({"topic": "t", "wait_ms": 60_000}));
        assert_eq!(half(&stream).text(), "");
    });
}

/// A client can reuse its connection, also before the previous response has arrived.
#[test]
fn connections_are_kept_alive_and_requests_can_be_pipelined() {
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
