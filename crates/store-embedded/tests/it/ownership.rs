//! Only one process can open a directory, whatever is deleted in it, and writes to deleted files are not confirmed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use oncebox_core::{Accepted, Error, ErrorKind, Key, NewMessage, Payload, Store, StoreExt, Topic};
use oncebox_store_embedded::{Durability, EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::full::at_once;
use crate::open_on;

/// A temporary directory, removed at the end.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("oncebox-ownership-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, durability: Durability) -> Result<EmbeddedStore, Error> {
    let mut options = EmbeddedOptions::default();
    options.segment_bytes = 64 << 10;
    options.durability = durability;
    EmbeddedStore::open(path, &options)
}

fn send(store: &EmbeddedStore, id: usize) -> Result<Accepted, Error> {
    let key = Key::inbox("source", id.to_string()).unwrap();
    let message = NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new("x").unwrap());
    block_on(store.accept_one(&message))
}

/// Holds: RULE-13.
#[test]
fn deleting_the_lock_file_does_not_release_the_lock() -> TestResult {
    let root = Root::new("lock");
    let store = open(&root.data(), Durability::Sync)?;
    std::fs::remove_file(root.data().join("lock"))?;
    let error = open(&root.data(), Durability::Sync).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("in use by process"), "{error}");
    assert!(matches!(send(&store, 1)?, Accepted::New { .. }));
    drop(store);
    assert!(matches!(send(&open(&root.data(), Durability::Sync)?, 1)?, Accepted::Duplicate { .. }));
    Ok(())
}

/// Removes something from under an open store: all later calls fail, with and without syncs.
fn removed(name: &str, remove: impl Fn(&Path)) -> TestResult {
    for (index, durability) in [Durability::Sync, Durability::Os].into_iter().enumerate() {
        let root = Root::new(&format!("{name}-{index}"));
        let store = open(&root.data(), durability)?;
        assert!(matches!(send(&store, 1)?, Accepted::New { .. }));
        remove(&root.data());
        for id in 2..5 {
            let error = send(&store, id).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("deleted or replaced"), "{error}");
        }
    }
    Ok(())
}

/// Holds: RULE-13.
#[test]
fn writes_to_a_deleted_directory_are_not_confirmed() -> TestResult {
    removed("deleted", |data| oncebox_testkit::directory::delete(data).unwrap())
}

/// A different store may be in its place.
/// Holds: RULE-13.
#[test]
fn writes_to_a_replaced_directory_are_not_confirmed() -> TestResult {
    removed("replaced", |data| {
        std::fs::rename(data, data.with_extension("moved")).unwrap();
        let other = open(data, Durability::Sync).unwrap();
        assert!(matches!(send(&other, 1).unwrap(), Accepted::New { .. }));
    })
}

/// Holds: RULE-13.
#[test]
fn writes_to_a_deleted_segment_are_not_confirmed() -> TestResult {
    removed("segment", |data| {
        for entry in std::fs::read_dir(data).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "seg") {
                std::fs::remove_file(path).unwrap();
            }
        }
    })
}

/// Every name in a directory, with the bytes of files.
fn listed(path: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let mut listed: Vec<_> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).ok()))
        .collect();
    listed.sort();
    listed
}

/// Holds: RULE-13.
#[test]
fn a_directory_that_is_neither_empty_nor_a_store_is_rejected() -> TestResult {
    let files: &[&[(&str, &[u8])]] = &[
        &[("index.html", b"")],
        &[("store", b"of something else")],
        &[("store", &[0; 4_096])],
        &[("store", b""), ("README", b"")],
        &[("1.seg", b"of something else")],
        &[("+0000001.seg", b"of something else")],
        &[(".keep", b""), ("lock", b""), ("lost", b"")],
    ];
    for (number, files) in files.iter().enumerate() {
        let root = Root::new(&format!("foreign-{number}"));
        std::fs::create_dir(root.data())?;
        for (name, bytes) in *files {
            std::fs::write(root.data().join(name), bytes)?;
        }
        let before = listed(&root.data());
        let error = open(&root.data(), Durability::Sync).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("neither empty nor an embedded store"), "{error}");
        assert_eq!(listed(&root.data()), before, "{error}");
    }
    Ok(())
}

/// Leftovers of a failed open or a crash, and what a new volume may contain.
/// Holds: RULE-13.
#[test]
fn a_directory_that_counts_as_empty_becomes_a_store() -> TestResult {
    let mut damaged = b"ONCEBOX\x03 0123456789abcde".to_vec();
    damaged.extend_from_slice(&blake3::hash(&damaged).as_bytes()[..16]);
    damaged[6] ^= 1;
    let files: &[&[(&str, &[u8])]] = &[
        &[("lock", b"1\n")],
        &[("store", b"")],
        &[("store", &[0; 1_536])],
        &[("store", b"ONC")],
        &[("store", &damaged)],
        &[("store", b"ONCEBOX\x03 and an id that ends here"), ("README", b"")],
        &[(".keep", b""), (".gitkeep", b""), ("lost+found", b"")],
    ];
    for (number, files) in files.iter().enumerate() {
        let root = Root::new(&format!("as-empty-{number}"));
        std::fs::create_dir(root.data())?;
        for (name, bytes) in *files {
            std::fs::write(root.data().join(name), bytes)?;
        }
        let store = open(&root.data(), Durability::Sync)?;
        assert!(matches!(send(&store, 1)?, Accepted::New { .. }));
        drop(store);
        std::fs::write(root.data().join("README"), "not ours")?;
        assert!(matches!(send(&open(&root.data(), Durability::Sync)?, 1)?, Accepted::Duplicate { .. }));
        assert_eq!(std::fs::read(root.data().join("README"))?, b"not ours");
    }
    Ok(())
}

/// The directory is in use until the store's threads have ended: no `close` returns before, also if two run at once.
#[test]
fn every_close_waits_until_the_disk_is_not_used_any_more() {
    // Only a `close` that does not wait returns within this time.
    const PATIENCE: Duration = Duration::from_millis(500);
    let disk = SimDisk::default();
    let store = open_on(&disk, &Arc::new(ManualClock::default()));
    let creations = disk.stall_creations();
    // A call that needs more space than there is makes the allocator create a segment.
    let message = |id: usize| {
        let key = Key::inbox("source", id.to_string()).unwrap();
        NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 50_000]).unwrap())
    };
    let messages: Vec<_> = (0..10).map(message).collect();
    assert!(at_once(store.accept(&messages)).is_none(), "the call does not wait for space");
    let (sender, closed) = channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (sender, store) = (sender.clone(), &store);
            scope.spawn(move || sender.send(block_on(store.close()).is_ok()));
        }
        let early = closed.recv_timeout(PATIENCE);
        drop(creations);
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "the allocator still creates a file");
        assert_eq!([closed.recv(), closed.recv()], [Ok(true), Ok(true)]);
    });
}
