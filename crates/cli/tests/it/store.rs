//! `oncebox store` on the directories of real stores.

use std::fs;
use std::path::{Path, PathBuf};

use oncebox::{Message, Oncebox};
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{CommandOutput, run};

/// Creates a store with three messages and closes it.
fn store(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("data");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let oncebox = Oncebox::open(&format!("embedded:{}", path.display())).await.expect("the store opens");
        for id in ["a", "b", "c"] {
            oncebox
                .inbox()
                .enqueue(Message::new("topic", "source", id))
                .await
                .expect("the message is accepted");
        }
        oncebox.close().await.expect("the store closes");
    });
    path
}

/// Flips a bit in the middle of the written data.
pub(crate) fn damage(path: &Path) {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.is_file()).map(|path| (fs::read(&path).expect("a file"), path));
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let (mut bytes, file) = files.max_by_key(|(bytes, _)| used(bytes)).expect("a segment");
    let middle = used(&bytes) / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("it is written");
}

fn tool(arguments: &[&str], path: &Path) -> CommandOutput {
    let path = path.display().to_string();
    run(&[&["store"], arguments, &[path.as_str()]].concat())
}

#[test]
fn a_sound_store_is_reported_as_sound() {
    let directory = TempDir::new().unwrap();
    let path = store(&directory);
    let ran = tool(&["verify"], &path);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "sound\n"), "{}", ran.stderr);
    let ran = tool(&["repair"], &path);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "nothing to repair: sound\n"), "{}", ran.stderr);
    assert!(!directory.path().join("data-before-repair").exists());
}

#[test]
fn stats_are_prose_or_json() {
    let directory = TempDir::new().unwrap();
    let path = store(&directory);
    let ran = tool(&["stats"], &path);
    assert!(ran.stdout.contains("inbox: 0 seen, 3 ready"), "{ran:?}");
    let ran = tool(&["stats", "--output", "json"], &path);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["messages"]["inbox"]["ready"], &json["closed"]), (&Value::from(3), &Value::from(true)));
}

#[test]
fn a_damaged_store_is_detected_copied_and_repaired() {
    let directory = TempDir::new().unwrap();
    let path = store(&directory);
    damage(&path);
    let ran = tool(&["verify"], &path);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.starts_with("damaged") && ran.stderr.contains("store repair"), "{ran:?}");
    let ran = tool(&["verify", "--output", "ndjson"], &path);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["status"], "damaged");
    let ran = tool(&["repair", "--output", "ndjson"], &path);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &json["repaired"]), (Some(0), &Value::from(true)), "{ran:?}");
    assert!(directory.path().join("data-before-repair").is_dir());
    assert_eq!(tool(&["verify"], &path).code, Some(0));
}

#[test]
fn a_directory_without_a_store_is_refused() {
    let directory = TempDir::new().unwrap();
    for path in [directory.path().join("missing"), directory.path().to_owned()] {
        for command in ["verify", "repair", "stats"] {
            let ran = tool(&[command], &path);
            assert_eq!(ran.code, Some(1), "{command} {ran:?}");
            assert!(ran.stderr.contains("E_"), "{}", ran.stderr);
        }
    }
}

/// A store of another format version is not damaged: restoring it from a backup would not help.
#[test]
fn a_store_of_another_format_version_is_not_reported_as_damaged() {
    let directory = TempDir::new().unwrap();
    let path = store(&directory);
    let file = path.join("store");
    let of_version_4 = |file: &Path, length: usize| {
        let mut bytes = fs::read(file).unwrap();
        bytes[7] = 4;
        bytes[8..length].fill(7);
        fs::write(file, &bytes).unwrap();
        bytes
    };
    let length = fs::metadata(&file).unwrap().len().try_into().unwrap();
    let bytes = of_version_4(&file, length);
    let mixed = tool(&["verify"], &path).stderr;
    assert!(mixed.contains("format version 4") && mixed.contains("may be damaged"), "{mixed}");
    for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "seg") {
            of_version_4(&entry, 512);
        }
    }
    let url = format!("embedded:{}", path.display());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--set", "admin.listen=off", "--store", &url];
    let mut runs = vec![("serve", run(&serve))];
    for command in ["verify", "repair", "stats"] {
        runs.push((command, tool(&[command], &path)));
    }
    for (command, ran) in runs {
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
        for says in ["format version 4", "version 3", "the version of Oncebox that wrote it"] {
            assert!(ran.stderr.contains(says), "{command}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("damaged"), "{command}: {}", ran.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert!(!directory.path().join("data-before-repair").exists());
}
