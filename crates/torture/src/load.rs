//! `load`: several callers on one store, until the process is killed.

use std::io::BufRead;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use oncebox_store_embedded::{Durability, EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::block_on;

use crate::Failure;
use crate::caller::Caller;
use crate::listing::list;
use crate::trace::emit;

const CALLERS: u64 = 4;
/// The smallest segment size; the seed chooses 1, 2 or 4 times this.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

pub(crate) fn run(directory: &Path, seed: u64, durability: Durability) -> Result<(), Failure> {
    std::thread::spawn(echo);
    let mut options = EmbeddedOptions::default();
    options.durability = durability;
    options.segment_bytes = SEGMENT_BYTES_MIN << (seed % 3);
    let store = EmbeddedStore::open(directory, &options)?;
    emit("open".to_owned());
    let found = block_on(list(&store))?;
    let calls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..CALLERS {
            let mut caller = Caller::new(&store, &calls, seed, number);
            for message in &found {
                caller.adopt(message);
            }
            scope.spawn(move || {
                let Err(failure) = block_on(caller.run());
                emit(format!("failed {failure}"));
                std::process::exit(1);
            });
        }
    });
    Ok(())
}

/// Echoes each input line as a `pong`, so that the auditor knows how much output it has read. Ends the process when its
/// input ends.
fn echo() {
    for word in std::io::stdin().lock().lines().map_while(Result::ok) {
        emit(format!("pong {word}"));
    }
    std::process::exit(0);
}
