//! A database that goes and comes back under the server: it is noticed at once, nothing hangs meanwhile, and nothing has to be started
//! again.

use std::net::TcpStream;
use std::thread::park_timeout;
use std::time::Duration;

use oncebox_testkit::servers::Postgres;
use serde_json::{Value, json};

use super::http::{Answer, Connection, Request};
use super::rig::{Server, home};
use super::talk::{base64, text};

/// Half of the time that a call waits for a connection. What is refused at once takes a thousandth of it.
const SOON: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// Looks of at least [`PAUSE`] each.
const LOOKS_MAX: usize = 2_000;

/// How a database goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// Its processes end, and its port is closed.
    Stops,
    /// Its processes stand still: connections stay open and can be opened, and nothing is answered.
    Freezes,
}

struct Database(Postgres);

impl Database {
    fn go(&mut self, going: Going) {
        match going {
            Going::Stops => self.0.stop_immediately().expect("it stops"),
            Going::Freezes => self.0.freeze(),
        }
    }

    fn come_back(&mut self, going: Going) {
        match going {
            Going::Stops => self.0.start_again().expect("it starts again"),
            Going::Freezes => self.0.thaw(),
        }
    }
}

fn start() -> (Database, Server) {
    let database = Postgres::start().expect("a private PostgreSQL");
    let url = format!("{}?ensure=yes", database.url());
    (Database(database), Server::start_with(home(), &["--store", &url], &[]))
}

fn call_within(server: &Server, request: &Request, limit: Duration) -> Answer {
    let stream = TcpStream::connect(&server.address).expect("somebody listens");
    let options = stream.try_clone().expect("a handle");
    let mut connection = Connection::over(stream);
    options.set_read_timeout(Some(limit)).expect("an option");
    connection.write(&request.to_bytes());
    connection.try_answer().unwrap_or_else(|error| panic!("no answer within {limit:?}: {error}: {request:?}"))
}

/// An answer that comes soon.
fn soon(server: &Server, request: &Request) -> Answer {
    call_within(server, request, SOON)
}

/// Looks until there is something; every look must be answered soon.
#[track_caller]
fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    let found = (0..LOOKS_MAX).find_map(|_| {
        let found = look();
        if found.is_none() {
            park_timeout(PAUSE);
        }
        found
    });
    found.expect("it happens before all looks are used up")
}

fn ready(server: &Server, status: u16) -> Value {
    eventually(|| Some(soon(server, &Request::get("/readyz"))).filter(|ready| ready.status == status)).json()
}

/// Sends a request that waits for long.
fn waiting(server: &Server, path: &str) -> Connection {
    let mut connection = server.connect();
    let wish = json!({"topic": "nobody-sends-here", "wait_ms": 30_000});
    connection.write(&Request::post(path, &wish).to_bytes());
    connection
}

fn calls(receipt: &str) -> [Request; 8] {
    let send = json!({"topic": "t", "idem_key": "2", "payload_b64": base64("2")});
    [
        Request::post("/v1/send", &send),
        Request::post("/v1/send/batch", &json!({"messages": [send]})),
        Request::post("/v1/recv", &json!({"topic": "t", "wait_ms": 20_000})),
        Request::post("/v1/work", &json!({"recv": {"topic": "t", "wait_ms": 20_000}})),
        Request::post(&format!("/v1/ack/{receipt}"), &json!({})),
        Request::post("/v1/inbox/try-begin", &json!({"key": "k"})),
        Request::get("/v1/messages"),
        Request::get("/v1/counts?topic=t"),
    ]
}

#[track_caller]
fn is_unavailable(answer: &Answer, request: &Request) {
    let message = answer.refused(503, "E_UNAVAILABLE");
    assert!(message.contains("database"), "{message}: {request:?}");
    let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=5).contains(&seconds)), "{}", answer.head);
}

/// What answers while the database is away, and what it says is not known.
fn says_what_is_not_known(server: &Server) {
    assert_eq!(soon(server, &Request::get("/healthz")).ok(), json!({"status": "live"}));
    let metrics = soon(server, &Request::get("/metrics"));
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
    let stats = soon(server, &Request::get("/v1/stats")).ok();
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
fn a_database_that_goes_is_noticed_at_once_and_so_is_its_return() {
    for going in [Going::Stops, Going::Freezes] {
        println!("{going:?}");
        let (mut database, server) = start();
        server.sent("t", "1");
        let held = server.recv_one("t");
        assert_eq!(server.metric(r#"queue_depth{topic="t",shard="0"}"#).as_deref(), Some("0"));
        let [mut poll, mut stream] = ["/v1/recv", "/v1/recv/stream"].map(|path| waiting(&server, path));
        assert!(stream.head().expect("a head").contains(" 200 "), "a stream begins before its first message");
        database.go(going);

        let told = ready(&server, 503);
        assert!(told["missing"].as_array().expect("a list").contains(&json!("store")), "{told}");
        assert_eq!((&told["reads"], &told["writes"]), (&json!(false), &json!(false)), "{told}");
        assert!(names_the_store(&told), "{told}");
        assert_eq!(soon(&server, &Request::get("/readyz?for=reads")).status, 503);
        for request in calls(text(&held, "receipt")) {
            is_unavailable(&soon(&server, &request), &request);
        }
        says_what_is_not_known(&server);
        is_unavailable(&poll.answer(), &Request::get("a receiver that waits"));
        assert_eq!(stream.rest(), b"", "it is cut, without the end that a whole one has");
        database.come_back(going);
        assert_eq!(ready(&server, 200)["missing"], json!([]));
        server.sent("t", "3");
        assert_eq!(server.ack(text(&held, "receipt")).ok(), json!({"ok": true}), "it was held all the time");
        assert_eq!(server.get("/v1/stats").ok()["unknown"], json!([]));
        assert_eq!(server.metric("oncebox_store_up").as_deref(), Some("1"));
        let queue_depth = server.metric(r#"queue_depth{topic="t",shard="0"}"#);
        assert!(queue_depth.is_some_and(|depth| depth != "NaN"));
        server.wait_for_line("the database answers again");
        for line in
            ["the database does not answer: calls fail", "the database answers again", "upkeep failed"]
        {
            let lines = server.log().matches(line).count();
            assert!(lines == 1 || line.starts_with("upkeep") && lines == 0, "{lines} of {line}");
        }
        assert!(!server.log().contains("sqlx"), "the driver says the same: {}", server.log());
    }
}

/// It goes again and again, and comes back again and again.
/// Holds: RULE-25.
#[test]
fn every_outage_is_noticed_and_every_return() {
    let (mut database, server) = start();
    for (number, going) in [Going::Freezes, Going::Stops, Going::Freezes].into_iter().enumerate() {
        server.sent("t", &number.to_string());
        database.go(going);
        ready(&server, 503);
        let lines = |text: &str| (server.log().matches(text).count() > number).then_some(());
        eventually(|| lines("the database does not answer: calls fail"));
        database.come_back(going);
        eventually(|| lines("the database answers again"));
        ready(&server, 200);
    }
    assert_eq!(server.recv("t").len(), 3);
    assert_eq!(server.log().matches("the database answers again").count(), 3);
}

/// Holds: RULE-25.
#[test]
fn a_server_stops_while_its_database_hangs() {
    let (mut database, server) = start();
    server.sent("t", "1");
    let _poll = waiting(&server, "/v1/recv");
    database.go(Going::Freezes);
    ready(&server, 503);
    server.terminate();
    let (status, _) = server.ended();
    assert_eq!(status.code(), Some(0));
    database.come_back(Going::Freezes);
}
