//! State shared by the senders, the workers and the simulation.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::scenario::Scenario;

/// The topic that all webhooks are sent to.
pub(super) const TOPIC: &str = "webhooks";

pub(super) struct Context {
    pub(super) scenario: Scenario,
    /// Indexes of the messages whose handlers took effect. Handling a message again changes nothing.
    effects: Mutex<HashSet<usize>>,
    /// Set when a worker has crashed.
    pub(super) crashed: Flag,
    /// Set when the bug is fixed.
    pub(super) fixed: Flag,
    /// Set when workers may stop.
    pub(super) finished: Flag,
}

impl Context {
    pub(super) fn new(scenario: Scenario) -> Self {
        let [crashed, fixed, finished] = Default::default();
        Self { scenario, effects: Mutex::default(), crashed, fixed, finished }
    }

    pub(super) fn effects(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sum of the cents of all handled messages.
    pub(super) fn booked(&self) -> u64 {
        self.effects().iter().map(|index| self.scenario.messages[*index].cents).sum()
    }
}

/// A flag that is set at most once.
#[derive(Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    /// Sets the flag; returns whether it was set before.
    pub(super) fn set(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
