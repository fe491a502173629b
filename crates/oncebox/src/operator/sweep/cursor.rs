//! Cursors of sweeps, and their text form.

use std::fmt;
use std::str::FromStr;

use oncebox_core::{Invalid, Number};

/// Where a sweep continues: after the last message that it visited, up to the newest that existed when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepCursor {
    pub(super) after: Option<Number>,
    pub(super) last: Number,
    /// The first message that was skipped: the next pass starts with it.
    pub(super) skipped: Option<Number>,
}

impl fmt::Display for SweepCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(after) = self.after {
            write!(f, "{:x}", after.0)?;
        }
        write!(f, "-{:x}", self.last.0)?;
        match self.skipped {
            Some(skipped) => write!(f, "-{:x}", skipped.0),
            None => Ok(()),
        }
    }
}

impl FromStr for SweepCursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u64::from_str_radix(text, 16).ok().filter(|_| digits).map(Number)
        };
        let cursor = text.split_once('-').and_then(|(after, rest)| {
            let after = if after.is_empty() { None } else { Some(number(after)?) };
            let (last, skipped) = match rest.split_once('-') {
                Some((last, skipped)) => (last, Some(number(skipped)?)),
                None => (rest, None),
            };
            Some(Self { after, last: number(last)?, skipped })
        });
        cursor.ok_or(Invalid::new("cursor", "is not valid"))
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::Number;

    use super::SweepCursor;

    #[test]
    fn a_cursor_round_trips_as_text_and_invalid_text_is_rejected() {
        for after in [None, Some(Number(0)), Some(Number(u64::MAX))] {
            for skipped in [None, Some(Number(1)), Some(Number(u64::MAX))] {
                let cursor = SweepCursor { after, last: Number(77), skipped };
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
        for text in ["", "-", "1", "1-", "x-1", "1-2-", "1-2-3-4", "+1-2"] {
            assert!(text.parse::<SweepCursor>().is_err(), "{text}");
        }
    }
}
