//! A journal with bytes appended, flipped, overwritten and cut off, then opened.
//!
//! It opens or says that it is corrupt. If it opens, what is there is the beginning of what was answered, each call whole.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use oncebox_core::{Key, Kind, NewMessage, Payload, Ref, Store, Topic};
use oncebox_fuzz::{Image, MemoryDisk, StillClock, block_on, damage};
use oncebox_store_embedded::{EmbeddedStore, Options};

const CALLS: usize = 30;
const BATCH: usize = 2;

fn message(id: usize) -> NewMessage {
    let payload = Payload::new(vec![b'x'; 2_500]).unwrap();
    NewMessage::new(key(id), Topic::new("topic").unwrap(), payload)
}

fn key(id: usize) -> Key {
    Key::inbox("fuzz", id.to_string()).unwrap()
}

fn options() -> Options {
    let mut options = Options::default();
    options.segment_bytes = 64 << 10;
    options.clock = Some(Arc::new(StillClock));
    options
}

/// Several segments, written in two openings.
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

fuzz_target!(|orders: &[u8]| {
    let mut left = image().clone();
    damage(&mut left, orders);
    let store = match EmbeddedStore::open_on(Arc::new(MemoryDisk::new(left)), &options()) {
        Ok(store) => store,
        Err(error) => return assert_eq!(error.kind(), Kind::Corrupt, "{error}"),
    };
    let refs: Vec<Ref> = (0..CALLS * BATCH).map(|id| key(id).into()).collect();
    let found = block_on(store.get(&refs)).unwrap();
    let count = found.iter().take_while(|found| found.is_some()).count();
    assert!(found[count..].iter().all(Option::is_none), "what is left is the beginning");
    assert_eq!(count % BATCH, 0, "each call is whole");
    assert!(!orders.is_empty() || count == CALLS * BATCH, "without damage all is there");
    for (id, found) in found.into_iter().flatten().enumerate() {
        assert_eq!(found.content, Some(message(id).content));
    }
});
