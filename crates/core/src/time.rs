//! Store time: whole milliseconds since 1970. The core never reads a clock; callers pass in the time.

mod parse;

use std::fmt;
use std::time::Duration;

use crate::ascii::{AppendAscii, put_decimal, write_ascii};
use crate::error::Invalid;
use crate::limits::DURATION_MAX;

/// A moment of store time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// Later than every real moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `millis` milliseconds after [`Timestamp::EPOCH`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since [`Timestamp::EPOCH`].
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment plus `duration`, rounded up to a millisecond; at most [`Timestamp::NEVER`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let rest = u64::from(duration.subsec_nanos().div_ceil(1_000_000));
        let millis = duration.as_secs().saturating_mul(1_000).saturating_add(rest);
        Self(self.0.saturating_add(millis))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "{}ms", self.0) }
    }
}

impl fmt::Display for Timestamp {
    /// In RFC 3339 format with milliseconds: `2026-01-01T00:00:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write_ascii(f, &text),
            None => self.write_out_of_range(f),
        }
    }
}

impl AppendAscii for Timestamp {
    fn append_to(&self, text: &mut Vec<u8>) {
        match self.text() {
            Some(digits) => text.extend_from_slice(&digits),
            None => text.extend_from_slice(self.to_string().as_bytes()),
        }
    }
}

impl Timestamp {
    /// The text, for years up to 9999.
    fn text(self) -> Option<[u8; 24]> {
        let (days, rest) = (self.0 / DAY_MS, self.0 % DAY_MS);
        let (year, month, day) = date(days);
        if year > 9_999 {
            return None;
        }
        let (hour, minute, second, milli) = time_of_day(rest);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (range, number) in [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, hour),
            (14..16, minute),
            (17..19, second),
            (20..23, milli),
        ] {
            put_decimal(&mut text[range], number);
        }
        Some(text)
    }

    fn write_out_of_range(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self == Self::NEVER {
            return f.write_str("never");
        }
        let (year, month, day) = date(self.0 / DAY_MS);
        let (hour, minute, second, milli) = time_of_day(self.0 % DAY_MS);
        write!(f, "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Hour, minute, second and millisecond.
fn time_of_day(millis: u64) -> (u64, u64, u64, u64) {
    (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60, millis % 1_000)
}

/// Year, month and day of the day that is `days` after 1970-01-01. Years start in March here, so that the leap day is
/// last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_400_YEARS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_400_YEARS, days % DAYS_400_YEARS);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (DAYS_400_YEARS - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A duration that is greater than zero and at most [`DURATION_MAX`]: a lease, a retry delay.
///
/// Stored in milliseconds, rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

impl Span {
    /// Accepts a duration for `field`, which an error will name.
    pub fn new(field: &'static str, duration: Duration) -> Result<Self, Invalid> {
        if duration.is_zero() {
            return Err(Invalid::new(field, "must be greater than zero"));
        }
        if duration > DURATION_MAX {
            return Err(Invalid::new(field, "is longer than ten years"));
        }
        Ok(Self(Timestamp::EPOCH.after(duration).since(Timestamp::EPOCH)))
    }

    /// A lease (IBX-040).
    pub fn lease(duration: Duration) -> Result<Self, Invalid> {
        Self::new("lease", duration)
    }

    /// A retry delay (IBX-058).
    pub fn delay(duration: Duration) -> Result<Self, Invalid> {
        Self::new("delay", duration)
    }

    /// The duration.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// The clock of a store.
pub trait Clock: Send + Sync {
    /// The current time; never earlier than a previous result.
    fn now(&self) -> Timestamp;
}

/// Derives store time from readings of the wall clock and a monotonic clock.
///
/// Starts at the later of the wall clock and the highest recorded time, then follows the monotonic clock and slews
/// towards the wall clock by at most 1 %. It never goes back.
#[derive(Debug, Clone)]
pub struct Steady {
    now_ms: f64,
    elapsed_ms: f64,
}

impl Steady {
    const SLEW_MAX: f64 = 0.01;

    /// Starts at the later of `wall` and `recorded`, with the monotonic clock at zero.
    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 stay below 2^53 for 285,000 years"
    )]
    pub fn start(wall: Timestamp, recorded: Timestamp) -> Self {
        Self { now_ms: wall.max(recorded).as_millis() as f64, elapsed_ms: 0.0 }
    }

    /// Store time when the monotonic clock shows `elapsed` since the start and the wall clock shows `wall`.
    #[expect(clippy::cast_precision_loss, reason = "as above")]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, positive milliseconds"
    )]
    pub fn now(&mut self, elapsed: Duration, wall: Timestamp) -> Timestamp {
        let elapsed_ms = elapsed.as_secs_f64() * 1_000.0;
        let step = (elapsed_ms - self.elapsed_ms).max(0.0);
        self.elapsed_ms = self.elapsed_ms.max(elapsed_ms);
        let gap = wall.as_millis() as f64 - (self.now_ms + step);
        self.now_ms += step + gap.clamp(-Self::SLEW_MAX * step, Self::SLEW_MAX * step);
        Timestamp::from_millis(self.now_ms as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, prop, prop_assert, proptest};

    use super::{Span, Steady, Timestamp};

    /// Holds: IBX-040, IBX-058.
    #[test]
    fn leases_and_delays_are_greater_than_zero() {
        assert_eq!(Span::lease(Duration::ZERO).unwrap_err().to_string(), "lease must be greater than zero");
        assert_eq!(Span::delay(Duration::ZERO).unwrap_err().to_string(), "delay must be greater than zero");
        assert_eq!(Span::delay(Duration::from_nanos(1)).unwrap().get(), Duration::from_millis(1));
        assert!(Span::lease(Duration::from_secs(u64::MAX)).is_err());
    }

    #[test]
    fn timestamps_are_printed_in_rfc_3339_format() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
        }
        assert_eq!(Timestamp::NEVER.to_string(), "never");
    }

    #[test]
    fn adding_a_huge_duration_gives_never() {
        assert_eq!(Timestamp::from_millis(5).after(Duration::MAX), Timestamp::NEVER);
    }

    proptest! {
        /// Whatever the wall clock shows, off by minutes or by years.
        /// Holds: RULE-09, MBX-I-17, MBX-C-11.
        #[test]
        fn store_time_never_goes_back_and_keeps_its_rate(
            start in 0u64..1 << 40,
            recorded in 0u64..1 << 40,
            readings in prop::collection::vec((0u64..100_000, any::<u32>()), 1..50),
        ) {
            let begin = Timestamp::from_millis(start).max(Timestamp::from_millis(recorded));
            let mut clock = Steady::start(Timestamp::from_millis(start), Timestamp::from_millis(recorded));
            let (mut elapsed, mut last) = (0, begin);
            for (step, wall) in readings {
                elapsed += step;
                let now = clock.now(Duration::from_millis(elapsed), Timestamp::from_millis(u64::from(wall)));
                prop_assert!(now >= last);
                let hundredfold = (now.as_millis() - begin.as_millis()) * 100;
                prop_assert!(hundredfold + 200 >= elapsed * 99 && hundredfold <= elapsed * 101 + 200);
                last = now;
            }
        }
    }
}
