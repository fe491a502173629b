//! The clocks of a simulation. They follow the runtime's paused time, which advances only when all tasks wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{Clock, Timestamp};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The store's clock, which may jump ahead.
#[derive(Debug)]
pub(crate) struct StoreClock {
    started: Instant,
    jumps_ms: AtomicU64,
}

impl StoreClock {
    /// Must be called inside the runtime.
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), jumps_ms: AtomicU64::new(0) }
    }

    pub(crate) fn jump_ahead(&self, by: Duration) {
        self.jumps_ms.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Milliseconds since the start of the run.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// Milliseconds of store time since the start of the run.
    pub(crate) fn store_ms(&self) -> u64 {
        self.elapsed_ms() + self.jumps_ms.load(Ordering::SeqCst)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        START.after(Duration::from_millis(self.store_ms()))
    }
}

/// A node's clock, which is off by a constant.
#[derive(Debug)]
pub(crate) struct NodeClock {
    pub(crate) store: Arc<StoreClock>,
    pub(crate) ahead_ms: u64,
    pub(crate) behind_ms: u64,
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let ahead = self.store.now().as_millis() + self.ahead_ms;
        Timestamp::from_millis(ahead - self.behind_ms)
    }
}

/// A timestamp as milliseconds of store time since the start of the run.
pub(crate) fn since_start(timestamp: Timestamp) -> u64 {
    millis(timestamp.since(START))
}

pub(crate) fn at(store_ms: u64) -> Timestamp {
    START.after(Duration::from_millis(store_ms))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
