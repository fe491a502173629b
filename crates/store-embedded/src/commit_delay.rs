//! Commit delay: how long a group waits for more calls before it is written.

use std::time::Duration;

use oncebox_system::uptime;

/// Longest delay, however long a sync takes.
const DELAY_MAX: Duration = Duration::from_millis(1);
/// Callers whose think time is at most this fraction (1/2) of a sync are fast.
const FAST_SYNC_DIVISOR: u32 = 2;
/// This many callers keep the processor busy while a group waits for most of them, and each sync saved frees it for
/// them.
const MANY_CALLERS: usize = 20;
/// With [`MANY_CALLERS`], a group waits for at most this many sync durations.
const MANY_CALLERS_SYNCS: u32 = 2;

/// What the last sync showed about how soon callers make their next call.
#[derive(Debug, Default)]
pub(crate) struct CommitDelay {
    /// How long the sync took.
    pub(crate) sync_duration: Duration,
    /// Calls expected in the next group: those that arrived during the sync, and one from each caller that it released.
    pub(crate) calls_expected: usize,
    /// Time from the previous sync until as many calls arrived as it had released; none if fewer arrived before this
    /// one ended.
    pub(crate) think_time: Option<Duration>,
}

impl CommitDelay {
    /// How many calls the next group waits for, and for how long at most. Without the delay, fast callers split into
    /// two halves, each waiting for the other's sync before its own; waiting for slow callers would leave processor and
    /// disk idle in turn.
    pub(crate) fn target(&self) -> (usize, Duration) {
        let expected = self.calls_expected;
        let fast = (self.sync_duration / FAST_SYNC_DIVISOR).min(DELAY_MAX);
        let (calls, limit) = if self.think_time.is_some_and(|think_time| think_time <= fast) {
            (expected, fast)
        } else if expected >= MANY_CALLERS {
            (expected - expected / 4, (self.sync_duration * MANY_CALLERS_SYNCS).min(DELAY_MAX))
        } else {
            (0, Duration::ZERO)
        };
        (calls, limit)
    }
}

/// Measures the think time of callers: from the end of a sync until as many calls have arrived as it released,
/// whichever callers made them.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ThinkTime {
    /// Calls that wrote since the store was opened.
    pub(crate) calls: u64,
    answered_at: Duration,
    /// The call that completes the measurement, counted as `calls`, and when it arrived.
    last: u64,
    last_at: Option<Duration>,
}

impl ThinkTime {
    pub(crate) fn call(&mut self) {
        self.calls += 1;
        if self.calls == self.last {
            self.last_at = Some(uptime());
        }
    }

    /// Starts a measurement: `answered` callers were released at `now`, on the monotonic clock, after `calls_before`
    /// calls.
    pub(crate) fn answered(&mut self, calls_before: u64, answered: usize, now: Duration) {
        (self.last, self.answered_at) = (calls_before + answered as u64, now);
        self.last_at = (answered > 0 && self.calls >= self.last).then(uptime);
    }

    /// The think time, if the measurement is complete.
    pub(crate) fn measured(&self) -> Option<Duration> {
        Some(self.last_at?.saturating_sub(self.answered_at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CommitDelay, ThinkTime};

    const SYNC: Duration = Duration::from_micros(400);

    #[test]
    fn a_group_waits_for_fast_callers() {
        let mut commit_delay =
            CommitDelay { sync_duration: SYNC, calls_expected: 16, think_time: Some(SYNC / 2) };
        assert_eq!(commit_delay.target(), (16, SYNC / 2));
        commit_delay.sync_duration = Duration::from_secs(5);
        assert_eq!(commit_delay.target(), (16, Duration::from_millis(1)), "at most 1 ms");
        commit_delay.think_time = Some(Duration::from_millis(2));
        assert_eq!(commit_delay.target(), (0, Duration::ZERO), "too slow");
    }

    #[test]
    fn a_group_does_not_wait_for_slow_callers_unless_there_are_many() {
        for think_time in [None, Some(SYNC)] {
            let mut commit_delay = CommitDelay { sync_duration: SYNC, calls_expected: 19, think_time };
            assert_eq!(commit_delay.target(), (0, Duration::ZERO));
            commit_delay.calls_expected = 64;
            assert_eq!(commit_delay.target(), (48, SYNC * 2));
            (commit_delay.sync_duration, commit_delay.think_time) = (Duration::from_secs(5), None);
            assert_eq!(commit_delay.target(), (48, Duration::from_millis(1)), "at most 1 ms");
        }
    }

    #[test]
    fn think_time_ends_with_as_many_calls_as_were_answered() {
        let mut think_time = ThinkTime::default();
        think_time.call();
        think_time.answered(think_time.calls, 2, Duration::ZERO);
        think_time.call();
        assert_eq!(think_time.measured(), None, "one of two");
        think_time.call();
        assert!(think_time.measured().is_some());
        think_time.answered(think_time.calls - 1, 1, Duration::ZERO);
        assert!(think_time.measured().is_some(), "the call arrived before the measurement started");
        think_time.answered(think_time.calls, 1, Duration::ZERO);
        assert_eq!(think_time.measured(), None);
        think_time.answered(think_time.calls, 0, Duration::ZERO);
        assert_eq!(think_time.measured(), None, "no caller was answered, so none is fast");
    }
}
