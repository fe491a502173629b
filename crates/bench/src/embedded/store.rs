//! The store of our side, with its default durability.

use std::path::Path;
use std::sync::Arc;

use oncebox_core::Clock;
use oncebox_core::machine::Capacity;
use oncebox_store_embedded::{EmbeddedStore, Options};

use super::slow;

/// Opens the store in `path` with room for everything that a run brings.
pub(crate) fn open_store(path: &Path, clock: Option<Arc<dyn Clock>>, slow: bool) -> EmbeddedStore {
    let mut options = Options::default();
    options.capacity = Capacity { messages_max: 10_000_000, keys_max: 50_000_000, live_bytes_max: 64 << 30 };
    options.clock = clock;
    EmbeddedStore::open_on(slow::disk(path, slow), &options).expect("the store opens")
}
