//! The store of our side, with the default durability.

use std::path::Path;
use std::sync::Arc;

use oncebox_core::Clock;
use oncebox_core::machine::Capacity;
use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};

use super::slow;

/// Opens the store in `path` with enough capacity for a whole run.
pub(crate) fn open_store(path: &Path, clock: Option<Arc<dyn Clock>>, slow: bool) -> EmbeddedStore {
    let mut options = EmbeddedOptions::default();
    options.capacity = Capacity { messages_max: 10_000_000, keys_max: 50_000_000, live_bytes_max: 64 << 30 };
    options.clock = clock;
    EmbeddedStore::open_on(slow::disk(path, slow), &options).expect("the store opens")
}
