//! Retry policies as plain values, from a number of failures to a delay.

use std::time::Duration;

use crate::error::Invalid;
use crate::id::Rng;
use crate::limits::DURATION_MAX;
use crate::time::Span;

/// How a delay grows with the number of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Growth {
    /// Always the first delay.
    Fixed,
    /// Doubles with each failure.
    Exponential,
}

/// How a delay is randomized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Jitter {
    /// Not at all.
    None,
    /// By up to 20 % to either side, then capped again.
    Fifth,
    /// Anything from one millisecond to the delay.
    Full,
}

/// A backoff policy: how long to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    growth: Growth,
    jitter: Jitter,
}

impl Backoff {
    /// The inbox: 2 s doubling to 60 s (IBX-081). Pass the number of earlier failures.
    pub const INBOX: Self = Self {
        first: Duration::from_secs(2),
        max: Duration::from_secs(60),
        growth: Growth::Exponential,
        jitter: Jitter::None,
    };
    /// Commands: 5 s doubling to 5 min, ±20 %. Pass the number of earlier failures.
    pub const COMMANDS: Self = Self {
        first: Duration::from_secs(5),
        max: Duration::from_secs(300),
        growth: Growth::Exponential,
        jitter: Jitter::Fifth,
    };
    /// The mailbox: full jitter below `min(60 s, 1 s · 2^n)`. Pass the number of the delivery, from 1 (MBX-P-7).
    pub const MAILBOX: Self = Self {
        first: Duration::from_secs(1),
        max: Duration::from_secs(60),
        growth: Growth::Exponential,
        jitter: Jitter::Full,
    };

    /// A policy with delays between `first` and `max`. Refuses zero, a `max` below `first`, and more than ten years.
    pub fn new(first: Duration, max: Duration, growth: Growth, jitter: Jitter) -> Result<Self, Invalid> {
        if first.is_zero() {
            return Err(Invalid::new("first delay", "must be greater than zero"));
        }
        if max < first {
            return Err(Invalid::new("max delay", "must not be shorter than the first delay"));
        }
        if max > DURATION_MAX {
            return Err(Invalid::new("max delay", "is longer than ten years"));
        }
        Ok(Self { first, max, growth, jitter })
    }

    /// The delay before the next attempt, for `count` failures or deliveries as the policy counts them.
    pub fn delay(&self, count: u32, rng: &mut dyn Rng) -> Span {
        let base = self.base(count);
        let spread = match self.jitter {
            Jitter::None => base,
            Jitter::Fifth => between(rng, base * 4 / 5, base * 6 / 5).min(self.max),
            Jitter::Full => between(rng, Duration::from_millis(1), base),
        };
        Span::delay(spread.max(Duration::from_millis(1)))
            .expect("a policy's delays are checked when it is built")
    }

    /// The delay before jitter.
    fn base(&self, count: u32) -> Duration {
        match self.growth {
            Growth::Fixed => self.first,
            Growth::Exponential => {
                let factor = 1u32.checked_shl(count).unwrap_or(u32::MAX);
                self.first.saturating_mul(factor).min(self.max)
            }
        }
    }
}

/// A random duration of whole milliseconds between `low` and `high`, both inclusive.
fn between(rng: &mut dyn Rng, low: Duration, high: Duration) -> Duration {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (low, high) = (millis(low), millis(high.max(low)));
    Duration::from_millis(low + rng.next_u64() % (high - low + 1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Backoff, Growth, Jitter};
    use crate::id::Rng;

    struct Fixed(u64);

    impl Rng for Fixed {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    fn seconds(policy: Backoff, counts: impl IntoIterator<Item = u32>) -> Vec<u64> {
        counts.into_iter().map(|count| policy.delay(count, &mut Fixed(0)).get().as_secs()).collect()
    }

    /// Holds: IBX-080, IBX-081, RULE-10.
    #[test]
    fn the_inbox_waits_2_4_8_seconds_up_to_60() {
        assert_eq!(seconds(Backoff::INBOX, 0..=6), [2, 4, 8, 16, 32, 60, 60]);
    }

    /// Draws from both ends of every range: 1 ms, and 2, 4, 8 … 60 s.
    /// Holds: MBX-P-7, RULE-10.
    #[test]
    fn the_mailbox_draws_from_1_ms_to_2_4_8_seconds_up_to_60() {
        for (delivery, most) in [(1, 2_000), (2, 4_000), (3, 8_000), (5, 32_000), (6, 60_000), (99, 60_000)] {
            let drawn = |draw| Backoff::MAILBOX.delay(delivery, &mut Fixed(draw)).get().as_millis();
            assert_eq!((drawn(0), drawn(most - 1), drawn(most)), (1, u128::from(most), 1), "{delivery}");
        }
    }

    #[test]
    fn invalid_policies_are_refused() {
        let policy = |first, max| {
            Backoff::new(Duration::from_secs(first), Duration::from_secs(max), Growth::Fixed, Jitter::None)
        };
        assert!(policy(0, 1).is_err());
        assert!(policy(2, 1).is_err());
        assert!(policy(1, u64::MAX).is_err());
        assert_eq!(seconds(policy(30, 60).unwrap(), [0, 1, 9]), [30, 30, 30]);
    }

    proptest! {
        /// Holds: RULE-10, IBX-082.
        #[test]
        fn delays_grow_stay_capped_and_never_overflow(
            first in 1u64..100_000, more in 0u64..100_000_000, count in 0u32..10_001, draw in any::<u64>(),
        ) {
            let (first, max) = (Duration::from_millis(first), Duration::from_millis(first + more));
            let policy = |jitter| Backoff::new(first, max, Growth::Exponential, jitter).unwrap();
            let plain = policy(Jitter::None);
            let base = plain.delay(count, &mut Fixed(draw)).get();
            prop_assert!(first <= base && base <= max);
            prop_assert!(base <= plain.delay(count + 1, &mut Fixed(draw)).get());
            let fifth = policy(Jitter::Fifth).delay(count, &mut Fixed(draw)).get();
            prop_assert!(fifth <= max && fifth + Duration::from_millis(1) >= base * 4 / 5 && fifth <= base * 6 / 5);
            let full = policy(Jitter::Full).delay(count, &mut Fixed(draw)).get();
            prop_assert!(Duration::from_millis(1) <= full && full <= base);
        }
    }
}
