//! Where the retention of dead letters goes on.

use std::sync::{Mutex, PoisonError};

/// Where the next upkeep of this process begins: a hint, from the first topic on is as good.
#[derive(Default)]
pub(crate) struct LetterCursor(Mutex<String>);

impl LetterCursor {
    pub(crate) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, topic: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = topic;
    }
}
