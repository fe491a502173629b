//! Redriving dead letters: by error, in batches, at a rate, after a canary, and within the capacity of a shard.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::{Server, Store, new_storage, on_durable_stores, on_every_store};
use crate::rig::oncebox;

/// The output of `oncebox dlq redrive`.
struct RedriveOutput {
    code: Option<i32>,
    /// The JSON on stdout; null if there is none.
    json: Value,
    stderr: String,
}

impl From<Output> for RedriveOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            json: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn redrive(server: &Server, arguments: &[&str]) -> RedriveOutput {
    let address = format!("http://{}", server.address);
    let mut command = oncebox(&["dlq", "redrive", "--output", "json", "--server", &address]);
    command.args(arguments).output().expect("the binary runs").into()
}

/// Creates dead letters with numbers as keys and the errors that `error` returns for them.
fn bury(server: &Server, topic: &str, keys: std::ops::Range<u32>, error: impl Fn(u32) -> String) {
    let keys: Vec<_> = keys.collect();
    for keys in keys.chunks(250) {
        let message =
            |key: &u32| json!({"topic": topic, "idem_key": key.to_string(), "payload_b64": base64("x")});
        let messages: Vec<_> = keys.iter().map(message).collect();
        let sent = server.post("/v1/queues/mailbox/send", &json!({"messages": messages})).ok();
        assert!(sent["results"].as_array().expect("a list").iter().all(|sent| sent["ok"] == true), "{sent}");
        let mut left = keys.len();
        while left > 0 {
            let items: Vec<_> = server.recv(topic).iter().map(|message| dead(message, &error)).collect();
            left -= items.len();
            let settled = server.post("/v1/settle", &json!({"settle": items})).ok();
            assert!(settled["results"].as_array().expect("a list").iter().all(|item| item["ok"] == true));
        }
    }
}

fn dead(message: &Value, error: impl Fn(u32) -> String) -> Value {
    let key = text(message, "idem_key").parse().expect("a number");
    json!({"op": "nack", "delivery": message["receipt"], "dead": true, "reason": error(key)})
}

fn unfinished_and_dead(server: &Server, topic: &str) -> (u64, u64) {
    let counts = server.counts(topic);
    let count = |name: &str| counts[name].as_u64().expect("a number");
    (count("ready") + count("waiting") + count("in_flight"), count("dead"))
}

/// Receives messages and settles them with `op` until `stop` is set.
fn receive_until(server: &Server, topic: &str, op: &str, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let request = json!({"topic": topic, "visibility_ms": 60_000, "max_messages": 256, "wait_ms": 50});
        let settle = |message: &Value| json!({"op": op, "delivery": message["receipt"]});
        let items: Vec<_> = server.recv_as(&request).iter().map(settle).collect();
        server.post("/v1/settle", &json!({"settle": items})).ok();
    }
}

/// Redrives while another thread receives and settles with `op`.
fn redrive_while_receiving(server: &Server, topic: &str, op: &str, arguments: &[&str]) -> RedriveOutput {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| receive_until(server, topic, op, &stop));
        let ran = redrive(server, arguments);
        stop.store(true, Ordering::Release);
        ran
    })
}

const LARGE: [&str; 5] = [
    "mailbox.shards=1",
    "mailbox.shard_capacity=20000",
    "mailbox.global_in_flight=20000",
    "mailbox.topic.dlq_messages_max=100000",
    "mailbox.topic.dlq_alert_per_minute=0",
];

/// Half of ten thousand dead letters failed because a bank did not answer.
/// Holds: MBX-C-4, MBX-P-5.
#[test]
fn ten_thousand_dead_letters_are_redriven_by_error_at_a_limited_rate() {
    on_durable_stores(|store| {
        let server = Server::start(store, &LARGE);
        let error = |key: u32| {
            if key.is_multiple_of(2) { format!("timeout of bank {key}") } else { "no JSON".to_owned() }
        };
        bury(&server, "t", 0..10_000, error);
        let dry = redrive(&server, &["--topic", "t", "--error", "timeout", "--dry-run"]);
        assert_eq!(
            (dry.code, &dry.json["matched"], &dry.json["changed"]),
            (Some(0), &json!(5_000), &json!(0))
        );
        assert_eq!(unfinished_and_dead(&server, "t"), (0, 10_000), "a dry run changes nothing");
        let began = Instant::now();
        let arguments =
            ["--topic", "t", "--error", "timeout", "--reason", "failed", "--since", "2h", "--rate", "1000/s"];
        let ran = redrive(&server, &arguments);
        assert!(
            began.elapsed() > Duration::from_millis(4_500),
            "faster than the rate: {:?}",
            began.elapsed()
        );
        assert_eq!(
            (ran.code, &ran.json["changed"], &ran.json["more"]),
            (Some(0), &json!(5_000), &json!(false)),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("of 5000 redriven"), "progress: {}", ran.stderr);
        let ids: BTreeSet<_> =
            ran.json["ids"].as_array().expect("a list").iter().map(ToString::to_string).collect();
        assert_eq!(ids.len(), 5_000, "each exactly once");
        assert_eq!(unfinished_and_dead(&server, "t"), (5_000, 5_000));
        let left = redrive(&server, &["--topic", "t", "--error", "timeout", "--dry-run"]);
        assert_eq!(left.json["matched"], 0, "none is left");
        assert_eq!(server.metric("oncebox_mailbox_dlq_redrive_total").as_deref(), Some("5000"));
        assert_eq!(server.metric("oncebox_mailbox_dlq_reprocess_total").as_deref(), Some("5000"));
    });
}

/// Two operators redrive concurrently on two servers of one database.
/// Holds: RULE-11.
#[test]
fn two_servers_redrive_each_dead_letter_once() {
    let storage = new_storage();
    let [one, two] = [(); 2].map(|()| Server::start_in(storage.clone(), Store::Postgres, &LARGE));
    bury(&one, "t", 0..1_000, |_| "no".to_owned());
    let arguments = ["--topic", "t", "--rate", "2000/s"];
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| redrive(&two, &arguments));
        (redrive(&one, &arguments), second.join().expect("the thread ends"))
    });
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{} {}", first.stderr, second.stderr);
    let ids = |ran: &RedriveOutput| ran.json["ids"].as_array().cloned().unwrap_or_default();
    let all: BTreeSet<_> = ids(&first).iter().chain(&ids(&second)).map(ToString::to_string).collect();
    assert_eq!(
        (all.len(), ids(&first).len() + ids(&second).len()),
        (1_000, 1_000),
        "each by exactly one server"
    );
    assert_eq!(unfinished_and_dead(&two, "t"), (1_000, 0));
}

const SMALL: [&str; 3] =
    ["mailbox.shards=1", "mailbox.shard_capacity=10", "mailbox.topic.dlq_alert_per_minute=0"];

/// Creates 25 dead letters in a shard with a capacity of ten.
fn bury_25(server: &Server) {
    for start in [0, 10, 20] {
        bury(server, "t", start..(start + 10).min(25), |_| "no".to_owned());
    }
}

/// Holds: MBX-I-5, MBX-C-5.
#[test]
fn a_redrive_stops_when_a_shard_is_full_and_loses_nothing() {
    on_every_store(&SMALL, |server| {
        bury_25(&server);
        let ran = redrive(&server, &["--topic", "t", "--full-wait", "0s"]);
        assert_eq!((ran.code, &ran.json["changed"]), (Some(4), &json!(10)), "{}", ran.stderr);
        assert_eq!(ran.json["stopped"]["name"], "lane_messages", "{}", ran.json);
        assert!(
            ran.stderr.contains("stopped after 10 of 25") && ran.stderr.contains("shard_capacity"),
            "{}",
            ran.stderr
        );
        assert_eq!(unfinished_and_dead(&server, "t"), (10, 15));
        let swept = server.post("/v1/dlq/redrive", &json!({"topic": "t"})).ok();
        assert_eq!((&swept["changed"], &swept["more"]), (&json!(0), &json!(true)), "{swept}");
        assert_eq!((&swept["stopped"]["used"], &swept["stopped"]["limit"]), (&json!(10), &json!(10)));
        let id = text(&server.get("/v1/dlq?topic=t&limit=1").ok()["messages"][0], "msg_id").to_owned();
        let named = server.post("/v1/dlq/redrive", &json!({"ids": [id]})).ok();
        assert_eq!(
            (&named["changed"], &named["refused"][0]["code"]),
            (&json!(0), &json!("E_SATURATED")),
            "{named}"
        );
        for message in server.recv("t").iter().take(4) {
            server.ack(text(message, "receipt")).ok();
        }
        let more = server.post("/v1/dlq/redrive", &json!({"topic": "t", "after": swept["next"]})).ok();
        assert_eq!(more["changed"], 4, "{more}");
        assert_eq!(unfinished_and_dead(&server, "t"), (10, 11));
    });
}

#[test]
fn a_redrive_waits_for_space_in_a_full_shard() {
    on_every_store(&SMALL, |server| {
        bury_25(&server);
        let ran = redrive_while_receiving(&server, "t", "ack", &["--topic", "t", "--full-wait", "90s"]);
        assert_eq!(
            (ran.code, &ran.json["changed"], &ran.json["stopped"]),
            (Some(0), &json!(25), &json!(null)),
            "{}",
            ran.stderr
        );
        assert_eq!(server.counts("t")["dead"], 0);
    });
}

/// Dead letters of a full shard do not block those of other topics or other given ids.
/// Holds: MBX-I-5, MBX-C-5.
#[test]
fn a_full_shard_does_not_block_other_dead_letters() {
    on_every_store(&SMALL, |server| {
        bury(&server, "full", 0..3, |_| "no".to_owned());
        bury(&server, "free", 3..6, |_| "no".to_owned());
        for key in 100..110 {
            server.sent("full", &key.to_string());
        }
        let dead_letters = |topic: &str| {
            let listed = server.get(&format!("/v1/dlq?topic={topic}")).ok();
            listed["messages"].as_array().expect("a list").clone()
        };
        let (full, free) = (dead_letters("full"), dead_letters("free"));
        for pair in [[&full[0], &free[0]], [&free[1], &full[1]]] {
            let named = server.post("/v1/dlq/redrive", &json!({"ids": pair.map(|one| &one["msg_id"])})).ok();
            assert_eq!(named["changed"], 1, "in any order: {named}");
            assert_eq!(named["refused"][0]["code"], "E_SATURATED");
        }
        let swept = server.post("/v1/dlq/redrive", &json!({"list": true})).ok();
        assert_eq!((&swept["ids"], &swept["skipped"]), (&json!([free[2]["msg_id"]]), &json!(3)), "{swept}");
        assert_eq!((&swept["more"], &swept["stopped"]["name"]), (&json!(true), &json!("lane_messages")));
        for message in server.recv("full").iter().take(2) {
            server.ack(text(message, "receipt")).ok();
        }
        let swept = server.post("/v1/dlq/redrive", &json!({"after": swept["next"], "list": true})).ok();
        assert_eq!(swept["ids"], json!([full[0]["msg_id"], full[1]["msg_id"]]), "the next pass: {swept}");
    });
}

/// While the shard is full, the canary cannot be redriven, and nothing else is redriven before it.
#[test]
fn a_canary_waits_for_space_in_its_shard() {
    on_every_store(&SMALL, |server| {
        bury(&server, "t", 0..9, |_| "no".to_owned());
        for key in 100..110 {
            server.sent("t", &key.to_string());
        }
        let full = redrive(&server, &["--topic", "t", "--canary", "3", "--full-wait", "0s"]);
        assert_eq!((full.code, &full.json["changed"]), (Some(4), &json!(0)), "{}", full.stderr);
        assert!(full.stderr.contains("shard_capacity"), "{}", full.stderr);
        let arguments = ["--topic", "t", "--canary", "3", "--full-wait", "90s", "--canary-wait", "90s"];
        let ran = std::thread::scope(|scope| {
            let ran = scope.spawn(|| redrive(&server, &arguments));
            for _ in 0..10 {
                server.ack(text(&server.recv_one("t"), "receipt")).ok();
            }
            // The first canary message.
            server.nack(text(&server.recv_one("t"), "receipt"), "no").ok();
            ran.join().expect("the thread ends")
        });
        assert_eq!((ran.code, &ran.json["changed"]), (Some(1), &json!(3)), "{}", ran.stderr);
        assert!(ran.stderr.contains("failed again"), "{}", ran.stderr);
        assert_eq!(server.counts("t")["dead"], 6, "the others are still dead letters");
    });
}

#[test]
fn a_canary_that_fails_again_stops_the_redrive() {
    on_every_store(&["mailbox.shards=1", "mailbox.topic.dlq_alert_per_minute=0"], |server| {
        bury(&server, "t", 0..25, |_| "no".to_owned());
        let ran = redrive_while_receiving(
            &server,
            "t",
            "nack",
            &["--topic", "t", "--canary", "3", "--canary-wait", "90s"],
        );
        assert_eq!((ran.code, &ran.json["changed"]), (Some(1), &json!(3)), "{}", ran.stderr);
        assert!(ran.stderr.contains("failed again"), "{}", ran.stderr);
        assert_eq!(server.counts("t")["dead"], 22, "the others are still dead letters");
        let alone = redrive(&server, &["--topic", "t", "--canary", "2", "--canary-wait", "1ms"]);
        assert_eq!((alone.code, &alone.json["changed"]), (Some(4), &json!(2)), "{}", alone.stderr);
        assert!(alone.stderr.contains("--canary-wait"), "there is no receiver: {}", alone.stderr);
        let fine = redrive_while_receiving(
            &server,
            "t",
            "ack",
            &["--topic", "t", "--canary", "5", "--canary-wait", "90s"],
        );
        assert_eq!((fine.code, &fine.json["changed"]), (Some(0), &json!(20)), "{}", fine.stderr);
        assert_eq!(server.counts("t")["dead"], 0);
    });
}

/// A message that is redriven and becomes dead again is not redriven by the following batches.
/// Holds: RULE-11.
#[test]
fn batches_continue_after_the_cursor() {
    on_every_store(&["mailbox.shards=1"], |server| {
        bury(&server, "t", 0..5, |_| "no".to_owned());
        let dead_letters = server.get("/v1/dlq?topic=t").ok()["messages"].as_array().expect("a list").clone();
        let ids = texts(&dead_letters, "msg_id");
        let (mut redriven, mut after) = (Vec::new(), json!(null));
        for _ in 0..3 {
            let mut request = json!({"topic": "t", "limit": 2, "list": true});
            if after.is_string() {
                request["after"] = after;
            }
            let swept = server.post("/v1/dlq/redrive", &request).ok();
            redriven.extend(swept["ids"].as_array().expect("a list").clone());
            after = swept["next"].clone();
            for message in server.recv("t") {
                server.post("/v1/settle", &json!({"settle": [dead(&message, |_| "again".to_owned())]})).ok();
            }
        }
        assert_eq!((redriven, after), (ids.iter().map(|id| json!(id)).collect(), json!(null)));
        let again =
            server.post("/v1/dlq/redrive", &json!({"topic": "t", "error": "again", "dry_run": true})).ok();
        assert_eq!(again["matched"], 5);
        for after in ["", "7", "x-1", "1-2-3-4"] {
            let reply = server.post("/v1/dlq/redrive", &json!({"after": after})).refused(400, "E_SCHEMA");
            assert!(reply.starts_with("after is not valid"), "{reply}");
        }
    });
}

#[test]
fn dead_letters_are_selected_by_reason_error_and_time() {
    on_every_store(&["mailbox.shards=1"], |server| {
        for key in 0..3 {
            bury(&server, "t", key..key + 1, |key| format!("error {key}"));
            // The timestamps must differ.
            server.pause();
        }
        let dead_letters = server.get("/v1/dlq?topic=t").ok()["messages"].as_array().expect("a list").clone();
        let died = text(&dead_letters[1], "finished_at").to_owned();
        for (filter, expected) in [
            (json!({"error": "error 1"}), 1),
            (json!({"error": "error"}), 3),
            (json!({"error": "ERROR"}), 0),
            (json!({"reason": "failed"}), 3),
            (json!({"reason": "exhausted"}), 0),
            (json!({"since": died}), 2),
            (json!({"until": died}), 1),
            (json!({"since": died, "until": died}), 0),
            (json!({"since": died, "error": "error 2", "topic": "t"}), 1),
        ] {
            let mut request = filter.clone();
            request["dry_run"] = json!(true);
            for path in ["/v1/dlq/redrive", "/v1/dlq/reprocess", "/v1/admin/messages/redrive"] {
                assert_eq!(server.post(path, &request).ok()["matched"], expected, "{path} {filter}");
            }
        }
        for (filter, reply) in [
            (json!({"since": "yesterday"}), "since is not a timestamp"),
            (json!({"until": "2026-13-01T00:00:00Z"}), "until is not a timestamp"),
            (json!({"error": ""}), "error must have 1 to 1024 bytes"),
        ] {
            let message = server.post("/v1/dlq/redrive", &filter).refused(400, "E_SCHEMA");
            assert!(message.starts_with(reply), "{filter}: {message}");
        }
        let swept = server.post("/v1/dlq/redrive", &json!({"error": "error 1", "list": true})).ok();
        assert_eq!(swept["ids"], json!([dead_letters[1]["msg_id"]]));
        assert_eq!(texts(&server.recv("t"), "msg_id"), [text(&dead_letters[1], "msg_id")]);
    });
}

#[test]
fn a_mistyped_topic_or_id_is_an_error() {
    on_every_store(&["mailbox.shards=1", "mailbox.topics.known.attempts_max=2"], |server| {
        bury(&server, "orders", 0..1, |_| "no".to_owned());
        let dead_letter = server.get("/v1/dlq").ok()["messages"][0].clone();
        let alive = server.sent("orders", "alive");
        let unknown = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
        for path in ["/v1/dlq/redrive", "/v1/dlq/reprocess", "/v1/admin/messages/redrive"] {
            for dry_run in [true, false] {
                let topic = json!({"topic": "order", "dry_run": dry_run});
                let reply = server.post(path, &topic).refused(404, "E_NOT_FOUND");
                assert!(reply.contains("`order`"), "{reply}");
                server.post(path, &json!({"ids": [unknown], "dry_run": dry_run})).refused(404, "E_NOT_FOUND");
            }
            assert_eq!(
                server.post(path, &json!({"topic": "known"})).ok()["matched"],
                0,
                "the topic is configured"
            );
        }
        let ran = redrive(&server, &["--topic", "order"]);
        assert_eq!((ran.code, &ran.json), (Some(3), &json!(null)), "{}", ran.stderr);
        assert_eq!(redrive(&server, &[unknown]).code, Some(3));
        let ran = redrive(&server, &[text(&dead_letter, "msg_id"), &alive, unknown]);
        assert_eq!((ran.code, &ran.json["changed"]), (Some(3), &json!(1)), "{}", ran.stderr);
        assert_eq!(ran.json["ids"], json!([dead_letter["msg_id"]]));
        let refused = ran.json["refused"].as_array().expect("a list").clone();
        assert_eq!(texts(&refused, "id"), [alive.as_str(), unknown]);
        assert!(text(&refused[0], "message").contains("not dead"), "{refused:?}");
        assert!(text(&refused[1], "message").contains("no such message"), "{refused:?}");
        assert_eq!(server.get("/v1/dlq").ok()["messages"], json!(NOTHING));
    });
}
