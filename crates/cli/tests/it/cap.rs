//! `oncebox cap` without a server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{CommandOutput, oncebox};

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Runs `oncebox cap` with the key file `keys`.
    fn with_keys(&self, command: &str, arguments: &[&str]) -> CommandOutput {
        cap(&[&[command, "--key-file", &self.path("keys")], arguments].concat())
    }

    /// Writes a token into a file, and returns the flag.
    fn token(&self, token: &str) -> [String; 2] {
        fs::write(self.path("token"), token).unwrap();
        ["--token-file".to_owned(), self.path("token")]
    }

    fn inspect(&self, token: &str) -> Value {
        let [flag, path] = self.token(token);
        let shown = cap(&["inspect", &flag, &path, "--output", "json"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        serde_json::from_str(&shown.stdout).unwrap()
    }
}

fn cap(arguments: &[&str]) -> CommandOutput {
    let mut command = oncebox(&[&["cap"], arguments].concat());
    command.env_remove("ONCEBOX_TOKEN_FILE").env("HOME", "/nonexistent");
    CommandOutput::from(command.output().expect("the binary runs"))
}

#[track_caller]
fn fails(output: &CommandOutput, code: i32, expected: &str) {
    assert!(output.code == Some(code) && output.stderr.contains(expected), "{output:?}");
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let files = Files::new();
    let made = files.with_keys("keygen", &["--output", "ndjson"]);
    assert_eq!((made.code, made.stdout.trim()), (Some(0), r#"{"key_id":"k1","status":"active"}"#));
    let key = fs::read_to_string(files.path("keys")).unwrap();
    assert!(!made.stdout.contains(key.split_whitespace().nth(2).unwrap()), "the key is not shown");
    fails(&files.with_keys("keygen", &[]), 1, "it exists");
    assert_eq!(fs::read_to_string(files.path("keys")).unwrap(), key);
    for _ in 0..2 {
        let permissions = fs::metadata(files.path("keys")).unwrap().permissions().mode();
        assert_eq!(permissions & 0o777, 0o600);
        files.with_keys("rotate", &[]);
    }
    let other = Files::new();
    other.with_keys("keygen", &[]);
    assert_ne!(fs::read_to_string(other.path("keys")).unwrap(), key, "keys are random");
    fails(&Files::new().with_keys("rotate", &[]), 1, "oncebox cap keygen");
    fails(&other.with_keys("keygen", &["--id", "K"]), 1, "a key id");
}

#[test]
fn keys_are_rotated_retired_and_compromised_for_ever() {
    let files = Files::new();
    files.with_keys("keygen", &[]);
    let statuses = |output: CommandOutput| -> Vec<String> {
        assert_eq!(output.code, Some(0), "{output:?}");
        let rows = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.map(|row| format!("{} {}", row["key_id"].as_str().unwrap(), row["status"].as_str().unwrap()))
            .collect()
    };
    let run = |command: &str, arguments: &[&str]| {
        statuses(files.with_keys(command, &[arguments, &["--output", "ndjson"]].concat()))
    };
    assert_eq!(run("rotate", &[]), ["k1 accepted", "k2 active"]);
    assert_eq!(run("rotate", &["--id", "next"]), ["k1 accepted", "k2 accepted", "next active"]);
    assert_eq!(run("key-status", &["k1", "retired"])[0], "k1 retired");
    assert_eq!(run("key-status", &["k2", "compromised"])[1], "k2 compromised");
    fails(&files.with_keys("key-status", &["k2", "accepted"]), 1, "cannot be undone");
    fails(&files.with_keys("key-status", &["next", "retired"]), 1, "rotate first");
    fails(&files.with_keys("key-status", &["k9", "retired"]), 1, "there is no key `k9`");
    assert_eq!(run("rotate", &[]), ["k1 retired", "k2 compromised", "next accepted", "k4 active"]);
}

#[test]
fn tokens_are_minted_attenuated_inspected_and_verified() {
    let files = Files::new();
    files.with_keys("keygen", &[]);
    let minted = files.with_keys(
        "mint",
        &["--op", "send,ack", "--topic-prefix", "orders.", "--name", "shop", "--rate", "5", "--for", "2h"],
    );
    assert_eq!((minted.code, minted.stderr.as_str()), (Some(0), ""), "{minted:?}");
    let shown = files.inspect(&minted.stdout);
    let caveats = shown["caveats"].as_array().unwrap();
    assert_eq!(
        caveats[..4],
        [json!("op = ack,send"), json!("topic_prefix = orders."), json!("rate = 5/s"), json!("name = shop")]
    );
    assert!(caveats[4].as_str().unwrap().starts_with("expires = "), "{shown}");
    assert_eq!((&shown["key_id"], &shown["not_understood"]), (&json!("k1"), &json!([])));

    let [flag, path] = files.token(&minted.stdout);
    let narrower = cap(&["attenuate", &flag, &path, "--op", "ack"]);
    assert_eq!(narrower.code, Some(0), "{narrower:?}");
    let narrow = files.inspect(&narrower.stdout);
    assert_eq!((&narrow["caveats"][5], &narrow["nonce"]), (&json!("op = ack"), &shown["nonce"]));
    let [flag, path] = files.token(&narrower.stdout);
    assert_eq!(files.with_keys("verify", &[&flag, &path]).code, Some(0));
    fails(&cap(&["attenuate", &flag, &path]), 2, "add flags");
    fails(&files.with_keys("mint", &["--op", "send"]), 2, "--for is missing");
    fails(&files.with_keys("mint", &["--op", "fly", "--for", "1h"]), 2, "--op: ");
    fails(&files.with_keys("mint", &["--topic-prefix", "orders", "--for", "1h"]), 2, "--topic-prefix: ");
    let expired = files.with_keys("mint", &["--for", "0s"]);
    let [flag, path] = files.token(&expired.stdout);
    fails(&files.with_keys("verify", &[&flag, &path]), 3, "expired");
    let other = Files::new();
    other.with_keys("keygen", &[]);
    let foreign = other.with_keys("mint", &["--for", "1h"]);
    let [flag, path] = files.token(&foreign.stdout);
    fails(&files.with_keys("verify", &[&flag, &path]), 3, "signature of the token is wrong");
    let [flag, path] = files.token("nonsense");
    fails(&files.with_keys("verify", &[&flag, &path]), 1, "oncebox: ");
    fails(&cap(&["inspect", "--token-file", &files.path("missing")]), 1, "cannot read the token file");
}
