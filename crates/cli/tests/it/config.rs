//! `oncebox config`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{oncebox, run};

#[test]
fn all_problems_are_reported_together() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("oncebox.toml");
    fs::write(&file, "[mailbox]\nshard = 4\n").unwrap();
    let arguments = ["config", "check", "--config", file.to_str().unwrap(), "--set", "mailbox.shards=none"];
    let ran = run(&arguments);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("2 problems"), "{}", ran.stderr);
    let ran = run(&[&arguments[..], &["--output", "json"]].concat());
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["ok"], json["problems"].as_array().unwrap().len()), (&Value::from(false), 2));
}

#[test]
fn the_effective_configuration_is_a_valid_configuration_file() {
    let ran = run(&["config", "show", "--set", "mailbox.shards=3", "--listen", "127.0.0.1:0"]);
    assert!(ran.stdout.contains("shards = 3"), "{ran:?}");
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("oncebox.toml");
    fs::write(&file, &ran.stdout).unwrap();
    let ran = run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
}

#[test]
fn environment_variables_are_read() {
    let output = oncebox(&["config", "show"]).env("ONCEBOX__MAILBOX__SHARDS", "5").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("shards = 5"));
}

#[test]
fn the_example_and_the_reference_are_printed() {
    for command in ["example", "reference"] {
        let ran = run(&["config", command]);
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout.contains("replay_window"), "{command}");
    }
}

#[test]
fn a_missing_file_is_reported() {
    let ran = run(&["config", "check", "--config", "no/such.toml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no/such.toml"), "{}", ran.stderr);
}
