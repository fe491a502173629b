//! What senders, workers and the stage share.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::script::Script;

/// Where all webhooks go.
pub(super) const TOPIC: &str = "webhooks";

pub(super) struct World {
    pub(super) script: Script,
    /// The parts whose handlers did what they do. A second run changes nothing.
    effects: Mutex<HashSet<usize>>,
    /// One worker has crashed.
    pub(super) crashed: Flag,
    /// The bug is fixed.
    pub(super) fixed: Flag,
    /// Everybody may go home.
    pub(super) over: Flag,
}

impl World {
    pub(super) fn new(script: Script) -> Self {
        let [crashed, fixed, over] = Default::default();
        Self { script, effects: Mutex::default(), crashed, fixed, over }
    }

    pub(super) fn effects(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cents that were booked.
    pub(super) fn booked(&self) -> u64 {
        self.effects().iter().map(|part| self.script.parts[*part].cents).sum()
    }
}

/// Something that becomes true, once.
#[derive(Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    /// Whether it was raised before.
    pub(super) fn raise(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
