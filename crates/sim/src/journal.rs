//! The journal of all events, and the clock for their times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::{Event, EventKind};
use crate::time::StoreClock;

/// The journal of a run. Clones share one list of events.
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

    pub(crate) fn record(&self, kind: EventKind) {
        let event = Event { at: self.clock.elapsed_ms(), store: self.clock.store_ms(), kind };
        self.lock().push(event);
    }

    /// Removes and returns all events so far.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.lock())
    }
}
