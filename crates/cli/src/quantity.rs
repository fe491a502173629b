//! Ages, spans and sizes as people say them.

use std::time::{SystemTime, UNIX_EPOCH};

/// How long ago a moment was, or in how long it is: `3m ago`, `in 5s`. What is no moment stays as it is.
pub(crate) fn ago(moment: &str) -> String {
    ago_at(moment, now())
}

/// The moment, and how long ago it was.
pub(crate) fn with_age(moment: &str) -> String {
    let ago = ago(moment);
    if ago == moment { ago } else { format!("{moment} ({ago})") }
}

fn ago_at(moment: &str, now: i64) -> String {
    let Some(at) = millis(moment) else { return moment.to_owned() };
    if at > now {
        format!("in {}", span(at.abs_diff(now)))
    } else {
        format!("{} ago", span(now.abs_diff(at)))
    }
}

/// A span of milliseconds by its largest unit: `250ms`, `59s`, `3m`, `17h`, `12d`.
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
    // In tenths of a unit, cut off: a bound that is not reached does not look as if it were.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1_024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        (tenths, unit) = (tenths / 1_024, unit + 1);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[expect(clippy::disallowed_methods, reason = "ages are shown to a person, by the clock on the wall")]
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970 of a moment as the server writes it: `2026-11-16T05:57:21.798Z`.
fn millis(text: &str) -> Option<i64> {
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    let bytes = text.as_bytes();
    if bytes.len() != 24 || marks.iter().any(|(place, mark)| bytes[*place] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes[from..to].iter().all(u8::is_ascii_digit);
        digits.then(|| text[from..to].parse().ok()).flatten()
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    // Years begin in March, so that the day that is sometimes there is the last.
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
        for (later, told) in [(0, "0ms ago"), (59_999, "59s ago"), (180_000, "3m ago"), (-5_000, "in 5s")] {
            assert_eq!(ago_at("2026-11-16T05:56:04.000Z", at + later), told);
        }
        assert_eq!([3_600_000, 86_400_000].map(span), ["1h", "1d"]);
    }

    #[test]
    fn what_is_no_moment_stays_as_it_is() {
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
