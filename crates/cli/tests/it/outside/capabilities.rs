//! Tokens on the real server: each endpoint demands one that allows its operation, and a token that ends leaves no
//! delivery behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::http::{Answer, Connection, Request};
use super::mailbox_client::{base64, text, texts};
use super::rig::{Server, SharedStorage, Store, new_storage};
use crate::rig::{CommandOutput, oncebox};

/// A server that demands tokens.
pub(crate) struct Guarded {
    pub(crate) server: Server,
    key_file: PathBuf,
}

/// A client of a server with a token.
struct Client<'a> {
    server: &'a Server,
    token: String,
}

fn command(arguments: &[&str]) -> CommandOutput {
    CommandOutput::from(oncebox(arguments).env("HOME", "/nonexistent").output().expect("the binary runs"))
}

#[track_caller]
fn succeeds(arguments: &[&str]) -> String {
    let output = command(arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
    output.stdout.trim().to_owned()
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

impl Guarded {
    pub(crate) fn start(store: Store) -> Self {
        Self::start_with(store, &[])
    }

    pub(crate) fn start_with(store: Store, set: &[&str]) -> Self {
        Self::start_in(new_storage(), store, set)
    }

    /// Creates the key file unless it is there.
    fn start_in(storage: SharedStorage, store: Store, set: &[&str]) -> Self {
        let key_file = storage.path().join("keys");
        if !key_file.exists() {
            succeeds(&["cap", "keygen", "--key-file", path_text(&key_file)]);
        }
        let keys = format!("auth.key_file={}", key_file.display());
        let server = Server::start_in(storage, store, &[&[&*keys], set].concat());
        Self { server, key_file }
    }

    pub(crate) fn mint(&self, caveats: &[&str]) -> String {
        succeeds(&[&["cap", "mint", "--key-file", path_text(&self.key_file)], caveats].concat())
    }

    /// A client whose token is valid for an hour, and limited by these flags.
    fn client(&self, caveats: &[&str]) -> Client<'_> {
        Client { server: &self.server, token: self.mint(&[caveats, &["--for", "1h"]].concat()) }
    }

    /// A client that holds five messages of topic `t`, with a token that is valid for this time; on a slow machine, for
    /// longer.
    fn worker_with_five(&self, valid_for: &str) -> (Client<'_>, Vec<String>) {
        for valid_for in [valid_for, "20s", "2m"] {
            let worker =
                Client { server: &self.server, token: self.mint(&["--name", "worker", "--for", valid_for]) };
            let nonce = worker.nonce();
            if [1, 2, 3, 4, 5]
                .iter()
                .any(|number| worker.send("t", &format!("{nonce}{number}")).status != 200)
            {
                continue;
            }
            let request = json!({"topic": "t", "max_messages": 5, "visibility_ms": 600_000});
            let received = worker.post("/v1/recv", &request);
            if received.status == 200 && worker.recv("t").status == 200 {
                let received = received.json();
                let held = texts(received["messages"].as_array().expect("a list"), "receipt");
                assert_eq!(held.len(), 5, "{received}");
                let held = held.into_iter().map(str::to_owned).collect();
                return (worker, held);
            }
        }
        panic!("the token ends too soon on this machine");
    }

    /// Runs a command about the key file, and has the server read it again.
    fn change_keys(&self, command: &str, arguments: &[&str]) {
        succeeds(&[&["cap", command, "--key-file", path_text(&self.key_file)], arguments].concat());
        let before = self.reloads();
        self.server.signal(Signal::HUP);
        while self.reloads() == before {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn reloads(&self) -> usize {
        self.server.log().matches("configuration reloaded").count()
    }
}

impl Client<'_> {
    fn request(&self, request: Request) -> Request {
        request.header("authorization", &format!("Bearer {}", self.token))
    }

    fn call(&self, request: Request) -> Answer {
        self.server.call(&self.request(request))
    }

    fn get(&self, path: &str) -> Answer {
        self.call(Request::get(path))
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.call(Request::post(path, body))
    }

    fn send(&self, topic: &str, key: &str) -> Answer {
        self.post("/v1/send", &json!({"topic": topic, "idem_key": key, "payload_b64": base64(key)}))
    }

    fn recv(&self, topic: &str) -> Answer {
        self.post("/v1/recv", &json!({"topic": topic}))
    }

    /// Sends messages, and receives them: their receipts.
    fn take(&self, topic: &str, keys: &[&str]) -> Vec<String> {
        for key in keys {
            self.send(topic, key).ok();
        }
        let request = json!({"topic": topic, "max_messages": keys.len(), "visibility_ms": 600_000});
        let received = self.post("/v1/recv", &request).ok();
        let messages = received["messages"].as_array().expect("a list");
        assert_eq!(messages.len(), keys.len(), "{received}");
        texts(messages, "receipt").into_iter().map(str::to_owned).collect()
    }

    fn ack(&self, delivery: &str) -> Answer {
        self.post(&format!("/v1/ack/{delivery}"), &json!({}))
    }

    fn nonce(&self) -> String {
        let file = self.server.path().join("inspected");
        fs::write(&file, &self.token).expect("a file");
        let shown = succeeds(&["cap", "inspect", "--token-file", path_text(&file), "--output", "json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        text(&shown, "nonce").to_owned()
    }

    fn attenuated(&self, caveats: &[&str]) -> String {
        let file = self.server.path().join("attenuated");
        fs::write(&file, &self.token).expect("a file");
        succeeds(&[&["cap", "attenuate", "--token-file", path_text(&file)], caveats].concat())
    }

    fn revoke(&self, nonce: &str, compromised: bool) {
        self.post(
            "/v1/admin/revocations",
            &json!({"target": format!("nonce:{nonce}"), "compromised": compromised}),
        )
        .ok();
    }
}

/// The reason of a refusal, and the caveat.
#[track_caller]
fn reason(answer: &Answer, status: u16) -> String {
    let code = if status == 401 { "E_CAP_AUTH" } else { "E_CAP_SCOPE" };
    answer.refused(status, code);
    let json = answer.json();
    match json["caveat"].as_str() {
        Some(caveat) => format!("{} {caveat}", text(&json, "reason")),
        None => text(&json, "reason").to_owned(),
    }
}

fn on_every_store(test: impl Fn(Guarded)) {
    for store in [Store::Memory, Store::Embedded, Store::Postgres] {
        println!("on {store:?}");
        test(Guarded::start(store));
    }
}

/// Each endpoint of the running server: without a token, with one for all other operations, and with one for it.
/// Holds: MBX-I-8.
#[test]
fn every_endpoint_demands_a_token_for_its_operation() {
    let guarded = Guarded::start(Store::Memory);
    let server = &guarded.server;
    let document = server.get("/openapi.json").ok();
    let paths = document["paths"].as_object().expect("paths");
    let rows: Vec<(String, String, Value)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods.iter().map(move |(method, route)| (method.to_uppercase(), path.clone(), route.clone()))
        })
        .collect();
    assert_eq!(rows.len(), 38);
    let operations: Vec<&str> =
        rows.iter().filter_map(|(.., route)| route["security"][0]["capability"][0].as_str()).collect();
    let (mut open, mut guarded_rows) = (Vec::new(), 0);
    for (method, path, route) in &rows {
        let target = path.replace("{delivery}", &"0".repeat(80)).replace("{key}", "k");
        let target = target.replace("{msg_id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let request = || match method.as_str() {
            "GET" => Request::get(&target),
            _ => Request::post(&target, &json!({"topic": "t"})),
        };
        let Some(operation) = route["security"][0]["capability"][0].as_str() else {
            assert_ne!(server.call(&request()).status, 401, "{path}");
            open.push(path.as_str());
            continue;
        };
        guarded_rows += 1;
        let without = server.call(&request());
        assert_eq!(reason(&without, 401), "missing", "{method} {path}");
        assert_eq!(without.header("www-authenticate"), Some("Bearer"));
        let others: Vec<&str> = operations.iter().copied().filter(|other| *other != operation).collect();
        for some in others.chunks(12) {
            let wrong = guarded.client(&["--op", &some.join(",")]);
            assert_eq!(reason(&wrong.call(request()), 403), "caveat op", "{method} {path} with {some:?}");
        }
        let right = guarded.client(&["--op", operation]).call(request());
        assert!(![401, 403].contains(&right.status), "{method} {path}: {}", right.text());
    }
    open.sort_unstable();
    assert_eq!(open, ["/health/live", "/health/ready", "/healthz", "/readyz"]);
    assert_eq!(guarded_rows, 34);
    let answer = Connection::tcp(&guarded.server.admin_address()).call(&Request::get("/metrics"));
    assert_eq!(reason(&answer, 401), "missing", "also for operators");
}

/// Holds: MBX-I-8, MBX-P-2.
#[test]
fn a_token_is_limited_to_its_topics_sizes_and_deliveries() {
    on_every_store(|guarded| {
        let all = guarded.client(&[]);
        let orders = guarded.client(&["--topic-prefix", "orders."]);
        let one = guarded.client(&["--topic", "orders.new", "--bytes-max", "8"]);
        orders.send("orders.new", "1").ok();
        assert_eq!(reason(&orders.send("orders", "1"), 403), "caveat topic_prefix");
        assert_eq!(reason(&orders.send("invoices", "1"), 403), "caveat topic_prefix");
        assert_eq!(reason(&one.send("orders.old", "1"), 403), "caveat topic");
        assert_eq!(reason(&one.send("orders.new", "123456789"), 403), "caveat bytes_max");
        one.send("orders.new", "12345678").ok();
        let batch: Vec<_> = ["orders.new", "orders.old"]
            .map(|topic| json!({"topic": topic, "idem_key": "2", "payload_b64": base64("2")}))
            .into();
        let batch = one.post("/v1/queues/mailbox/send", &json!({"messages": batch})).ok();
        assert_eq!(
            (&batch["results"][0]["ok"], &batch["results"][1]["code"]),
            (&json!(true), &json!("E_CAP_SCOPE"))
        );

        assert_eq!(reason(&one.recv("orders.old"), 403), "caveat topic");
        assert_eq!(one.recv("orders.new").ok()["messages"].as_array().unwrap().len(), 3);
        // Deliveries of another topic, by receipt and by message id.
        let receipts = all.take("invoices", &["a", "b"]);
        assert_eq!(reason(&orders.ack(&receipts[0]), 403), "caveat topic_prefix");
        let settles: Vec<_> =
            receipts.iter().map(|receipt| json!({"delivery": receipt, "op": "ack"})).collect();
        let settled = orders.post("/v1/settle", &json!({"settle": settles})).ok();
        assert_eq!(settled["results"][0]["code"], "E_CAP_SCOPE", "{settled}");
        let work = json!({"settle": settles, "recv": {"topic": "orders.new"}});
        let worked = orders.post("/v1/work", &work).ok();
        assert_eq!((&worked["results"][1]["code"], &worked["messages"]), (&json!("E_CAP_SCOPE"), &json!([])));
        let listed = all.get("/v1/admin/messages?topic=invoices").ok();
        let msg_id = text(&listed["messages"][0], "msg_id").to_owned();
        assert_eq!(reason(&orders.ack(&msg_id), 403), "caveat topic_prefix");
        // Operators of a topic.
        assert_eq!(reason(&orders.get("/v1/admin/messages"), 403), "caveat topic_prefix");
        orders.get("/v1/admin/messages?topic=orders.new").ok();
        orders.get(&format!("/v1/admin/messages/{msg_id}")).refused(404, "E_NOT_FOUND");
        all.get(&format!("/v1/admin/messages/{msg_id}")).ok();
        assert_eq!(
            reason(&orders.post("/v1/admin/topics/pause", &json!({"topic": "invoices"})), 403),
            "caveat topic_prefix"
        );
        let purge = json!({"topic": "invoices", "confirm": true});
        assert_eq!(reason(&orders.post("/v1/admin/messages/purge", &purge), 403), "caveat topic_prefix");
        let ledger = guarded.client(&["--namespace", "ledger"]);
        assert_eq!(reason(&ledger.recv("orders.new"), 403), "caveat namespace");
        assert_eq!(reason(&ledger.get("/v1/admin/counts"), 403), "caveat namespace");
        ledger.get("/v1/admin/counts?namespace=ledger").ok();
        ledger.post("/v1/inbox/try-begin", &json!({"key": "k"})).ok();
        assert_eq!(
            reason(&orders.post("/v1/inbox/try-begin", &json!({"key": "k"})), 403),
            "caveat topic_prefix"
        );
        // One delivery: a receipt has the uid, the owner and the fence.
        let digits = receipts[0].to_lowercase();
        let uid = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-");
        let fence = u64::from_str_radix(&receipts[0][64..], 16).unwrap();
        let delivery = guarded.client(&["--delivery", &format!("{uid}/{fence}")]);
        assert_eq!(reason(&delivery.ack(&receipts[1]), 403), "caveat delivery");
        delivery.ack(&receipts[0]).ok();
        assert_eq!(reason(&delivery.recv("invoices"), 403), "caveat delivery");
        assert!(!guarded.server.log().contains(&all.token), "no token is logged");
    });
}

/// What was received with a token can be settled after the token has expired or was revoked, or its key was retired; and
/// nothing else can be done with it.
/// Holds: MBX-I-15, MBX-G-10, MBX-C-6.
#[test]
fn deliveries_in_flight_outlive_their_token() {
    on_every_store(|guarded| {
        let operator = guarded.client(&["--name", "ann"]);
        for ending in ["expired", "revoked", "key_retired"] {
            let other = guarded.client(&[]);
            let of_other = other.take("t", &[&format!("{ending} other")]);
            let valid_for = if ending == "expired" { "4s" } else { "1h" };
            let (worker, held) = guarded.worker_with_five(valid_for);
            match ending {
                "revoked" => operator.revoke(&worker.nonce(), false),
                "key_retired" => {
                    guarded.change_keys("rotate", &[]);
                    guarded.change_keys("key-status", &["k1", "retired"]);
                }
                _ => {
                    while worker.recv("t").status == 200 {
                        std::thread::park_timeout(Duration::from_millis(50));
                    }
                }
            }
            assert_eq!(reason(&worker.recv("t"), 401), ending);
            assert_eq!(reason(&worker.send("t", "late"), 401), ending);
            let extend = json!({"visibility_ms": 60_000});
            assert_eq!(reason(&worker.post(&format!("/v1/extend/{}", held[0]), &extend), 401), ending);
            // In flight.
            assert_eq!(worker.ack(&held[0]).ok(), json!({"ok": true}), "{ending}");
            assert_eq!(worker.ack(&held[0]).ok(), json!({"ok": true}), "{ending}: repeated");
            worker.post(&format!("/v1/nack/{}", held[1]), &json!({"dead": true})).ok();
            let settles = json!([
                {"delivery": held[2], "op": "ack"},
                {"delivery": held[3], "op": "extend", "visibility_ms": 60_000},
                {"delivery": of_other[0], "op": "ack"},
            ]);
            let settled = worker.post("/v1/settle", &json!({"settle": settles})).ok();
            let codes = [0, 1, 2].map(|index| settled["results"][index]["code"].as_str());
            assert_eq!(codes, [None, Some("E_CAP_AUTH"), Some("E_CAP_AUTH")], "{ending}: {settled}");
            let work = json!({"settle": [{"delivery": held[4], "op": "ack"}], "recv": {"topic": "t"}});
            let settled = worker.post("/v1/work", &work).ok();
            assert_eq!((&settled["results"][0]["ok"], &settled["messages"]), (&json!(true), &json!([])));
            assert_eq!(settled["refused"]["reason"], ending, "{settled}");
            let only_recv = worker.post("/v1/work", &json!({"settle": [], "recv": {"topic": "t"}}));
            assert_eq!(reason(&only_recv, 401), ending);
            // Not what another token received, also not with a narrower token of the same nonce.
            assert_eq!(reason(&worker.ack(&of_other[0]), 401), ending);
            if ending == "key_retired" {
                // Its own deliveries, with the same retired key.
                assert_eq!(other.ack(&of_other[0]).ok(), json!({"ok": true}));
                guarded.change_keys("key-status", &["k1", "compromised"]);
                assert_eq!(reason(&worker.ack(&held[3]), 401), "key_compromised");
            } else {
                other.ack(&of_other[0]).ok();
                worker.ack(&held[3]).ok();
            }
        }
        // New capabilities work, and nothing is stranded but what a compromised token held, until its timeout ends.
        let fresh = guarded.client(&[]);
        fresh.send("t", "after").ok();
        assert_eq!(fresh.recv("t").ok()["messages"].as_array().unwrap().len(), 1);
        let counts = fresh.get("/v1/admin/counts?topic=t").ok();
        assert_eq!(counts["in_flight"], 2, "{counts}");
    });
}

/// A compromised token settles nothing, and its deliveries come back.
/// Holds: MBX-I-15.
#[test]
fn a_compromised_token_settles_nothing() {
    on_every_store(|guarded| {
        let (operator, worker) = (guarded.client(&[]), guarded.client(&[]));
        worker.send("t", "1").ok();
        let taken = worker.post("/v1/recv", &json!({"topic": "t", "visibility_ms": 1_000})).ok();
        operator.revoke(&worker.nonce(), true);
        assert_eq!(reason(&worker.ack(text(&taken["messages"][0], "receipt")), 401), "key_compromised");
        let again = operator.post("/v1/recv", &json!({"topic": "t", "wait_ms": 30_000})).ok();
        assert_eq!(again["messages"][0]["attempt"], 2, "{again}");
    });
}

/// Keys are rotated and tokens revoked while workers send, receive and settle. Each settles with the token that it
/// received with, and goes on with the newest.
/// Holds: MBX-G-10.
#[test]
fn keys_and_tokens_change_under_live_traffic() {
    on_every_store(|guarded| {
        let mut operator = guarded.client(&[]);
        let newest = Mutex::new(guarded.client(&[]).token);
        let (sent, acked, refused) =
            (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()), AtomicU64::new(0));
        let stopping = AtomicBool::new(false);
        let work = |worker: usize| {
            for number in 0.. {
                let token = newest.lock().unwrap().clone();
                let client = Client { server: &guarded.server, token };
                let key = format!("{worker}-{number}");
                let answer = client.send("t", &key);
                match answer.status {
                    200 => assert!(sent.lock().unwrap().insert(key)),
                    _ => {
                        assert!(
                            ["revoked", "key_retired"].contains(&&*reason(&answer, 401)),
                            "{}",
                            answer.text()
                        );
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let received = client.post("/v1/recv", &json!({"topic": "t", "max_messages": 4}));
                if received.status != 200 {
                    reason(&received, 401);
                    continue;
                }
                std::thread::park_timeout(Duration::from_millis(5));
                for message in received.json()["messages"].as_array().unwrap() {
                    client.ack(text(message, "receipt")).ok();
                    assert!(acked.lock().unwrap().insert(text(message, "idem_key").to_owned()), "{message}");
                }
                if stopping.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let work = &work;
                scope.spawn(move || work(worker));
            }
            for round in 1..=3 {
                guarded.change_keys("rotate", &["--id", &format!("r{round}")]);
                let before = newest.lock().unwrap().clone();
                let before = Client { server: &guarded.server, token: before };
                operator = guarded.client(&[]);
                operator.revoke(&before.nonce(), false);
                *newest.lock().unwrap() = guarded.client(&[]).token;
                let old = if round == 1 { "k1".to_owned() } else { format!("r{}", round - 1) };
                guarded.change_keys("key-status", &[&old, "retired"]);
            }
            stopping.store(true, Ordering::Relaxed);
        });
        loop {
            let left = operator.post("/v1/recv", &json!({"topic": "t", "max_messages": 256})).ok();
            let left = left["messages"].as_array().unwrap().clone();
            if left.is_empty() {
                break;
            }
            for message in &left {
                operator.ack(text(message, "receipt")).ok();
                assert!(acked.lock().unwrap().insert(text(message, "idem_key").to_owned()), "{message}");
            }
        }
        let sent = sent.into_inner().unwrap();
        assert_eq!(acked.into_inner().unwrap(), sent, "each once, and none is left behind");
        let counts = operator.get("/v1/admin/counts?topic=t").ok();
        assert_eq!((&counts["in_flight"], &counts["ready"]), (&json!(0), &json!(0)), "{counts}");
        println!("{} messages, {} refused requests", sent.len(), refused.into_inner());
    });
}

/// A revocation applies at once where it was made, within the time limit on another server, and after kill -9.
/// Holds: MBX-G-10, RULE-21.
#[test]
fn a_revocation_reaches_every_server_and_survives_a_crash() {
    let storage = new_storage();
    let [one, two] =
        [(); 2].map(|()| Guarded::start_in(storage.clone(), Store::Postgres, &["auth.cap_cache_ttl=10s"]));
    let (operator, worker) = (one.client(&[]), one.client(&[]));
    let there = Client { server: &two.server, token: worker.token.clone() };
    there.send("t", "1").ok();
    operator.revoke(&worker.nonce(), false);
    let revoked_at = Instant::now();
    assert_eq!(reason(&worker.send("t", "2"), 401), "revoked");
    loop {
        let age = revoked_at.elapsed();
        match there.recv("t").status {
            401 => break,
            // However slow the machine is: a server uses no older copy of the revocations.
            200 => assert!(age < Duration::from_secs(10), "{age:?} after the revocation"),
            status => assert_eq!(status, 503, "the revocations could not be read in time"),
        }
        assert!(age < Duration::from_secs(60), "never");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    println!("on the other server after {:?}", revoked_at.elapsed());
    assert_eq!(reason(&there.recv("t"), 401), "revoked");

    for store in [Store::Memory, Store::Embedded, Store::Postgres] {
        let guarded = Guarded::start(store);
        let (operator, worker) = (guarded.client(&[]), guarded.client(&[]));
        let (nonce, tokens) = (worker.nonce(), [operator.token.clone(), worker.token.clone()]);
        operator.revoke(&nonce, false);
        let guarded = Guarded::start_in(guarded.server.kill(), store, &[]);
        let [operator, worker] = tokens.map(|token| Client { server: &guarded.server, token });
        assert_eq!(reason(&worker.send("t", "1"), 401), "revoked", "{store:?}");
        operator.send("t", "1").ok();
        let listed = operator.get("/v1/admin/revocations").ok();
        assert_eq!(
            (listed["revocations"].as_array().unwrap().len(), text(&listed["revocations"][0], "target")),
            (1, &*format!("nonce:{nonce}"))
        );
        assert!(text(&listed["revocations"][0], "actor").starts_with("token "), "{listed}");
    }
}

/// A receiver that waits is sent away when its token is revoked or expires, and gets nothing from then on.
/// Holds: MBX-I-15.
#[test]
fn waiting_receivers_and_streams_end_with_their_token() {
    on_every_store(|guarded| {
        let operator = guarded.client(&[]);
        let (waiter, streamer) = (guarded.client(&[]), guarded.client(&[]));
        let wait = json!({"topic": "t", "wait_ms": 60_000});
        let mut waiting = guarded.server.connect();
        waiting.write(&waiter.request(Request::post("/v1/recv", &wait)).to_bytes());
        let mut stream = guarded.server.connect();
        stream.write(&streamer.request(Request::post("/v1/recv/stream", &wait)).to_bytes());
        assert!(stream.head().unwrap().starts_with("HTTP/1.1 200"));
        let began = Instant::now();
        for client in [&waiter, &streamer] {
            operator.revoke(&client.nonce(), false);
        }
        assert_eq!(waiting.answer().ok()["messages"], json!([]));
        assert_eq!(stream.chunk().unwrap(), None, "the end of the stream");
        assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
        operator.send("t", "1").ok();
        assert_eq!(operator.recv("t").ok()["messages"].as_array().unwrap().len(), 1, "nobody else got it");
        let expiring = Client { server: &guarded.server, token: guarded.mint(&["--for", "5s"]) };
        // On a slow machine, it has expired before it begins to wait.
        assert!([200, 401].contains(&expiring.post("/v1/recv", &wait).status));
        assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
    });
}

#[test]
fn forged_changed_and_foreign_tokens_are_refused() {
    let (guarded, other) = (Guarded::start(Store::Memory), Guarded::start(Store::Memory));
    let good = guarded.client(&["--topic", "a"]);
    good.send("a", "1").ok();
    let foreign = Client { server: &guarded.server, token: other.client(&[]).token };
    assert_eq!(reason(&foreign.send("a", "1"), 401), "bad_signature");
    let with = |token: String| Client { server: &guarded.server, token }.send("a", "1");
    for (token, expected) in [
        ("AgEB".to_owned(), "malformed"),
        (format!("{}AA", good.token), "malformed"),
        (format!("{}AAAA", &good.token[..good.token.len() - 4]), "bad_signature"),
        ("A".repeat(30_000), "malformed"),
    ] {
        let answer = with(token.clone());
        // A signature may end with these digits by itself, once in 16 million.
        if answer.status == 400 || answer.status == 431 {
            assert!(token.len() > 10_000, "{}", answer.text());
            continue;
        }
        assert_eq!(reason(&answer, 401), expected, "{token}");
    }
    let twice = good.request(good.request(Request::get("/v1/admin/stats")));
    guarded.server.call(&twice).refused(400, "E_SCHEMA");
    let basic = Request::get("/v1/admin/stats").header("authorization", "Basic YTpi");
    assert_eq!(reason(&guarded.server.call(&basic), 401), "missing");
    assert_eq!(reason(&guarded.client(&["--valid-in", "1h"]).send("a", "1"), 401), "not_yet_valid");
    let narrow = guarded.client(&["--client", "10.0.0.0/8"]);
    assert_eq!(reason(&narrow.send("a", "1"), 403), "caveat client");
    guarded.client(&["--client", "127.0.0.0/8"]).send("a", "1").ok();
}

/// A receiver passes on a delivery without its rights.
#[test]
fn a_delivery_is_passed_on_with_a_token_of_its_own() {
    on_every_store(|guarded| {
        let receiver = guarded.client(&["--topic", "t"]);
        for key in ["1", "2", "3", "4"] {
            receiver.send("t", key).ok();
        }
        let request = |wanted: u32| json!({"topic": "t", "delegate": true, "max_messages": wanted});
        let messages = receiver.post("/v1/recv", &request(2)).ok();
        let [one, other] = [0, 1].map(|index| messages["messages"][index].clone());
        let task = Client { server: &guarded.server, token: text(&one, "capability").to_owned() };
        assert_eq!(reason(&task.ack(text(&other, "receipt")), 403), "caveat delivery");
        assert_eq!(reason(&task.recv("t"), 403), "caveat op");
        assert_eq!(reason(&task.send("t", "5"), 403), "caveat op");
        let extend = json!({"visibility_ms": 60_000});
        task.post(&format!("/v1/extend/{}", text(&one, "receipt")), &extend).ok();
        task.ack(text(&one, "msg_id")).ok();
        let worked = receiver.post("/v1/work", &json!({"settle": [], "recv": request(1)})).ok();
        assert!(worked["messages"][0]["capability"].is_string(), "{worked}");
        let binary = Request::post("/v1/recv", &json!({"topic": "t", "delegate": true}));
        let binary = receiver.call(binary.header("accept", "application/octet-stream"));
        let task =
            Client { server: &guarded.server, token: binary.header("x-capability").unwrap().to_owned() };
        task.ack(binary.header("x-receipt").unwrap()).ok();
        let full = (0..30).fold(receiver.token.clone(), |token, number| {
            Client { server: &guarded.server, token }.attenuated(&["--name", &number.to_string()])
        });
        let full = Client { server: &guarded.server, token: full };
        let message = full.post("/v1/recv", &request(1)).refused(400, "E_SCHEMA");
        assert!(message.contains("two more caveats"), "{message}");
    });
    let open = Server::start(Store::Memory, &[]);
    let message = open.post("/v1/recv", &json!({"topic": "t", "delegate": true})).refused(400, "E_SCHEMA");
    assert!(message.contains("demands none"), "{message}");
}

/// Who has a narrower token that has ended cannot settle what others receive after its end.
/// Holds: MBX-I-15.
#[test]
fn an_attenuated_token_that_has_ended_settles_nothing_that_others_receive() {
    on_every_store(|guarded| {
        let worker = guarded.client(&[]);
        let ended =
            Client { server: &guarded.server, token: worker.attenuated(&["--op", "nack", "--for", "0s"]) };
        worker.send("t", "1").ok();
        let held = worker.recv("t").ok()["messages"][0].clone();
        for delivery in ["msg_id", "receipt"].map(|name| text(&held, name)) {
            let nack = ended.post(&format!("/v1/nack/{delivery}"), &json!({"dead": true}));
            assert_eq!(reason(&nack, 401), "expired", "{delivery}");
        }
        worker.ack(text(&held, "receipt")).ok();
    });
}

/// A lease on a key of the ledger has the form of a receipt.
/// Holds: MBX-I-8.
#[test]
fn a_token_for_the_mailbox_settles_no_keys_of_the_ledger() {
    on_every_store(|guarded| {
        let ledger = guarded.client(&["--namespace", "ledger"]);
        let lease = ledger.post("/v1/inbox/try-begin", &json!({"key": "k"})).ok();
        let lease = text(&lease, "leaseId").to_owned();
        for limit in [["--topic", "orders"], ["--namespace", "mailbox"]] {
            let mailbox = guarded.client(&limit);
            mailbox.ack(&lease).refused(404, "E_LEASE_LOST");
            let settled =
                mailbox.post("/v1/settle", &json!({"settle": [{"delivery": lease, "op": "ack"}]})).ok();
            assert_eq!(settled["results"][0]["code"], "E_LEASE_LOST", "{limit:?}: {settled}");
        }
        assert_eq!(ledger.get("/v1/inbox/k").ok()["status"], "Busy");
    });
}

/// A stream and a receiver that waits end when their key is retired.
/// Holds: MBX-I-15.
#[test]
fn streams_and_waiting_receivers_end_with_their_key() {
    let guarded = Guarded::start(Store::Memory);
    let client = guarded.client(&[]);
    let wait = json!({"topic": "t", "wait_ms": 60_000});
    let mut stream = guarded.server.connect();
    stream.write(&client.request(Request::post("/v1/recv/stream", &wait)).to_bytes());
    assert!(stream.head().unwrap().starts_with("HTTP/1.1 200"));
    let mut waiting = guarded.server.connect();
    waiting.write(&client.request(Request::post("/v1/recv", &wait)).to_bytes());
    let began = Instant::now();
    guarded.change_keys("rotate", &[]);
    guarded.change_keys("key-status", &["k1", "compromised"]);
    assert_eq!(stream.chunk().unwrap(), None, "the end of the stream");
    assert_eq!(waiting.answer().ok()["messages"], json!([]));
    assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
}

/// What a worker has begun it can end, whatever its rate.
#[test]
fn a_rate_limits_what_is_received_and_no_settlements() {
    let guarded = Guarded::start(Store::Memory);
    let (sender, slow) = (guarded.client(&[]), guarded.client(&["--rate", "2"]));
    for number in 0..30 {
        sender.send("t", &number.to_string()).ok();
    }
    let request = json!({"topic": "t", "max_messages": 20});
    let received = slow.post("/v1/recv", &request).ok();
    let receipts = texts(received["messages"].as_array().unwrap(), "receipt");
    assert_eq!(receipts.len(), 20);
    slow.post("/v1/recv", &request).refused(429, "E_SATURATED");
    let settles: Vec<_> = receipts.iter().map(|receipt| json!({"delivery": receipt, "op": "ack"})).collect();
    let settled = slow.post("/v1/settle", &json!({"settle": settles})).ok();
    assert!(settled["results"].as_array().unwrap().iter().all(|result| result["ok"] == true), "{settled}");
    slow.get("/v1/admin/stats").refused(429, "E_SATURATED");
}

#[test]
fn a_rate_is_enforced_with_a_time_to_retry() {
    let guarded = Guarded::start(Store::Memory);
    let slow = guarded.client(&["--rate", "3"]);
    let answers: Vec<_> = (0..20).map(|number| slow.send("t", &number.to_string())).collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!((10..=17).contains(&refused.len()), "{}", refused.len());
    assert!(refused[0].refused(429, "E_SATURATED").contains("`rate`"));
    assert_eq!((&refused[0].json()["caveat"], refused[0].header("retry-after")), (&json!("rate"), Some("1")));
    let batch: Vec<_> = (0..4)
        .map(|number| json!({"topic": "t", "idem_key": number.to_string(), "payload_b64": ""}))
        .collect();
    slow.post("/v1/queues/mailbox/send", &json!({"messages": batch})).refused(429, "E_SATURATED");
    guarded.client(&[]).send("t", "x").ok();
}

/// The client and the commands send the token of a file, and of `login`.
#[test]
fn commands_use_the_token_of_a_file_and_of_login() {
    let guarded = Guarded::start(Store::Memory);
    let directory = guarded.server.path();
    let (file, home) = (directory.join("token"), directory.join("home"));
    fs::write(&file, guarded.mint(&["--name", "ann", "--for", "1h"])).unwrap();
    let server = format!("http://{}", guarded.server.address);
    let run = |arguments: &[&str], token_file: Option<&Path>| {
        let mut command = oncebox(&[&["--server", &server], arguments].concat());
        command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").env_remove("ONCEBOX_TOKEN_FILE");
        if let Some(file) = token_file {
            command.env("ONCEBOX_TOKEN_FILE", file);
        }
        CommandOutput::from(command.output().expect("the binary runs"))
    };
    let refused = run(&["topics"], None);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains("no token"), "{}", refused.stderr);
    assert_eq!(run(&["topics"], Some(&file)).code, Some(0));
    assert_eq!(run(&["topics", "--token-file", path_text(&file)], None).code, Some(0));
    let login = run(&["login"], Some(&file));
    assert_eq!(login.code, Some(0), "{login:?}");
    assert_eq!(run(&["topics"], None).code, Some(0));
    let revoked = run(&["cap", "revoke", "--token", path_text(&file), "--because", "leaked"], None);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    let refused = run(&["topics"], None);
    assert!(refused.code == Some(3) && refused.stderr.contains("revoked"), "{refused:?}");
    let operator = directory.join("operator");
    fs::write(&operator, guarded.mint(&["--for", "1h"])).unwrap();
    let listed = run(&["cap", "revocations", "--output", "json"], Some(&operator));
    assert!(listed.stdout.contains("leaked") && listed.stdout.contains("ann (token "), "{listed:?}");
    assert_eq!(run(&["login", "--forget"], None).code, Some(0));
    assert!(run(&["topics"], None).stderr.contains("no token"));
    assert_eq!(run(&["topics"], Some(&directory.join("missing"))).code, Some(1));
}

/// What `oncebox init` makes is all that a server with tokens needs.
#[test]
fn a_server_starts_with_what_init_makes() {
    let storage = new_storage();
    let directory = storage.path().join("made");
    let next = succeeds(&["init", path_text(&directory)]);
    let config = path_text(&directory.join("oncebox.toml")).to_owned();
    let expected = [
        format!("oncebox serve --config {config}"),
        format!("oncebox login --token-file {}", path_text(&directory.join("operator.token"))),
        "oncebox topics".to_owned(),
    ];
    assert_eq!(next.lines().collect::<Vec<_>>(), expected);
    let server = Server::start_with(storage, &["--config", &config], &[]);
    let token = fs::read_to_string(directory.join("operator.token")).unwrap().trim().to_owned();
    Client { server: &server, token }.send("t", "1").ok();
    assert_eq!(reason(&server.post("/v1/recv", &json!({"topic": "t"})), 401), "missing");
    let again = command(&["init", path_text(&directory)]);
    assert!(again.code == Some(1) && again.stderr.contains("nothing was changed"), "{again:?}");
    let partly = directory.join("partly");
    fs::create_dir(&partly).unwrap();
    fs::write(partly.join("oncebox.toml"), "").unwrap();
    assert_eq!(command(&["init", path_text(&partly)]).code, Some(1));
    assert!(!partly.join("keys").exists());
}

/// A key file that is damaged changes nothing, and the server says so.
#[test]
fn a_key_file_that_cannot_be_read_again_leaves_the_old_keys() {
    let guarded = Guarded::start(Store::Memory);
    let client = guarded.client(&[]);
    fs::write(&guarded.key_file, "k1 active short").unwrap();
    guarded.server.signal(Signal::HUP);
    let line = guarded.server.wait_for_line("configuration reload failed");
    assert!(line.contains("key file"), "{line}");
    client.send("t", "1").ok();
    let ready = guarded.server.get("/readyz");
    assert_eq!(ready.status, 200, "{}", ready.text());
}
