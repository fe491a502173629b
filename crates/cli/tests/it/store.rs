//! `oncebox store` on directories of real stores.

use std::fs;
use std::path::{Path, PathBuf};

use oncebox::{Message, Oncebox};
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Ran, run};

/// A store with three messages, closed.
fn store(home: &TempDir) -> PathBuf {
    let path = home.path().join("data");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let oncebox = Oncebox::open(&format!("embedded:{}", path.display())).await.expect("it opens");
        for id in ["a", "b", "c"] {
            oncebox.inbox().enqueue(Message::new("topic", "source", id)).await.expect("it is taken in");
        }
        oncebox.close().await.expect("it closes");
    });
    path
}

/// Flips a byte in the middle of what was written.
pub(crate) fn damage(path: &Path) {
    let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
    let files = entries.filter(|path| path.is_file()).map(|path| (fs::read(&path).expect("a file"), path));
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let (mut bytes, file) = files.max_by_key(|(bytes, _)| used(bytes)).expect("a segment");
    let middle = used(&bytes) / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).expect("it is written");
}

fn tool(arguments: &[&str], path: &Path) -> Ran {
    let path = path.display().to_string();
    run(&[&["store"], arguments, &[path.as_str()]].concat())
}

#[test]
fn a_sound_store_is_said_to_be_so() {
    let home = TempDir::new().unwrap();
    let path = store(&home);
    let ran = tool(&["verify"], &path);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "sound\n"), "{}", ran.stderr);
    let ran = tool(&["repair"], &path);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "nothing to repair: sound\n"), "{}", ran.stderr);
    assert!(!home.path().join("data-before-repair").exists());
}

#[test]
fn stats_are_prose_or_json() {
    let home = TempDir::new().unwrap();
    let path = store(&home);
    let ran = tool(&["stats"], &path);
    assert!(ran.stdout.contains("inbox: 0 seen, 3 ready"), "{ran:?}");
    let ran = tool(&["stats", "--output", "json"], &path);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&json["messages"]["inbox"]["ready"], &json["closed"]), (&Value::from(3), &Value::from(true)));
}

#[test]
fn a_damaged_store_is_found_and_repaired_beside_its_copy() {
    let home = TempDir::new().unwrap();
    let path = store(&home);
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
    assert!(home.path().join("data-before-repair").is_dir());
    assert_eq!(tool(&["verify"], &path).code, Some(0));
}

#[test]
fn what_is_no_store_is_refused() {
    let home = TempDir::new().unwrap();
    for path in [home.path().join("missing"), home.path().to_owned()] {
        for command in ["verify", "repair", "stats"] {
            let ran = tool(&[command], &path);
            assert_eq!(ran.code, Some(1), "{command} {ran:?}");
            assert!(ran.stderr.contains("E_"), "{}", ran.stderr);
        }
    }
}

/// A store of another format version is not damaged: restoring it from a copy would not help.
#[test]
fn a_store_of_another_version_is_not_called_damaged() {
    let home = TempDir::new().unwrap();
    let path = store(&home);
    let file = path.join("store");
    let mut bytes = fs::read(&file).unwrap();
    bytes[7] = 4;
    bytes[8..].fill(7);
    fs::write(&file, &bytes).unwrap();
    let place = format!("embedded:{}", path.display());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--set", "admin.listen=off", "--store", &place];
    let mut tried = vec![("serve", run(&serve))];
    for command in ["verify", "repair", "stats"] {
        tried.push((command, tool(&[command], &path)));
    }
    for (command, ran) in tried {
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
        for says in ["format version 4", "version 3", "the version of Oncebox that wrote it"] {
            assert!(ran.stderr.contains(says), "{command}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("damaged"), "{command}: {}", ran.stderr);
    }
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert!(!home.path().join("data-before-repair").exists());
}
