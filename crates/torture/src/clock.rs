//! The wall clock of the campaigns.

use std::time::Duration;

/// Milliseconds of the wall clock.
#[expect(clippy::disallowed_methods, reason = "the campaign's own clock: the stores' clocks are under test")]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Sleeps. For polling where there is no event to wait for.
pub(crate) fn pause(duration: Duration) {
    std::thread::park_timeout(duration);
}
