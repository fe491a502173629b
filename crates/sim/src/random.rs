//! All randomness of a run, derived from its seed.

use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct RandomStream(SplitMix);

impl RandomStream {
    /// The stream of this name, independent of the streams of other names.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        let mut mixed = SplitMix::new(seed);
        let mut state = mixed.next_u64();
        for byte in name.bytes() {
            state = SplitMix::new(state ^ u64::from(byte)).next_u64();
        }
        Self(SplitMix::new(state))
    }

    /// True with a probability of `share` percent.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.0.below(100) < share
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.between(0, from.len() as u64 - 1);
        from[usize::try_from(index).unwrap_or_default()]
    }

    /// A new, independent generator.
    pub(crate) fn fork(&mut self) -> SplitMix {
        SplitMix::new(self.0.next_u64())
    }
}
