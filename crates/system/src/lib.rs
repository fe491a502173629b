//! The operating system's clock and entropy, behind the traits of the core. No other crate reads them directly.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use oncebox_core::{Clock, Rng, Steady, Timestamp};

/// Store time from the system's clocks: starts at the wall clock, follows the monotonic clock, and never goes back.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    steady: Mutex<Steady>,
}

impl SystemClock {
    /// A clock that starts at the later of the wall clock and `recorded`, the highest time recorded before.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start(recorded: Timestamp) -> Self {
        Self { started: Instant::now(), steady: Mutex::new(Steady::start(wall(), recorded)) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::start(Timestamp::EPOCH)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let (elapsed, wall) = (self.started.elapsed(), wall());
        self.steady.lock().unwrap_or_else(PoisonError::into_inner).now(elapsed, wall)
    }
}

/// The wall clock; a time before 1970 counts as 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn wall() -> Timestamp {
    timestamp(SystemTime::now())
}

/// Converts a system time to store time; a time before 1970 counts as 1970.
pub fn timestamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Time on the monotonic clock since the first call of this function.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn uptime() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// Random bits from the operating system, fetched in blocks.
#[derive(Debug, Default)]
pub struct SystemRng {
    block: Vec<u64>,
}

impl SystemRng {
    const BLOCK_WORDS: usize = 64;

    /// Fetches the next block.
    ///
    /// # Panics
    /// If the operating system provides no entropy: without it, no ids can be generated.
    fn refill(&mut self) {
        let mut bytes = [0; Self::BLOCK_WORDS * 8];
        getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
        let word = |chunk: &[u8; 8]| u64::from_le_bytes(*chunk);
        self.block = bytes.as_chunks::<8>().0.iter().map(word).collect();
    }
}

impl Rng for SystemRng {
    fn next_u64(&mut self) -> u64 {
        if self.block.is_empty() {
            self.refill();
        }
        self.block.pop().expect("a new block is not empty")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use oncebox_core::{Clock, IdSource, Rng, Timestamp};

    use super::{SystemClock, SystemRng};

    /// Holds: RULE-09.
    #[test]
    fn the_clock_starts_at_the_recorded_time_if_that_is_later() {
        let far = Timestamp::from_millis(1 << 50);
        assert!(SystemClock::start(far).now() >= far);
        let clock = SystemClock::default();
        let first = clock.now();
        assert!(first > Timestamp::from_millis(1_600_000_000_000) && clock.now() >= first);
    }

    #[test]
    fn random_numbers_and_uids_do_not_repeat() {
        let mut rng = SystemRng::default();
        let words: HashSet<_> = (0..1_000).map(|_| rng.next_u64()).collect();
        assert_eq!(words.len(), 1_000);
        let uids: HashSet<_> = (0..1_000).map(|_| rng.next_uid(Timestamp::EPOCH)).collect();
        assert_eq!(uids.len(), 1_000);
    }
}
