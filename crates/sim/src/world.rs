//! What all parts of a simulation share: the journal, the phase, and the keys sent so far.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::journal::Journal;
use crate::random::RandomStream;
use crate::time::StoreClock;

/// Topics are paused in the runs whose seeds are multiples of this.
const PAUSING_EVERY: u64 = 8;

/// State shared by all parts of a simulation.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) journal: Journal,
    /// Most handlers succeed quickly.
    pub(crate) fast_handlers: bool,
    /// An operator pauses topics, and all workers name the topics that they claim. Claims of all topics are left out:
    /// they list the ready topics first, so the audit would not know when a worker decided what a call settles.
    pub(crate) pauses_topics: bool,
    phase: Mutex<Phase>,
    /// Wakes the tasks that wait for the next phase, in the order they started to wait.
    changed: Notify,
    workers: AtomicU64,
    /// Every key that was ever sent.
    keys: Mutex<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Faults,
    Recovery,
    Finished,
}

impl World {
    pub(crate) fn new(seed: u64, random: &mut RandomStream) -> Self {
        Self {
            seed,
            journal: Journal::new(Arc::new(StoreClock::new())),
            fast_handlers: random.percent(40),
            pauses_topics: seed.is_multiple_of(PAUSING_EVERY),
            phase: Mutex::new(Phase::Faults),
            changed: Notify::new(),
            workers: AtomicU64::new(0),
            keys: Mutex::default(),
        }
    }

    pub(crate) fn next_worker(&self) -> u64 {
        self.workers.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records a key that is being sent.
    pub(crate) fn record_key(&self, key: &str) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.iter().any(|known| known == key) {
            keys.push(key.to_owned());
        }
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults_ended(&self) -> bool {
        self.phase() >= Phase::Recovery
    }

    pub(crate) async fn until_faults_end(&self) {
        self.reached(Phase::Recovery).await;
    }

    pub(crate) async fn finished(&self) {
        self.reached(Phase::Finished).await;
    }

    async fn reached(&self, wanted: Phase) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.phase() >= wanted {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_waiters();
    }
}
