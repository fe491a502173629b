//! `verify`, `repair` and `stats` on real directories.

mod damage;
mod repair;
mod sound;
mod version;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Delivery, Error, Key, Namespace, NewMessage, Owner, Payload, Span, Store,
    StoreExt, Topic,
};
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::{ManualClock, TestResult, block_on};

const SEGMENT_BYTES: u64 = 64 << 10;

/// A temporary directory, removed at the end.
struct Directory {
    root: PathBuf,
    clock: Arc<ManualClock>,
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

type Files = BTreeMap<String, Vec<u8>>;

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("oncebox-offline-{}-{next}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        Self { root, clock: Arc::new(ManualClock::default()) }
    }

    fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    fn copy(&self) -> PathBuf {
        self.root.join("copy")
    }

    fn open(&self) -> Result<EmbeddedStore, Error> {
        let mut options = EmbeddedOptions::default();
        options.segment_bytes = SEGMENT_BYTES;
        options.clock = Some(self.clock.clone());
        EmbeddedStore::open(&self.store(), &options)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.store().join(name)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.path(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.path(name), bytes).unwrap();
    }

    fn flip(&self, name: &str, offset: usize) {
        self.change(name, |bytes| bytes[offset] ^= 4);
    }

    fn put(&self, files: &Files) {
        std::fs::remove_dir_all(self.store()).unwrap();
        std::fs::create_dir(self.store()).unwrap();
        for (name, bytes) in files {
            std::fs::write(self.path(name), bytes).unwrap();
        }
    }

    /// Removes the close mark, as if the process had been killed before.
    fn unclose(&self) {
        let newest = self.segments().pop().unwrap();
        self.change(&newest, |bytes| {
            let mark = frames(bytes).pop().unwrap();
            bytes[mark..].fill(0);
        });
    }

    /// The started segments, in order of generation.
    fn segments(&self) -> Vec<String> {
        let generation = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().unwrap());
        let is_started = |bytes: &[u8]| bytes.starts_with(b"ONCEBOX");
        let all = files(&self.store());
        let mut segments: Vec<_> =
            all.into_iter().filter(|(name, bytes)| name != "store" && is_started(bytes)).collect();
        segments.sort_by_key(|(_, bytes)| generation(bytes));
        segments.into_iter().map(|(name, _)| name).collect()
    }
}

/// Every file with its bytes.
fn files(path: &Path) -> Files {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    entries.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
}

/// The offsets of the frames of a segment.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut offset = 128;
    let mut frames = Vec::new();
    while bytes.get(offset..offset + 4) == Some(b"OBF1") {
        frames.push(offset);
        let body = u32::from_le_bytes(bytes[offset + 4..offset + 8].try_into().unwrap());
        offset += (72 + body as usize).next_multiple_of(8);
    }
    frames
}

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("offline", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 1_000]).unwrap())
}

fn claim(batch: u32) -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
}

/// Accepts messages, one group each.
fn accept(store: &EmbeddedStore, ids: impl IntoIterator<Item = usize>) -> TestResult {
    block_on(async {
        for id in ids {
            let outcome = store.accept_one(&message(id)).await?;
            assert!(matches!(outcome, Accepted::New { .. }), "{outcome:?}");
        }
        Ok(())
    })
}

fn close(store: EmbeddedStore) -> TestResult {
    block_on(store.close())?;
    drop(store);
    Ok(())
}

/// A closed store with 100 messages in several segments, the first 10 of them done.
fn filled() -> Result<Directory, Box<dyn std::error::Error + Send + Sync>> {
    let directory = Directory::new();
    let store = directory.open()?;
    accept(&store, 0..10)?;
    block_on(async {
        let deliveries = store.claim(&claim(10)).await?;
        let acks: Vec<_> = deliveries.iter().map(Delivery::ack).collect();
        store.settle(&acks).await
    })?;
    accept(&store, 10..100)?;
    close(store)?;
    Ok(directory)
}

/// The ids of the messages that the store contains.
fn known(store: &EmbeddedStore) -> Result<Vec<usize>, Error> {
    block_on(async {
        let mut known = Vec::new();
        for id in 0..100 {
            if store.get_one(&message(id).key.into()).await?.is_some() {
                known.push(id);
            }
        }
        Ok(known)
    })
}
