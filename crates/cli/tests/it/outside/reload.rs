//! Settings that are read again while the server runs.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::rig::{Home, Server, Store, home};
use super::talk::{base64, moment, text};

fn write(home: &Home, settings: &str) -> String {
    let file = home.path().join("oncebox.toml");
    fs::write(&file, settings).expect("a file");
    file.display().to_string()
}

/// Replays R-T18.
#[test]
fn a_reload_changes_visibilities_and_loses_nothing_in_flight() {
    for store in [Store::Memory, Store::Embedded, Store::Postgres] {
        let home = home();
        let store = home.url(store);
        let file = write(&home, "[mailbox]\nvisibility_min = \"250ms\"\nvisibility_default = \"2m\"\n");
        let server = Server::start_with(home.clone(), &["--store", &store, "--config", &file], &[]);
        server.sent("t", "1");
        let held = server.recv_as(&json!({"topic": "t"})).remove(0);
        assert!(moment(text(&held, "visible_until")) - moment(text(&held, "ts")) >= 120_000, "{held}");
        write(
            &home,
            "[mailbox]\nvisibility_min = \"3m\"\nvisibility_default = \"4m\"\n[mailbox.topic]\nreplay_window = \"8m\"\n",
        );
        server.signal(Signal::HUP);
        server.wait_for_line("the configuration was read again");
        let told = server.post("/v1/recv", &json!({"topic": "t", "visibility_ms": 120_000}));
        assert!(told.refused(400, "E_SCHEMA").contains("180000"));
        server.sent("t", "2");
        let next = server.recv_as(&json!({"topic": "t"})).remove(0);
        assert!(moment(text(&next, "visible_until")) - moment(text(&next, "ts")) >= 240_000, "{next}");
        assert_eq!(text(&next, "payload_b64"), base64("2"), "the first is still held");
        assert_eq!(server.counts("t")["in_flight"], 2);
        for delivery in [&held, &next] {
            assert_eq!(server.ack(text(delivery, "receipt")).ok(), json!({"ok": true}));
        }
    }
}

/// Replays R-T18.
#[test]
fn wrong_settings_change_nothing_and_some_wait_for_a_restart() {
    let home = home();
    let file = write(&home, "[mailbox]\nshards = 2\n");
    let server = Server::start_with(home.clone(), &["--store", "memory:", "--config", &file], &[]);
    write(&home, "[mailbox]\nvisibility_min = \"never\"\n");
    server.signal(Signal::HUP);
    server.wait_for_line("the settings are wrong, and those from before hold");
    server.sent("t", "1");
    assert_eq!(server.recv_as(&json!({"topic": "t", "visibility_ms": 250})).len(), 1);
    write(&home, "[mailbox]\nshards = 4\n[ledger]\nunknown_key = \"not-found\"\n");
    server.signal(Signal::HUP);
    let told = server.wait_for_line("the configuration was read again");
    assert!(told.contains("mailbox.shards") && !told.contains("ledger.unknown_key"), "{told}");
    server.get("/v1/inbox/k").refused(404, "E_NOT_FOUND");
    fs::remove_file(&file).unwrap();
    server.signal(Signal::HUP);
    server.wait_for_line("oncebox.toml");
    server.get("/v1/inbox/k").refused(404, "E_NOT_FOUND");
    let log = server.log();
    for line in log.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "every line is JSON: {line}");
    }
    let told: Value = serde_json::from_str(&server.wait_for_line("the settings are wrong")).expect("JSON");
    assert_eq!(text(&told, "level"), "ERROR");
    assert!(text(&told, "problem").contains("mailbox.visibility_min"), "{told}");
}
