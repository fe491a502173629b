//! The record of everything that happens, and the clock that it is told by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::{Event, What};
use crate::time::StoreClock;

/// Where everybody tells what happens. Clones share one record.
#[derive(Clone)]
pub(crate) struct Journal {
    pub(crate) clock: Arc<StoreClock>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Journal {
    pub(crate) fn new(clock: Arc<StoreClock>) -> Self {
        Self { clock, events: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, what: What) {
        let event = Event { at: self.clock.elapsed_ms(), store: self.clock.store_ms(), what };
        self.lock().push(event);
    }

    /// Everything so far.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.lock())
    }
}
