//! Commit delay: how long a group waits for more calls before it is written.
//!
//! Without it, callers that call again at once split into two halves, each waiting for the other's sync before its own.
//! Waiting for slow callers would leave processor and disk idle in turn. So the decision depends on what the last sync
//! showed: how long it took, how many callers it answered, and how soon as many calls came. Times are those of the
//! monotonic clock.
//!
//! With syncs of about 1 ms, 16 callers run 1.6 times as many lifecycles with the delay as without, 64 callers 1.5
//! times, and 100 callers 1.2 times. With syncs of 0.15 ms, it brings 4 callers 8 %, and 16 and more nothing (medians of
//! pairs, `docs/reference/benchmarks.md`).

use std::time::Duration;

/// Longest delay, however long a sync takes.
const DELAY_MAX: Duration = Duration::from_millis(1);
/// Callers whose think time is at most this fraction (1/2) of a sync are fast.
const FAST_SYNC_DIVISOR: u32 = 2;
/// A group of at least this size does not wait for more calls: writing it takes longer than a saved sync.
const DELAY_BYTES_MAX: usize = 32 << 10;

/// The calls that a group waits for, and the longest time that it waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Delay {
    calls: usize,
    limit: Duration,
}

/// The calls of the current group, and what the last sync showed.
#[derive(Debug, Default)]
pub(crate) struct CommitDelay {
    /// Calls that wrote into the current group.
    calls: usize,
    /// The delay of each group until the next sync.
    delay: Delay,
    /// When the last sync ended, and how many of the calls that it answered no new call has followed yet.
    synced_at: Duration,
    unfollowed: usize,
    /// Time from the last sync until as many calls had come as it answered, whichever callers made them; none if fewer
    /// have come so far.
    think_time: Option<Duration>,
}

impl CommitDelay {
    /// Counts a call that wrote into the current group.
    pub(crate) fn call(&mut self, now: impl FnOnce() -> Duration) {
        self.calls += 1;
        self.unfollowed = match self.unfollowed {
            1 => {
                self.think_time = Some(now().saturating_sub(self.synced_at));
                0
            }
            unfollowed => unfollowed.saturating_sub(1),
        };
    }

    /// The current group has been taken for writing: the next one has no calls yet.
    pub(crate) fn group_taken(&mut self) {
        self.calls = 0;
    }

    /// Records a sync that is about to answer this many calls that wrote.
    pub(crate) fn synced(&mut self, start: Duration, end: Duration, answered: usize) {
        // Those that came during the sync, and one from each caller that it answers.
        let expected = self.calls + answered;
        self.delay = delay(end.saturating_sub(start), expected, self.think_time.take());
        (self.synced_at, self.unfollowed) = (end, answered);
    }

    /// How long the current group waits for more calls.
    pub(crate) fn limit(&self) -> Duration {
        if self.calls == 0 { Duration::ZERO } else { self.delay.limit }
    }

    /// Whether a group of `bytes` waits for more calls.
    pub(crate) fn wants_more(&self, bytes: usize) -> bool {
        self.calls < self.delay.calls && bytes < DELAY_BYTES_MAX
    }
}

/// The delay after a sync of this duration, if `expected` calls are expected.
fn delay(sync: Duration, expected: usize, think_time: Option<Duration>) -> Delay {
    let limit = (sync / FAST_SYNC_DIVISOR).min(DELAY_MAX);
    let fast = think_time.is_some_and(|think_time| think_time <= limit);
    if fast { Delay { calls: expected, limit } } else { Delay::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CommitDelay, DELAY_BYTES_MAX, Delay, delay};

    const SYNC: Duration = Duration::from_micros(400);
    const LIMIT: Duration = Duration::from_millis(1);

    #[test]
    fn a_group_waits_for_fast_callers() {
        assert_eq!(delay(SYNC, 16, Some(SYNC / 2)), Delay { calls: 16, limit: SYNC / 2 });
        let slow_disk = Duration::from_secs(5);
        assert_eq!(delay(slow_disk, 16, Some(SYNC)), Delay { calls: 16, limit: LIMIT });
        assert_eq!(delay(slow_disk, 16, Some(2 * LIMIT)), Delay::default(), "too slow");
    }

    #[test]
    fn a_group_does_not_wait_for_slow_callers() {
        for expected in [1, 16, 100] {
            assert_eq!(delay(SYNC, expected, Some(SYNC)), Delay::default());
            assert_eq!(delay(SYNC, expected, None), Delay::default());
        }
    }

    #[test]
    fn callers_are_fast_if_as_many_calls_as_were_answered_come_soon() {
        // The sync ends at 400 µs and answers two calls.
        let after = |calls_us: &[u64]| {
            let mut policy = CommitDelay::default();
            policy.synced(Duration::ZERO, SYNC, 2);
            for at in calls_us {
                policy.call(|| Duration::from_micros(*at));
            }
            policy.group_taken();
            policy.synced(SYNC * 2, SYNC * 3, 2);
            policy.call(|| SYNC * 3);
            (policy.wants_more(0), policy.limit())
        };
        assert_eq!(after(&[410, 600]), (true, SYNC / 2));
        assert_eq!(after(&[410, 600, 2_000]), (true, SYNC / 2), "the third call is another caller's");
        assert_eq!(after(&[410, 601]), (false, Duration::ZERO), "the second one is late");
        assert_eq!(after(&[410]), (false, Duration::ZERO), "one of two");
        assert_eq!(after(&[]), (false, Duration::ZERO));
    }

    #[test]
    fn a_measurement_counts_for_one_sync() {
        let mut policy = CommitDelay::default();
        policy.synced(Duration::ZERO, SYNC, 1);
        policy.call(|| SYNC);
        policy.group_taken();
        policy.synced(SYNC, SYNC * 2, 0);
        policy.call(|| SYNC * 2);
        assert_eq!(policy.limit(), SYNC / 2);
        policy.group_taken();
        policy.synced(SYNC * 2, SYNC * 3, 1);
        policy.call(|| SYNC * 3);
        assert_eq!(policy.limit(), Duration::ZERO, "no caller was answered, so none is fast");
    }

    #[test]
    fn a_group_that_is_complete_empty_or_large_does_not_wait() {
        let mut policy = CommitDelay::default();
        policy.synced(Duration::ZERO, SYNC, 2);
        policy.call(|| SYNC);
        policy.call(|| SYNC);
        policy.group_taken();
        policy.synced(SYNC, SYNC * 2, 2);
        assert_eq!(policy.limit(), Duration::ZERO, "no call");
        policy.call(|| SYNC * 2);
        assert!(policy.wants_more(DELAY_BYTES_MAX - 1) && !policy.wants_more(DELAY_BYTES_MAX));
        policy.call(|| SYNC * 2);
        assert!(!policy.wants_more(0));
    }
}
