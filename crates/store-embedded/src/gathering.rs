//! How long a group waits for more calls before it is written.

use std::time::Duration;

/// Longest wait, whatever a sync takes.
const LIMIT_MAX: Duration = Duration::from_millis(1);
/// The longest wait is this part of a sync, and each wait in vain halves it, down to nothing worth waiting for.
const SHARE: u32 = 2;
const HALVINGS_MAX: u32 = 6;

/// What the last groups showed about how soon callers come back.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// How long the last sync took.
    pub(crate) sync_took: Duration,
    /// Calls that are expected in the next group: those that came during the sync, and those that it answered.
    pub(crate) calls_wanted: usize,
    halvings: u32,
}

impl Gathering {
    /// How long to wait for the expected calls.
    pub(crate) fn limit(&self) -> Duration {
        (self.sync_took / SHARE / (1 << self.halvings)).min(LIMIT_MAX)
    }

    /// Notes whether the expected calls came in time.
    pub(crate) fn learn(&mut self, came: bool) {
        self.halvings =
            if came { self.halvings.saturating_sub(1) } else { (self.halvings + 1).min(HALVINGS_MAX) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Gathering;

    #[test]
    fn waits_in_vain_grow_short_and_good_ones_long_again() {
        let mut gathering = Gathering { sync_took: Duration::from_micros(800), ..Gathering::default() };
        assert_eq!(gathering.limit(), Duration::from_micros(400));
        for _ in 0..20 {
            gathering.learn(false);
        }
        assert!(gathering.limit() <= Duration::from_micros(7));
        for _ in 0..6 {
            gathering.learn(true);
        }
        assert_eq!(gathering.limit(), Duration::from_micros(400));
        gathering.sync_took = Duration::from_secs(5);
        assert_eq!(gathering.limit(), Duration::from_millis(1));
    }
}
