//! Human-readable ages, durations and sizes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time between a timestamp and now: `3m ago`, `in 5s`. Text that is not a timestamp is returned unchanged.
pub(crate) fn ago(timestamp: &str) -> String {
    ago_at(timestamp, now())
}

/// The timestamp, followed by its age.
pub(crate) fn with_age(timestamp: &str) -> String {
    let ago = ago(timestamp);
    if ago == timestamp { ago } else { format!("{timestamp} ({ago})") }
}

fn ago_at(timestamp: &str, now: i64) -> String {
    let Some(at) = millis(timestamp) else { return timestamp.to_owned() };
    if at > now {
        format!("in {}", span(at.abs_diff(now)))
    } else {
        format!("{} ago", span(now.abs_diff(at)))
    }
}

/// A duration in milliseconds by its largest unit: `250ms`, `59s`, `3m`, `17h`, `12d`.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1_000;
    match (seconds / 86_400, seconds / 3_600, seconds / 60, seconds) {
        (0, 0, 0, 0) => format!("{millis}ms"),
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, _) => format!("{minutes}m"),
        (0, hours, ..) => format!("{hours}h"),
        (days, ..) => format!("{days}d"),
    }
}

/// A size by its largest unit: `512 B`, `1.5 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    // Rounded down to tenths of a unit, so that a usage below its limit never reads as equal to it.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1_024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1_024, unit + 1);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

fn now() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// The time in Unix seconds.
pub(crate) fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

#[expect(clippy::disallowed_methods, reason = "ages and the ends of tokens are relative to the wall clock")]
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970 of a timestamp as the server writes it: `2026-11-16T05:57:21.798Z`.
fn millis(text: &str) -> Option<i64> {
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    let bytes = text.as_bytes();
    if bytes.len() != 24 || separators.iter().any(|(index, separator)| bytes[*index] != *separator) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes[from..to].iter().all(u8::is_ascii_digit);
        digits.then(|| text[from..to].parse().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    // Years start in March, so that the leap day is the last day of the year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + number(11, 13)?) * 60 + number(14, 16)?) * 60 + number(17, 19)?;
    Some(seconds * 1_000 + number(20, 23)?)
}

#[cfg(test)]
mod tests {
    use super::{ago_at, bytes, millis, span};

    #[test]
    fn ages_have_one_unit() {
        let at = millis("2026-11-16T05:56:04.000Z").unwrap();
        assert_eq!(at, 1_794_808_564_000);
        for (later, expected) in [(0, "0ms ago"), (59_999, "59s ago"), (180_000, "3m ago"), (-5_000, "in 5s")]
        {
            assert_eq!(ago_at("2026-11-16T05:56:04.000Z", at + later), expected);
        }
        assert_eq!([3_600_000, 86_400_000].map(span), ["1h", "1d"]);
    }

    #[test]
    fn text_that_is_not_a_timestamp_is_unchanged() {
        for text in
            ["", "T1", "2026-11-16 05:56:04.000Z", "2026-11-16T05:5x:04.000Z", "2026-1é-16T05:56:04.00Z"]
        {
            assert_eq!(ago_at(text, 0), text);
        }
    }

    #[test]
    fn sizes_have_one_unit_and_are_never_rounded_up() {
        let sizes = [0, 1_023, 1_024, 1_048_575, 1_048_576, 1_610_612_736].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "1.5 GiB"]);
        assert!(bytes(u64::MAX).ends_with(" TiB"));
    }
}
