//! The clocks of a world: they go with the runtime's time, which stands still while anybody has something to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use oncebox_core::{Clock, Timestamp};
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The store's clock, which may leap ahead.
#[derive(Debug)]
pub(crate) struct StoreClock {
    began: Instant,
    leaps_ms: AtomicU64,
}

impl StoreClock {
    /// To be made inside the runtime.
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), leaps_ms: AtomicU64::new(0) }
    }

    pub(crate) fn leap(&self, by: Duration) {
        self.leaps_ms.fetch_add(millis(by), Ordering::SeqCst);
    }

    /// Milliseconds since the world began.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// Milliseconds of store time since the world began.
    pub(crate) fn store_ms(&self) -> u64 {
        self.elapsed_ms() + self.leaps_ms.load(Ordering::SeqCst)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        BEGINNING.after(Duration::from_millis(self.store_ms()))
    }
}

/// A node's clock, which goes wrong by a constant.
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

/// A moment in milliseconds of store time since the world began.
pub(crate) fn since_beginning(moment: Timestamp) -> u64 {
    millis(moment.since(BEGINNING))
}

pub(crate) fn at(store_ms: u64) -> Timestamp {
    BEGINNING.after(Duration::from_millis(store_ms))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
