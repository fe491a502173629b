//! A store directory belongs to one process, even if files are deleted or moved; and truncation at startup is logged.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::http::TIMEOUT;
use super::mailbox_client::{NOTHING, text};
use super::rig::{Server, Store, new_storage};
use crate::rig::oncebox;

/// Pause between two polls of a process.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Waits until a process exits; a process that keeps running is killed and fails the test.
pub(super) fn wait_for_exit(mut child: Child) -> (Option<i32>, String) {
    for _ in 0..TIMEOUT.as_millis() / PAUSE.as_millis() {
        if child.try_wait().expect("a child").is_some() {
            let output = child.wait_with_output().expect("the process exited");
            return (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        }
        std::thread::park_timeout(PAUSE);
    }
    let _ = child.kill();
    panic!("a second process opened the store: {:?}", child.wait_with_output());
}

/// Asserts that a second process on the same directory exits and names the holder.
#[track_caller]
fn refused(directory: &Path, holder: &str) {
    let store = format!("embedded:{}", directory.display());
    let mut command = oncebox(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--set", "admin.listen=off"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (code, stderr) = wait_for_exit(command.spawn().expect("the binary runs"));
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains(&format!("is in use by process {holder}")), "{stderr}");
}

/// Holds: RULE-13.
#[test]
fn a_second_process_is_refused_even_if_the_lock_file_is_deleted() {
    let storage = new_storage();
    let data = storage.path().join("data");
    let server = Server::start_in(storage, Store::Embedded, &[]);
    server.sent("t", "1");
    refused(&data, &server.pid().to_string());
    std::fs::remove_file(data.join("lock")).expect("the file is there");
    refused(&data, "(unknown)");
    refused(&data, "(unknown)");
    server.sent("t", "2");
    // The lock ends with the process, however it ended.
    let server = Server::start_in(server.kill(), Store::Embedded, &[]);
    assert_eq!(server.counts("t")["ready"], 2);
}

/// Another process may create a new store at the same path. The first process then refuses all calls, so that neither
/// accepts messages for the other.
/// Holds: RULE-13.
#[test]
fn a_process_whose_directory_was_deleted_refuses_all_calls() {
    let storage = new_storage();
    let data = storage.path().join("data");
    let first = Server::start_in(storage.clone(), Store::Embedded, &[]);
    first.sent("t", "1");
    oncebox_testkit::directory::delete(&data).expect("the directory exists");
    let second = Server::start_in(storage, Store::Embedded, &[]);
    assert_eq!(second.recv("t"), NOTHING, "the second process has a new store");
    for idem_key in ["2", "3"] {
        let reply = first.send("t", idem_key, "").refused(503, "E_UNAVAILABLE");
        assert!(reply.contains("deleted or replaced"), "{reply}");
    }
    first.send("t", "1", "1").refused(503, "E_UNAVAILABLE");
    // Readiness reports what senders get.
    let ready = first.get("/readyz?for=reads");
    let json = ready.json();
    assert_eq!((ready.status, &json["writes"]), (503, &Value::from(false)), "{json}");
    assert!(json["missing"].as_array().expect("a list").contains(&Value::from("store")), "{json}");
    let mut findings = json["findings"].as_array().expect("a list").iter();
    let is_named = |finding: &Value| text(finding, "text").contains("deleted or replaced");
    assert!(findings.any(|finding| finding["subject"] == "store" && is_named(finding)), "{json}");
    let stats = first.get("/v1/admin/stats").ok();
    assert_eq!(stats["unknown"], serde_json::json!(["namespaces", "bounds"]), "{stats}");
    assert_eq!(first.metric("oncebox_store_up").as_deref(), Some("0"));
    second.sent("t", "1");
    assert_eq!(second.recv("t").len(), 1);
}

/// Holds: RULE-13.
#[test]
fn a_moved_directory_still_belongs_to_its_process() {
    let storage = new_storage();
    let (data, moved) = (storage.path().join("data"), storage.path().join("moved"));
    let server = Server::start_in(storage.clone(), Store::Embedded, &[]);
    server.sent("t", "1");
    std::fs::rename(&data, &moved).expect("the directory exists");
    refused(&moved, &server.pid().to_string());
    server.send("t", "2", "").refused(503, "E_UNAVAILABLE");
    server.kill();
    std::fs::rename(&moved, &data).expect("the directory exists");
    let server = Server::start_in(storage, Store::Embedded, &[]);
    assert_eq!(text(&server.recv_one("t"), "idem_key"), "1");
}

/// The newest segment, and the offset of its last non-zero byte.
fn end_of_journal(data: &Path) -> (std::path::PathBuf, usize) {
    let entries = std::fs::read_dir(data).expect("a directory").map(|entry| entry.expect("an entry").path());
    let segments = entries.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    let generation = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).expect("a file");
        u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"))
    };
    let newest = segments.max_by_key(generation).expect("a segment");
    let bytes = std::fs::read(&newest).expect("a file");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("the segment is not empty");
    (newest, end)
}

/// Holds: RULE-13.
#[test]
fn truncation_of_a_damaged_end_is_logged() {
    let server = Server::start(Store::Embedded, &[]);
    (0..5).for_each(|number| drop(server.sent("t", &number.to_string())));
    let storage = server.kill();
    let (segment, end) = end_of_journal(&storage.path().join("data"));
    let mut bytes = std::fs::read(&segment).expect("a file");
    bytes[end] ^= 1;
    std::fs::write(&segment, bytes).expect("a file");
    let server = Server::start_in(storage, Store::Embedded, &[]);
    let line = server.wait_for_line("are truncated");
    let line: Value = serde_json::from_str(&line).expect("a line is JSON");
    assert_eq!(
        (text(&line, "level"), text(&line, "segment")),
        ("WARN", segment.file_name().unwrap().to_str().unwrap())
    );
    let number = |name: &str| line[name].as_u64().expect("a number");
    assert_eq!((number("offset") + number("bytes"), number("frames")), (end as u64 + 1, 0));
    assert!(
        text(&line, "message").contains("whether the truncated writes had been confirmed is unknown"),
        "{line}"
    );
    assert_eq!(server.counts("t")["ready"], 4, "the last message was damaged");
    server.sent("t", "4");
    assert_eq!(server.log().matches("are truncated").count(), 1);
}
