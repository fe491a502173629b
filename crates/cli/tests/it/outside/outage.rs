//! A database outage: the server notices it immediately, no call hangs meanwhile, and no restart is needed afterwards.

use std::net::TcpStream;
use std::thread::park_timeout;
use std::time::Duration;

use oncebox_testkit::servers::Postgres;
use serde_json::{Value, json};

use super::http::{Answer, Connection, Request};
use super::mailbox_client::{base64, text};
use super::rig::{Server, new_storage};

/// Half of the time that a call waits for a connection. An immediate refusal takes a thousandth of it.
const PROMPT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of polls, with [`PAUSE`] between them.
const POLLS_MAX: usize = 2_000;

/// The kind of outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// Its processes are stopped, and its port is closed.
    Stopped,
    /// Its processes are suspended: connections can be opened and stay open, but nothing is answered.
    Frozen,
}

struct Database(Postgres);

impl Database {
    fn begin(&mut self, outage: Outage) {
        match outage {
            Outage::Stopped => self.0.stop_immediately().expect("the database stops"),
            Outage::Frozen => self.0.freeze(),
        }
    }

    fn end(&mut self, outage: Outage) {
        match outage {
            Outage::Stopped => self.0.restart().expect("the database restarts"),
            Outage::Frozen => self.0.thaw(),
        }
    }
}

fn start() -> (Database, Server) {
    let database = Postgres::start().expect("a private PostgreSQL");
    let url = format!("{}?ensure=yes", database.url());
    (Database(database), Server::start_with(new_storage(), &["--store", &url], &[]))
}

fn call_within(server: &Server, request: &Request, limit: Duration) -> Answer {
    let stream = TcpStream::connect(&server.address).expect("the server listens");
    let options = stream.try_clone().expect("a handle");
    let mut connection = Connection::over(stream);
    options.set_read_timeout(Some(limit)).expect("an option");
    connection.write(&request.to_bytes());
    connection.try_answer().unwrap_or_else(|error| panic!("no answer within {limit:?}: {error}: {request:?}"))
}

/// Makes a call that must be answered within [`PROMPT`].
fn call_promptly(server: &Server, request: &Request) -> Answer {
    call_within(server, request, PROMPT)
}

/// Polls until there is a value.
#[track_caller]
fn eventually<T>(poll: impl Fn() -> Option<T>) -> T {
    let found = (0..POLLS_MAX).find_map(|_| {
        let found = poll();
        if found.is_none() {
            park_timeout(PAUSE);
        }
        found
    });
    found.expect("the condition becomes true before the last poll")
}

fn ready(server: &Server, status: u16) -> Value {
    eventually(|| {
        Some(call_promptly(server, &Request::get("/readyz"))).filter(|ready| ready.status == status)
    })
    .json()
}

/// Sends a long-polling request.
fn waiting(server: &Server, path: &str) -> Connection {
    let mut connection = server.connect();
    let request = json!({"topic": "nobody-sends-here", "wait_ms": 30_000});
    connection.write(&Request::post(path, &request).to_bytes());
    connection
}

fn calls(receipt: &str) -> [Request; 8] {
    let send = json!({"topic": "t", "idem_key": "2", "payload_b64": base64("2")});
    [
        Request::post("/v1/send", &send),
        Request::post("/v1/queues/mailbox/send", &json!({"messages": [send]})),
        Request::post("/v1/recv", &json!({"topic": "t", "wait_ms": 20_000})),
        Request::post("/v1/work", &json!({"recv": {"topic": "t", "wait_ms": 20_000}})),
        Request::post(&format!("/v1/ack/{receipt}"), &json!({})),
        Request::post("/v1/inbox/try-begin", &json!({"key": "k"})),
        Request::get("/v1/admin/messages"),
        Request::get("/v1/admin/counts?topic=t"),
    ]
}

#[track_caller]
fn assert_unavailable(answer: &Answer, request: &Request) {
    let message = answer.refused(503, "E_UNAVAILABLE");
    assert!(message.contains("database"), "{message}: {request:?}");
    let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=5).contains(&seconds)), "{}", answer.head);
}

/// Checks the endpoints that answer during the outage and report values as unknown.
fn check_what_is_unknown(server: &Server) {
    assert_eq!(call_promptly(server, &Request::get("/healthz")).ok(), json!({"status": "live"}));
    let metrics = call_promptly(server, &Request::get("/metrics"));
    assert_eq!(metrics.status, 200, "{metrics:?}");
    for line in [
        "oncebox_store_up 0",
        r#"queue_depth{topic="t",shard="0"} NaN"#,
        r#"oncebox_oldest_ready_seconds{topic="t"} NaN"#,
        r#"oncebox_store_bound_used_ratio{bound="keys"} NaN"#,
        r#"oncebox_mailbox_enqueued_total{topic="t"} 1"#,
    ] {
        assert!(metrics.text().lines().any(|known| known == line), "{line}: {}", metrics.text());
    }
    let stats = call_promptly(server, &Request::get("/v1/admin/stats")).ok();
    assert_eq!(stats["unknown"], json!(["namespaces", "bounds"]), "{stats}");
    assert_eq!((&stats["namespaces"], &stats["bounds"]), (&json!([]), &json!([])), "{stats}");
    assert!(names_the_store(&stats), "{stats}");
}

fn names_the_store(answer: &Value) -> bool {
    let findings = answer["findings"].as_array().expect("a list");
    findings.iter().any(|finding| finding["subject"] == "store" && finding["level"] == "unhealthy")
}

/// Holds: RULE-25, MBX-P-2.
#[test]
fn an_outage_and_its_end_are_noticed_immediately() {
    for outage in [Outage::Stopped, Outage::Frozen] {
        println!("{outage:?}");
        let (mut database, server) = start();
        server.sent("t", "1");
        let held = server.recv_one("t");
        assert_eq!(server.metric(r#"queue_depth{topic="t",shard="0"}"#).as_deref(), Some("0"));
        let [mut poll, mut stream] = ["/v1/recv", "/v1/recv/stream"].map(|path| waiting(&server, path));
        assert!(stream.head().expect("a head").contains(" 200 "), "a stream starts before its first message");
        database.begin(outage);

        let reply = ready(&server, 503);
        assert!(reply["missing"].as_array().expect("a list").contains(&json!("store")), "{reply}");
        assert_eq!((&reply["reads"], &reply["writes"]), (&json!(false), &json!(false)), "{reply}");
        assert!(names_the_store(&reply), "{reply}");
        assert_eq!(call_promptly(&server, &Request::get("/readyz?for=reads")).status, 503);
        for request in calls(text(&held, "receipt")) {
            assert_unavailable(&call_promptly(&server, &request), &request);
        }
        check_what_is_unknown(&server);
        assert_unavailable(&poll.answer(), &Request::get("a waiting receiver"));
        assert_eq!(stream.rest(), b"", "the stream is cut off without its final chunk");
        database.end(outage);
        assert_eq!(ready(&server, 200)["missing"], json!([]));
        server.sent("t", "3");
        assert_eq!(
            server.ack(text(&held, "receipt")).ok(),
            json!({"ok": true}),
            "the lease was held during the outage"
        );
        assert_eq!(server.get("/v1/admin/stats").ok()["unknown"], json!([]));
        assert_eq!(server.metric("oncebox_store_up").as_deref(), Some("1"));
        let queue_depth = server.metric(r#"queue_depth{topic="t",shard="0"}"#);
        assert!(queue_depth.is_some_and(|depth| depth != "NaN"));
        server.wait_for_line("database is up again");
        for line in ["database is down: calls fail", "database is up again", "maintenance failed"] {
            let lines = server.log().matches(line).count();
            assert!(lines == 1 || line.starts_with("maintenance") && lines == 0, "{lines} of {line}");
        }
        assert!(!server.log().contains("sqlx"), "no additional lines of the driver: {}", server.log());
    }
}

/// Several outages in a row.
/// Holds: RULE-25.
#[test]
fn every_outage_and_every_recovery_is_noticed() {
    let (mut database, server) = start();
    for (number, outage) in [Outage::Frozen, Outage::Stopped, Outage::Frozen].into_iter().enumerate() {
        server.sent("t", &number.to_string());
        database.begin(outage);
        ready(&server, 503);
        let lines = |text: &str| (server.log().matches(text).count() > number).then_some(());
        eventually(|| lines("database is down: calls fail"));
        database.end(outage);
        eventually(|| lines("database is up again"));
        ready(&server, 200);
    }
    assert_eq!(server.recv("t").len(), 3);
    assert_eq!(server.log().matches("database is up again").count(), 3);
}

/// Holds: RULE-25.
#[test]
fn a_server_can_stop_while_its_database_hangs() {
    let (mut database, server) = start();
    server.sent("t", "1");
    let _poll = waiting(&server, "/v1/recv");
    database.begin(Outage::Frozen);
    ready(&server, 503);
    server.terminate();
    let (status, _) = server.wait_for_exit();
    assert_eq!(status.code(), Some(0));
    database.end(Outage::Frozen);
}
