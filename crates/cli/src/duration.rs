//! Durations on the command line: `250ms`, `10s`, `5m`, `2h`, `30d`.

use std::time::Duration;

/// Parses a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || "expected a whole number with a unit, as in 250ms, 10s, 5m, 2h or 30d".to_owned();
    let split = text.find(|char: char| !char.is_ascii_digit()).ok_or_else(invalid)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    };
    millis.map(Duration::from_millis).ok_or_else(invalid)
}

/// The duration in milliseconds, as requests carry it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn a_duration_needs_a_unit() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "10", "s", "-1s", "1.5s", "1 s", "1w", "99999999999999999999s", "18446744073709551615h"]
        {
            assert!(parse(text).unwrap_err().contains("10s"), "{text}");
        }
    }
}
