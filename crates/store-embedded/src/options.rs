//! Options of the embedded store.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::Clock;
use oncebox_core::machine::Capacity;

/// When a write is confirmed to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When it is on disk. A power failure loses no confirmed write, except leases (see
    /// `docs/reference/journal-format.md`).
    #[default]
    Sync,
    /// When it has been handed to the operating system; synced at least once per interval. A crash of the process loses
    /// nothing; a power failure loses the writes confirmed in the last interval.
    Interval(Duration),
    /// When it has been handed to the operating system, which decides when to write it. A crash of the process loses
    /// nothing; a power failure loses the writes confirmed in about the last 30 s.
    Os,
}

/// Options of an embedded store.
#[derive(Clone)]
#[non_exhaustive]
pub struct EmbeddedOptions {
    /// The store's name in log lines (IBX-113). Default: `embedded:` and the directory.
    pub name: Option<Arc<str>>,
    /// When a write is confirmed to the caller.
    pub durability: Durability,
    /// How much the store may hold. Finished messages count, because they stay in memory.
    pub capacity: Capacity,
    /// Size of a journal segment in bytes: 64 KiB to 16 MiB.
    pub segment_bytes: u64,
    /// The clock. Default: the system clock, never earlier than the recorded time.
    pub clock: Option<Arc<dyn Clock>>,
    /// Opens the store even if the clock is more than a year ahead of the recorded time. Every lease, hold and
    /// retention would end at once, so by default such a clock is taken for wrong and the store does not open.
    pub accept_clock: bool,
    /// Identifies the current boot of the operating system, which leases do not outlive. Default: the kernel's boot id.
    pub boot_id: Option<String>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            name: None,
            durability: Durability::Sync,
            capacity: Capacity::default(),
            segment_bytes: 16 << 20,
            clock: None,
            accept_clock: false,
            boot_id: None,
        }
    }
}
