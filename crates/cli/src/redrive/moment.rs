//! Moments on the command line: written out, or how long ago.

use std::time::{SystemTime, UNIX_EPOCH};

use oncebox::Timestamp;

use crate::duration;

/// Reads a moment; gives it as it travels. How long ago is counted by this machine's clock.
pub(super) fn parse(text: &str) -> Result<String, String> {
    if text.parse::<Timestamp>().is_ok() {
        return Ok(text.to_owned());
    }
    let ago = duration::parse(text).map_err(|_| {
        "give a moment, as in 2026-01-01T00:00:00Z, or how long ago, as in 30m or 2h".to_owned()
    })?;
    #[expect(clippy::disallowed_methods, reason = "what is asked for is a moment before now")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or_default();
    Ok(Timestamp::from_millis(millis).to_string())
}

#[cfg(test)]
mod tests {
    use oncebox::Timestamp;

    use super::parse;

    #[test]
    fn a_moment_is_written_out_or_a_while_ago() {
        assert_eq!(parse("2026-01-01T00:00:00+01:00").as_deref(), Ok("2026-01-01T00:00:00+01:00"));
        let moment = |text| parse(text).unwrap().parse::<Timestamp>().unwrap();
        assert!(moment("2h") < moment("1h"));
        assert_eq!(moment("99999999h"), Timestamp::EPOCH);
        assert!(parse("yesterday").unwrap_err().contains("2h"));
    }
}
