//! Times on the command line: a timestamp, or an age.

use std::time::{SystemTime, UNIX_EPOCH};

use oncebox::Timestamp;

use crate::duration;

/// Parses a time and returns it as requests carry it. Ages count from this machine's clock.
pub(super) fn parse(text: &str) -> Result<String, String> {
    if text.parse::<Timestamp>().is_ok() {
        return Ok(text.to_owned());
    }
    let ago = duration::parse(text).map_err(|_| {
        "expected a timestamp, as in 2026-01-01T00:00:00Z, or an age, as in 30m or 2h".to_owned()
    })?;
    #[expect(clippy::disallowed_methods, reason = "an age is relative to the wall clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or_default();
    Ok(Timestamp::from_millis(millis).to_string())
}

#[cfg(test)]
mod tests {
    use oncebox::Timestamp;

    use super::parse;

    #[test]
    fn a_time_is_a_timestamp_or_an_age() {
        assert_eq!(parse("2026-01-01T00:00:00+01:00").as_deref(), Ok("2026-01-01T00:00:00+01:00"));
        let time = |text| parse(text).unwrap().parse::<Timestamp>().unwrap();
        assert!(time("2h") < time("1h"));
        assert_eq!(time("99999999h"), Timestamp::EPOCH);
        assert!(parse("yesterday").unwrap_err().contains("2h"));
    }
}
