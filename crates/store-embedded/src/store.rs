//! An open store: what its calls share, and how it is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use oncebox_core::Notifier;

use crate::lock::DirectoryLock;
use crate::options::Durability;
use crate::recovery::TornTail;
use crate::shared::Shared;

/// A durable store in its own directory.
pub struct EmbeddedStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) notifier: Notifier,
    pub(crate) durability: Durability,
    /// Journal bytes reserved for claims, settlements and operators.
    pub(crate) reserve_bytes: u64,
    pub(crate) torn_tail: Option<TornTail>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) lock: Mutex<Option<DirectoryLock>>,
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// The torn tail that was truncated when the store was opened, if there was one: the sign of a crash.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn_tail.as_ref()
    }

    /// Waits for the threads to end, then releases the directory lock.
    pub(crate) fn shut_down(&self) {
        // Held while waiting: a second call must not release the directory while a thread still uses it.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..).rev() {
            let _ = thread.join();
        }
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.start_closing();
        self.shut_down();
    }
}
