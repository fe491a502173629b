//! A small seeded random generator, and a monotonic clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A random duration of at most `longest`.
    pub(crate) fn within(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(self.next() % (micros + 1))
    }

    /// True with a probability of `share` percent.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.next() % 100 < share
    }
}

/// Time since the first call, on the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the auditor's own clock: the store's is under test")]
pub(crate) fn uptime() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}
