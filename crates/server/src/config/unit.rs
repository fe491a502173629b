//! Durations and sizes with units, and TOML strings.

use std::fmt::Write;
use std::time::Duration;

const DURATIONS: [(&str, u64); 5] =
    [("d", 24 * 60 * 60 * 1_000), ("h", 60 * 60 * 1_000), ("m", 60 * 1_000), ("s", 1_000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Parses `250ms`, `5s`, `10m`, `1h`, `7d`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    parse(text, &DURATIONS).map(Duration::from_millis)
}

/// Parses `100B`, `512KiB`, `1MiB`, `1GiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    parse(text, &SIZES)
}

/// Formats a duration in the largest unit that needs no fraction.
pub(super) fn duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { "0s".to_owned() } else { print(millis, &DURATIONS) }
}

/// Formats a size in the largest unit that needs no fraction.
pub(super) fn size(bytes: u64) -> String {
    if bytes == 0 { "0B".to_owned() } else { print(bytes, &SIZES) }
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let start = text.find(|character: char| !character.is_ascii_digit())?;
    let (number, unit) = text.split_at(start);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn print(value: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    unit.map_or_else(|| value.to_string(), |(name, factor)| format!("{}{name}", value / factor))
}

/// Formats a TOML string on one line.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Formats a TOML key, bare if possible.
pub(super) fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
}

/// Formats a text for a message or a comment: on one line, truncated to 120 characters.
pub(super) fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut line = String::new();
    for character in text.chars().take(CHARS_MAX) {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    if text.chars().nth(CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_values_parse_to_the_same() {
        for text in ["1ms", "250ms", "5s", "90s", "10m", "1h", "7d", "0s"] {
            assert_eq!(parse_duration(text).map(duration).as_deref(), Some(text));
        }
        for text in ["0B", "100B", "512KiB", "1025B", "1MiB", "3GiB"] {
            assert_eq!(parse_size(text).map(size).as_deref(), Some(text));
        }
    }

    #[test]
    fn numbers_without_a_unit_or_out_of_range_are_invalid() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            "-5s",
            "1.5s",
            "5S",
            "5sec",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        for text in ["5", "5k", "5KB", "5kib", "18446744073709551615KiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn strings_stay_on_one_line() {
        assert_eq!(quoted("a\"b\\\n\u{7f}"), r#""a\"b\\\u000A\u007F""#);
        assert_eq!(key("orders.eu"), "\"orders.eu\"");
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), 121);
    }
}
