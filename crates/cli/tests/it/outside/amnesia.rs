//! Amnesia: nothing on disk, and everybody is told. Without it, dead letters stay.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::rig::{Server, Store, home, on_durable_stores};
use super::talk::{NOTHING, text};

const QUICK: [&str; 3] = ["mailbox.attempts_max=2", "mailbox.backoff_base=1ms", "mailbox.backoff_max=5ms"];

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

/// The regular files that a process has open for writing.
fn written_files(pid: u32) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives");
    let mut found = Vec::new();
    for entry in descriptors.map(|entry| entry.expect("an entry")) {
        // It may have been closed in the meantime.
        let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
        let number = entry.file_name().into_string().expect("a number");
        let Ok(about) = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")) else { continue };
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags").trim();
        let writes = u32::from_str_radix(flags, 8).expect("a number") & 0o3 != 0;
        if metadata.is_file() && writes {
            found.push(std::fs::read_link(entry.path()).unwrap_or_default());
        }
    }
    found
}

/// Sends, receives, gives back, acknowledges and lets die.
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
        let home = home();
        let server = Server::start_with(home.clone(), arguments, &QUICK);
        soak(&server);
        assert_eq!(files_below(home.path()), NO_FILES);
        assert_eq!(written_files(server.pid()), NO_FILES);
        let stats = server.get("/v1/stats").ok();
        assert_eq!((&stats["amnesia"], text(&stats, "dlq_profile")), (&json!(true), "ephemeral"));
        let told = server.metric(r#"mailbox_profile_info{dlq_profile="ephemeral"}"#);
        assert_eq!(told.as_deref(), Some("1"));
        server.stop();
        assert_eq!(files_below(home.path()), NO_FILES, "nor at the end");
        let server = Server::start_with(home, arguments, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok()["messages"], json!(NOTHING));
    }
}

/// Replays R-T16.
/// Holds: MBX-G-6, MBX-I-16.
#[test]
fn without_amnesia_dead_letters_survive_a_restart() {
    on_durable_stores(|store| {
        let server = Server::start(store, &QUICK);
        if store == Store::Embedded {
            assert_ne!(written_files(server.pid()), NO_FILES, "the test above would see a journal");
        }
        soak(&server);
        let letters = server.get("/v1/dlq").ok();
        let stats = server.get("/v1/stats").ok();
        assert_eq!((&stats["amnesia"], text(&stats, "dlq_profile")), (&json!(false), "durable"));
        let server = Server::start_in(server.kill(), store, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok(), letters, "after a crash");
        let server = Server::start_in(server.stop(), store, &QUICK);
        assert_eq!(server.get("/v1/dlq").ok(), letters, "after a stop");
        let told = server.metric(r#"mailbox_profile_info{dlq_profile="durable"}"#);
        assert_eq!(told.as_deref(), Some("1"));
        let swept = server.post("/v1/dlq/reprocess", &json!({"topic": "poison"})).ok();
        assert_eq!(swept["changed"], 1);
        assert_eq!(text(&server.recv_one("poison"), "idem_key"), "p");
    });
}
