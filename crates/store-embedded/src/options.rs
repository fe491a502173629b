//! How an embedded store is set up.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::Clock;
use oncebox_core::machine::Capacity;

/// When an answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When what it says is on disk. A power cut loses nothing that was answered, but for leases (see the format).
    #[default]
    Sync,
    /// When it has been handed to the operating system, which is made to write it at least so often. The end of the
    /// process loses nothing; a power cut loses what was answered in the last interval.
    Interval(Duration),
    /// When it has been handed to the operating system, which writes it when it likes. The end of the process loses
    /// nothing; a power cut loses what was answered in the last half minute or so.
    Os,
}

/// How an embedded store is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// What lines of the log call the store (IBX-113); `embedded:` and its directory if none is given.
    pub name: Option<Arc<str>>,
    /// When an answer is given.
    pub durability: Durability,
    /// How much it may hold. Until finished messages can leave memory, they count too.
    pub capacity: Capacity,
    /// Bytes of a segment of the journal: 64 KiB to 16 MiB.
    pub segment_bytes: u64,
    /// The clock; the system's, and never before what was recorded, if none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// Open although the clock is more than a year ahead of what was recorded last: every lease, hold and retention would
    /// be over at once, so a clock that is merely wrong must not open the store.
    pub accept_clock: bool,
    /// Names this run of the operating system, which leases do not outlive; the kernel's boot id if none is given.
    pub boot_id: Option<String>,
}

impl Default for Options {
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
