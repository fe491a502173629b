//! Amnesia: nothing is written to disk, and the server reports it. Without amnesia, dead letters survive a restart.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::http::{Connection, Request};
use super::mailbox_client::{NOTHING, base64, text};
use super::memory::Marker;
use super::rig::{Server, Store, new_storage, on_durable_stores};

const QUICK: [&str; 3] =
    ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"];

const NO_FILES: [PathBuf; 0] = [];

/// All files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The regular files that a server has open for writing, except its log.
fn written_files(server: &Server) -> Vec<PathBuf> {
    let pid = server.pid();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs");
    let mut found = Vec::new();
    for entry in descriptors.map(|entry| entry.expect("an entry")) {
        // The descriptor may have been closed in the meantime.
        let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
        let number = entry.file_name().into_string().expect("a number");
        let Ok(about) = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")) else { continue };
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
        let writes = u32::from_str_radix(flags, 8).expect("a number") & 0o3 != 0;
        if metadata.is_file() && writes {
            found.push(std::fs::read_link(entry.path()).unwrap_or_default());
        }
    }
    found.retain(|path| path != server.log_path());
    found
}

/// Sends, receives, nacks and acknowledges messages, and makes a dead letter.
fn soak(server: &Server) {
    for number in 0..20 {
        server.sent("t", &number.to_string());
    }
    for _ in 0..10 {
        let message = server.recv_one("t");
        server.nack(text(&message, "receipt"), "later").ok();
        let message = server.recv_one("t");
        server.ack(text(&message, "receipt")).ok();
    }
    server.sent("poison", "p");
    server.fail("poison", 2);
    let begun = server.post("/v1/inbox/try-begin", &json!({"key": "k"})).ok();
    server.post("/v1/inbox/mark-processed", &json!({"key": "k", "leaseId": begun["leaseId"]})).ok();
    assert_eq!(server.counts("poison")["dead"], 1);
}

/// Replays R-T16.
/// Holds: MBX-G-6, MBX-I-9, MBX-I-16, MBX-C-7.
#[test]
fn with_amnesia_nothing_is_written() {
    for arguments in [&["--amnesia"][..], &["--profile", "micronode"]] {
        let storage = new_storage();
        let server = Server::start_with(storage.clone(), arguments, &QUICK);
        soak(&server);
        assert_eq!(files_below(storage.path()), NO_FILES);
        assert_eq!(written_files(&server), NO_FILES);
        let stats = server.get("/v1/admin/stats").ok();
        assert_eq!((&stats["amnesia"], text(&stats, "dlq_profile")), (&json!(true), "ephemeral"));
        let reply = server.metric(r#"oncebox_mailbox_profile_info{dlq_profile="ephemeral"}"#);
        assert_eq!(reply.as_deref(), Some("1"));
        server.stop();
        assert_eq!(files_below(storage.path()), NO_FILES, "nor after the shutdown");
        let server = Server::start_with(storage, arguments, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok()["messages"], json!(NOTHING));
    }
}

/// Records are in memory: a pause works, is written nowhere, and ends with the process.
/// Holds: RULE-32.
#[test]
fn with_amnesia_a_pause_ends_with_the_process() {
    let storage = new_storage();
    let server = Server::start_with(storage.clone(), &["--amnesia"], &QUICK);
    server.post("/v1/admin/topics/pause", &json!({"topic": "t", "pause": "sending"})).ok();
    server.send("t", "1", "1").refused(429, "E_SATURATED");
    assert_eq!((files_below(storage.path()), written_files(&server)), (vec![], vec![]));
    server.stop();
    let server = Server::start_with(storage, &["--amnesia"], &QUICK);
    assert_eq!(server.get("/v1/admin/topics/paused").ok()["topics"], json!(NOTHING));
    server.sent("t", "1");
}

/// Replays R-T16.
/// Holds: MBX-G-6, MBX-I-16.
#[test]
fn without_amnesia_dead_letters_survive_a_restart() {
    on_durable_stores(|store| {
        let server = Server::start(store, &QUICK);
        if store == Store::Embedded {
            assert_ne!(written_files(&server), NO_FILES, "the test above would detect a journal");
        }
        soak(&server);
        let dead_letters = server.get("/v1/dlq").ok();
        let stats = server.get("/v1/admin/stats").ok();
        assert_eq!((&stats["amnesia"], text(&stats, "dlq_profile")), (&json!(false), "durable"));
        let server = Server::start_in(server.kill(), store, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok(), dead_letters, "after a crash");
        let server = Server::start_in(server.stop(), store, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok(), dead_letters, "after a stop");
        let reply = server.metric(r#"oncebox_mailbox_profile_info{dlq_profile="durable"}"#);
        assert_eq!(reply.as_deref(), Some("1"));
        let swept = server.post("/v1/dlq/reprocess", &json!({"topic": "poison"})).ok();
        assert_eq!(swept["changed"], 1);
        assert_eq!(text(&server.recv_one("poison"), "idem_key"), "p");
    });
}

/// Without the binary that overwrites freed memory, the server does not start.
/// Holds: MBX-I-9.
#[test]
fn amnesia_without_its_binary_is_refused() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let alone = directory.path().join("oncebox");
    std::fs::hard_link(env!("CARGO_BIN_EXE_oncebox"), &alone).expect("a hard link to the binary");
    let ran = Command::new(&alone).args(["serve", "--amnesia", "--listen", "127.0.0.1:0"]).output();
    let ran = ran.expect("the binary runs");
    let reply = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{reply}");
    assert!(reply.contains("oncebox-amnesia") && reply.contains("install it next to"), "{reply}");
}

/// Payload sizes from a line to several times the buffer of a connection.
const REPEATS: [usize; 3] = [1, 100, 10_000];

/// Maximum number of searches before a copy counts as permanent.
const SEARCHES_MAX: usize = 50;

/// Sends payloads with a marker through every call that carries payloads, up to the last acknowledgement. Returns the
/// connections that it used, which are still open on the client side.
fn use_every_call(server: &Server, marker: &Marker) -> Vec<Connection> {
    let mut connections = Vec::new();
    let mut call = |request: Request| {
        let mut connection = server.connect();
        let answer = connection.call(&request);
        connections.push(connection);
        answer
    };
    for (number, repeats) in REPEATS.into_iter().enumerate() {
        let payload = |before: usize| marker.payload(before, repeats);
        let message = |topic: &str, before: usize| {
            let key = format!("{number} {before}");
            let attrs = json!({"secret": base64(marker.payload(before, 1))});
            json!({"topic": topic, "idem_key": key, "payload_b64": base64(payload(before)), "attrs": attrs})
        };
        call(Request::post("/v1/send", &message("t", 0))).ok();
        call(Request::post(
            "/v1/queues/mailbox/send",
            &json!({"messages": [message("t", 1), message("t", 2)]}),
        ))
        .ok();
        let bytes = Request::new("POST", "/v1/send").header("content-type", "application/octet-stream");
        let bytes = bytes.header("x-topic", "t").header("x-idem-key", &number.to_string());
        call(bytes.body(payload(0))).ok();
        call(Request::post("/v1/send", &message("poison", 1))).ok();
        assert_ne!(marker.found_in(server.pid()), [""; 0], "the search finds payloads in use");

        let request =
            json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 1, "max_bytes": 1_000_000});
        let received = call(Request::post("/v1/recv", &request)).ok();
        let receipt = |received: &Value| text(&received["messages"][0], "receipt").to_owned();
        let reason = json!({"reason": base64(marker.payload(0, 1))});
        call(Request::post(&format!("/v1/nack/{}", receipt(&received)), &reason)).ok();
        for _ in 0..2 {
            let received = server.recv_one("t");
            call(Request::post(&format!("/v1/ack/{}", text(&received, "receipt")), &json!({}))).ok();
        }
        let mut settle = NOTHING.to_vec();
        for _ in 0..2 {
            let recv = json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 1, "wait_ms": 60_000});
            let worked = call(Request::post("/v1/work", &json!({"settle": settle, "recv": recv}))).ok();
            settle = vec![json!({"op": "ack", "delivery": receipt(&worked)})];
        }
        call(Request::post("/v1/settle", &json!({"settle": settle}))).ok();

        server.fail("poison", 2);
        let dead_letters = call(Request::get("/v1/dlq")).ok();
        let id = text(&dead_letters["messages"][0], "msg_id").to_owned();
        call(Request::get(&format!("/v1/dlq/{id}?payload=true"))).ok();
        call(Request::post("/v1/dlq/reprocess", &json!({"topic": "poison"}))).ok();
        let received = server.recv_one("poison");
        call(Request::post(&format!("/v1/ack/{}", text(&received, "receipt")), &json!({}))).ok();
    }
    connections
}

/// After the last acknowledgement, the memory of the process has no copy of a payload, an attribute or the reason of a
/// failure, not even in buffers of connections that clients keep open. Without amnesia, the same search finds copies.
/// Holds: MBX-I-9.
#[test]
fn with_amnesia_no_copy_of_a_payload_stays_in_memory() {
    let set = [&QUICK[..], &["mailbox.shards=1"]].concat();
    let marker = Marker::random();
    let server = Server::start_with(new_storage(), &["--amnesia"], &set);
    let connections = use_every_call(&server, &marker);
    for number in 0..20 {
        server.sent("others", &number.to_string());
        server.ack(text(&server.recv_one("others"), "receipt")).ok();
    }
    // The last buffers are freed shortly after the last response.
    let found = std::cell::RefCell::new(Vec::new());
    let gone = server.try_eventually(SEARCHES_MAX, || {
        found.replace(marker.found_in(server.pid()));
        found.borrow().is_empty().then_some(())
    });
    assert!(gone.is_some(), "copies remain: {:?}", found.borrow());
    drop(connections);

    let marker = Marker::random();
    let server = Server::start(Store::Memory, &set);
    let _connections = use_every_call(&server, &marker);
    assert_ne!(marker.found_in(server.pid()), [""; 0], "without amnesia, freed memory is not overwritten");
}
