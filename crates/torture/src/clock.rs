//! The time, for those who judge.

use std::time::Duration;

/// Milliseconds of the wall clock.
#[expect(clippy::disallowed_methods, reason = "the judges' own clock: the stores' are under test")]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Waits for a moment at which nothing else happens that one could wait for.
pub(crate) fn pause(duration: Duration) {
    std::thread::park_timeout(duration);
}
