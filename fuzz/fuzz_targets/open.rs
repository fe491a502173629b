//! Opens a journal after bytes were appended, flipped, overwritten and cut off.
//!
//! Opening succeeds or fails with `Corrupt`; with `Unsupported` only if the format version was damaged, too. If it succeeds, the store holds a prefix of the acknowledged calls, each
//! as a whole.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use oncebox_core::{ErrorKind, Key, MessageRef, NewMessage, Payload, Store, Topic};
use oncebox_fuzz::{FixedClock, Image, MemoryDisk, block_on, damage};
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};

const CALLS: usize = 30;
const BATCH: usize = 2;

fn message(id: usize) -> NewMessage {
    let payload = Payload::new(vec![b'x'; 2_500]).unwrap();
    NewMessage::new(key(id), Topic::new("topic").unwrap(), payload)
}

fn key(id: usize) -> Key {
    Key::inbox("fuzz", id.to_string()).unwrap()
}

fn options() -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.segment_bytes = 64 << 10;
    options.clock = Some(Arc::new(FixedClock));
    options
}

/// Several segments, written by a store that was opened twice.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let disk = MemoryDisk::default();
        for opening in 0..2 {
            let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options()).unwrap();
            for call in opening * CALLS / 2..(opening + 1) * CALLS / 2 {
                let messages: Vec<_> = (call * BATCH..(call + 1) * BATCH).map(message).collect();
                block_on(store.accept(&messages)).unwrap();
            }
            block_on(store.close()).unwrap();
        }
        disk.image()
    })
}

fuzz_target!(|instructions: &[u8]| {
    let mut damaged = image().clone();
    damage(&mut damaged, instructions);
    let store = match EmbeddedStore::open_on(Arc::new(MemoryDisk::new(damaged.clone())), &options()) {
        Ok(store) => store,
        Err(error) => {
            let is_version = damaged.values().any(|file| file.get(7).is_some_and(|version| *version != 3));
            let expected = [ErrorKind::Corrupt, ErrorKind::Unsupported];
            let expected = if is_version { &expected[..] } else { &expected[..1] };
            return assert!(expected.contains(&error.kind()), "{error}");
        }
    };
    let refs: Vec<MessageRef> = (0..CALLS * BATCH).map(|id| key(id).into()).collect();
    let found = block_on(store.get(&refs)).unwrap();
    let count = found.iter().take_while(|found| found.is_some()).count();
    assert!(found[count..].iter().all(Option::is_none), "the remaining messages are a prefix");
    assert_eq!(count % BATCH, 0, "each call is whole");
    assert!(!instructions.is_empty() || count == CALLS * BATCH, "without damage nothing is lost");
    for (id, found) in found.into_iter().flatten().enumerate() {
        assert_eq!(found.content, Some(message(id).content));
    }
});
