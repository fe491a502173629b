//! A token bucket on the runtime's clock.

use std::time::Duration;

use tokio::time::Instant;

/// Limits starts to a number per second, with bursts of up to one second's worth.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    per_second: f64,
    tokens: f64,
    counted_at: Option<Instant>,
}

impl Rate {
    pub(super) fn new(per_second: f64) -> Self {
        Self { per_second, tokens: per_second.max(1.0), counted_at: None }
    }

    fn count(&mut self, now: Instant) {
        let since = self.counted_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.counted_at = Some(now);
        self.tokens = (self.tokens + since.as_secs_f64() * self.per_second).min(self.per_second.max(1.0));
    }

    /// How many may start now.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating is right"
    )]
    pub(super) fn available(&mut self, now: Instant) -> usize {
        self.count(now);
        self.tokens as usize
    }

    /// Records one start.
    pub(super) fn take(&mut self, now: Instant) {
        self.count(now);
        self.tokens -= 1.0;
    }

    /// When the next may start, if none may now.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating is right"
    )]
    pub(super) fn next(&mut self, now: Instant) -> Instant {
        self.count(now);
        let missing = (1.0 - self.tokens).max(0.0) / self.per_second;
        // Rounded up to the resolution of timers: a timer that fires too early would be set again and again.
        now + Duration::from_millis((missing * 1_000.0).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Rate;

    #[test]
    fn a_second_worth_may_start_at_once_and_then_one_at_a_time() {
        let start = Instant::now();
        let mut rate = Rate::new(4.0);
        for _ in 0..4 {
            rate.take(start);
        }
        assert_eq!(rate.available(start), 0);
        assert_eq!(rate.next(start), start + Duration::from_millis(250));
        assert_eq!(rate.available(start + Duration::from_millis(250)), 1);
        assert_eq!(rate.available(start + Duration::from_secs(60)), 4);
    }

    #[test]
    fn less_than_one_per_second_still_starts_one() {
        let start = Instant::now();
        let mut rate = Rate::new(0.5);
        assert_eq!(rate.available(start), 1);
        rate.take(start);
        assert_eq!(rate.next(start), start + Duration::from_secs(2));
    }
}
