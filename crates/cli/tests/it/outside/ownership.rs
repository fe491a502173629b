//! A directory belongs to one process, whatever is deleted or moved under it; and what an opening cuts off is in the log.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::http::PATIENCE;
use super::rig::{Server, Store, home};
use super::talk::{NOTHING, text};
use crate::rig::oncebox;

/// How often a process is asked whether it has ended.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Waits until a process ends; one that goes on is killed, and fails the test.
pub(super) fn ended(mut child: Child) -> (Option<i32>, String) {
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        if child.try_wait().expect("a child").is_some() {
            let output = child.wait_with_output().expect("it ended");
            return (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
        }
        std::thread::park_timeout(PAUSE);
    }
    let _ = child.kill();
    panic!("a second process opened the store: {:?}", child.wait_with_output());
}

/// A second process on the same directory ends, and says who has it.
#[track_caller]
fn refused(directory: &Path, holder: &str) {
    let store = format!("embedded:{}", directory.display());
    let mut command = oncebox(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    command.args(["--set", "admin.listen=off"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (code, stderr) = ended(command.spawn().expect("the binary runs"));
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains(&format!("is in use by process {holder}")), "{stderr}");
}

/// Holds: RULE-13.
#[test]
fn a_second_process_is_refused_also_when_the_file_lock_is_deleted() {
    let home = home();
    let data = home.path().join("data");
    let server = Server::start_in(home, Store::Embedded, &[]);
    server.sent("t", "1");
    refused(&data, &server.pid().to_string());
    std::fs::remove_file(data.join("lock")).expect("the file is there");
    refused(&data, "(unknown)");
    refused(&data, "(unknown)");
    server.sent("t", "2");
    // With the process its lock is gone, however it ended.
    let server = Server::start_in(server.kill(), Store::Embedded, &[]);
    assert_eq!(server.counts("t")["ready"], 2);
}

/// Where the directory was, another process may begin a store of its own. The first one answers nothing any more: neither of them
/// takes in for the other.
/// Holds: RULE-13.
#[test]
fn a_process_whose_directory_was_deleted_answers_nothing_any_more() {
    let home = home();
    let data = home.path().join("data");
    let first = Server::start_in(home.clone(), Store::Embedded, &[]);
    first.sent("t", "1");
    oncebox_testkit::directory::delete(&data).expect("the directory is there");
    let second = Server::start_in(home, Store::Embedded, &[]);
    assert_eq!(second.recv("t"), NOTHING, "it is a new store");
    for idem_key in ["2", "3"] {
        let told = first.send("t", idem_key, "").refused(503, "E_UNAVAILABLE");
        assert!(told.contains("deleted or replaced"), "{told}");
    }
    first.send("t", "1", "1").refused(503, "E_UNAVAILABLE");
    // Readiness says what senders are told.
    let ready = first.get("/readyz?for=reads");
    let json = ready.json();
    assert_eq!((ready.status, &json["writes"]), (503, &Value::from(false)), "{json}");
    assert!(json["missing"].as_array().expect("a list").contains(&Value::from("store")), "{json}");
    let mut findings = json["findings"].as_array().expect("a list").iter();
    let is_named = |finding: &Value| text(finding, "text").contains("deleted or replaced");
    assert!(findings.any(|finding| finding["subject"] == "store" && is_named(finding)), "{json}");
    let stats = first.get("/v1/stats").ok();
    assert_eq!(stats["unknown"], serde_json::json!(["namespaces", "bounds"]), "{stats}");
    assert_eq!(first.metric("oncebox_store_up").as_deref(), Some("0"));
    second.sent("t", "1");
    assert_eq!(second.recv("t").len(), 1);
}

/// Holds: RULE-13.
#[test]
fn a_directory_that_was_moved_still_belongs_to_its_process() {
    let home = home();
    let (data, moved) = (home.path().join("data"), home.path().join("moved"));
    let server = Server::start_in(home.clone(), Store::Embedded, &[]);
    server.sent("t", "1");
    std::fs::rename(&data, &moved).expect("the directory is there");
    refused(&moved, &server.pid().to_string());
    server.send("t", "2", "").refused(503, "E_UNAVAILABLE");
    server.kill();
    std::fs::rename(&moved, &data).expect("the directory is there");
    let server = Server::start_in(home, Store::Embedded, &[]);
    assert_eq!(text(&server.recv_one("t"), "idem_key"), "1");
}

/// The segment that was begun last, and where something other than zeros is last in it.
fn end_of_journal(data: &Path) -> (std::path::PathBuf, usize) {
    let entries = std::fs::read_dir(data).expect("a directory").map(|entry| entry.expect("an entry").path());
    let segments = entries.filter(|path| path.extension().is_some_and(|extension| extension == "seg"));
    let generation = |path: &std::path::PathBuf| {
        let bytes = std::fs::read(path).expect("a file");
        u64::from_le_bytes(bytes[24..32].try_into().expect("eight bytes"))
    };
    let newest = segments.max_by_key(generation).expect("a segment");
    let bytes = std::fs::read(&newest).expect("a file");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("something is written");
    (newest, end)
}

/// Holds: RULE-13.
#[test]
fn an_opening_that_cuts_off_a_damaged_end_logs_how_much() {
    let server = Server::start(Store::Embedded, &[]);
    (0..5).for_each(|number| drop(server.sent("t", &number.to_string())));
    let home = server.kill();
    let (segment, end) = end_of_journal(&home.path().join("data"));
    let mut bytes = std::fs::read(&segment).expect("a file");
    bytes[end] ^= 1;
    std::fs::write(&segment, bytes).expect("a file");
    let server = Server::start_in(home, Store::Embedded, &[]);
    let line = server.wait_for_line("are cut off");
    let line: Value = serde_json::from_str(&line).expect("a line is JSON");
    assert_eq!(
        (text(&line, "level"), text(&line, "segment")),
        ("WARN", segment.file_name().unwrap().to_str().unwrap())
    );
    let number = |name: &str| line[name].as_u64().expect("a number");
    assert_eq!((number("offset") + number("bytes"), number("frames")), (end as u64 + 1, 0));
    assert!(text(&line, "message").contains("whether what is cut was answered is not known"), "{line}");
    assert_eq!(server.counts("t")["ready"], 4, "the last one was damaged");
    server.sent("t", "4");
    assert_eq!(server.log().matches("are cut off").count(), 1);
}
