//! Reloading the configuration of a running server.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::mailbox_client::{base64, text};
use super::rig::{Server, SharedStorage, Store, new_storage};

fn write(storage: &SharedStorage, settings: &str) -> String {
    let file = storage.path().join("oncebox.toml");
    fs::write(&file, settings).expect("a file");
    file.display().to_string()
}

/// Replays R-T18.
#[test]
fn a_reload_changes_visibility_timeouts_and_keeps_messages_in_flight() {
    for store in [Store::Memory, Store::Embedded, Store::Postgres] {
        let storage = new_storage();
        let store = storage.url(store);
        let file = write(&storage, "[mailbox]\nvisibility_min = \"250ms\"\nvisibility_default = \"2m\"\n");
        let server = Server::start_with(storage.clone(), &["--store", &store, "--config", &file], &[]);
        server.sent("t", "1");
        let held = server.recv_as(&json!({"topic": "t"})).remove(0);
        assert!(server.held_ms(&held) >= 120_000, "{held}");
        write(
            &storage,
            "[mailbox]\nvisibility_min = \"3m\"\nvisibility_default = \"4m\"\n[mailbox.topic]\nreplay_window = \"8m\"\n",
        );
        server.signal(Signal::HUP);
        server.wait_for_line("configuration reloaded");
        let reply = server.post("/v1/recv", &json!({"topic": "t", "visibility_ms": 120_000}));
        assert!(reply.refused(400, "E_SCHEMA").contains("180000"));
        server.sent("t", "2");
        let next = server.recv_as(&json!({"topic": "t"})).remove(0);
        assert!(server.held_ms(&next) >= 240_000, "{next}");
        assert_eq!(text(&next, "payload_b64"), base64("2"), "the first message is still held");
        assert_eq!(server.counts("t")["in_flight"], 2);
        for delivery in [&held, &next] {
            assert_eq!(server.ack(text(delivery, "receipt")).ok(), json!({"ok": true}));
        }
    }
}

/// Replays R-T18.
#[test]
fn an_invalid_configuration_changes_nothing_and_some_settings_need_a_restart() {
    let storage = new_storage();
    let file = write(&storage, "[mailbox]\nshards = 2\n");
    let server = Server::start_with(storage.clone(), &["--store", "memory:", "--config", &file], &[]);
    write(&storage, "[mailbox]\nvisibility_min = \"never\"\n");
    server.signal(Signal::HUP);
    server.wait_for_line("configuration reload failed");
    server.sent("t", "1");
    assert_eq!(server.recv_as(&json!({"topic": "t", "visibility_ms": 250})).len(), 1);
    write(&storage, "[mailbox]\nshards = 4\n[ledger]\nunknown_key = \"not-found\"\n");
    server.signal(Signal::HUP);
    let reply = server.wait_for_line("configuration reloaded");
    assert!(reply.contains("mailbox.shards") && !reply.contains("ledger.unknown_key"), "{reply}");
    server.get("/v1/inbox/k").refused(404, "E_NOT_FOUND");
    fs::remove_file(&file).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_line("oncebox.toml");
    server.get("/v1/inbox/k").refused(404, "E_NOT_FOUND");
    let log = server.log();
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "every line is JSON: {line}");
    }
    let reply: Value =
        serde_json::from_str(&server.wait_for_line("configuration reload failed")).expect("JSON");
    assert_eq!(text(&reply, "level"), "ERROR");
    assert!(text(&reply, "problem").contains("mailbox.visibility_min"), "{reply}");
}
