//! Parsing timestamps.

use std::str::FromStr;

use super::{DAY_MS, Timestamp};
use crate::error::Invalid;

/// Longer texts are rejected.
const TEXT_BYTES_MAX: usize = 40;

impl FromStr for Timestamp {
    type Err = Invalid;

    /// Parses RFC 3339 timestamps from 1970 to 9999: `2026-01-01T00:00:00Z`, with a fraction of a second, or with an
    /// offset such as `+02:00` in place of the `Z`. Digits beyond milliseconds are dropped.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let timestamp = Some(text.as_bytes()).filter(|text| text.len() <= TEXT_BYTES_MAX).and_then(read);
        timestamp.ok_or(Invalid::new("timestamp", "must be in RFC 3339 format, such as 2026-01-01T00:00:00Z"))
    }
}

fn read(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.split_at_checked(9)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *date else { return None };
    let [b'T' | b't' | b' ', h1, h2, b':', n1, n2, b':', s1, s2] = *time else { return None };
    let (year, month, day) = (number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?);
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[n1, n2])?, number(&[s1, s2])?);
    // A leap second counts as the last second of its minute.
    if hour > 23 || minute > 59 || second > 60 || !(1..=12).contains(&month) {
        return None;
    }
    if year < 1970 || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let (millis, zone) = fraction(rest)?;
    let seconds = (hour * 60 + minute) * 60 + second.min(59);
    let local = days(year, month, day)? * DAY_MS + seconds * 1_000 + millis;
    let (ahead, minutes) = offset(zone)?;
    let utc = if ahead { local.checked_sub(minutes * 60_000)? } else { local + minutes * 60_000 };
    Some(Timestamp::from_millis(utc))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

/// Milliseconds, and the text after them.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(rest) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, zone) = rest.split_at(length);
    let padded = [digits, b"00"].concat();
    Some((number(padded.get(..3)?)?, zone))
}

/// Whether the zone is ahead of UTC, and the difference in minutes.
fn offset(text: &[u8]) -> Option<(bool, u64)> {
    match *text {
        [b'Z' | b'z'] => Some((true, 0)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
            (hours < 24 && minutes < 60).then_some((sign == b'+', hours * 60 + minutes))
        }
        _ => None,
    }
}

fn days_of(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01. Years start in March here, so that the leap day is last.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    days.checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::Timestamp;

    #[test]
    fn what_rfc_3339_allows_is_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56.789Z", 951_827_696_789),
            ("2000-02-29t12:34:56.7891234z", 951_827_696_789),
            ("2000-02-29 14:34:56.7+02:00", 951_827_696_700),
            ("2000-02-29T07:04:56-05:30", 951_827_696_000),
            ("9999-12-31T23:59:60Z", 253_402_300_799_000),
        ] {
            assert_eq!(text.parse(), Ok(Timestamp::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "+026-01-01T00:00:00Z",
            "never",
        ] {
            let error = text.parse::<Timestamp>().unwrap_err().to_string();
            assert_eq!(error, "timestamp must be in RFC 3339 format, such as 2026-01-01T00:00:00Z", "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_timestamps_parse_back(millis in 0u64..253_402_300_800_000) {
            let timestamp = Timestamp::from_millis(millis);
            prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>()) {
            drop(text.parse::<Timestamp>());
        }
    }
}
