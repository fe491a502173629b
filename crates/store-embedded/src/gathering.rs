//! How long a group waits for more calls before it is written.

use std::time::Duration;

use oncebox_system::uptime;

/// Longest wait, whatever a sync takes.
const LIMIT_MAX: Duration = Duration::from_millis(1);
/// Callers who come back within this part of a sync are quick.
const QUICK_SHARE: u32 = 2;
/// So many callers keep the processor busy while a group waits for most of them, and each sync that is left out gives it back to them.
const CROWD: usize = 20;
/// A crowd is waited for during so many syncs.
const CROWD_SYNCS: u32 = 2;

/// What the last sync showed about callers who come back with their next call.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// How long it took.
    pub(crate) sync_took: Duration,
    /// Calls that may be in the next group: those that came meanwhile, and those that were answered.
    pub(crate) calls_expected: usize,
    /// As many as the sync before it had answered came back, so long after that; none if they did not until its end.
    pub(crate) came_back: Option<Duration>,
}

impl Gathering {
    /// For how many calls the next group waits, and how long at most. Quick callers would fall into two camps without it, each
    /// waiting for the other's sync before its own; if others are waited for, processor and disk idle in turn.
    pub(crate) fn wish(&self) -> (usize, Duration) {
        let expected = self.calls_expected;
        let quick = (self.sync_took / QUICK_SHARE).min(LIMIT_MAX);
        let (calls, limit) = if self.came_back.is_some_and(|after| after <= quick) {
            (expected, quick)
        } else if expected >= CROWD {
            (expected - expected / 4, (self.sync_took * CROWD_SYNCS).min(LIMIT_MAX))
        } else {
            (0, Duration::ZERO)
        };
        (calls, limit)
    }
}

/// When those who were answered came back: not before as many calls have come since, whoever made them.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Comeback {
    /// Calls that wrote since the store was opened.
    pub(crate) calls: u64,
    answered_at: Duration,
    /// The call with which all are back, and when it came.
    last: u64,
    last_at: Option<Duration>,
}

impl Comeback {
    pub(crate) fn call(&mut self) {
        self.calls += 1;
        if self.calls == self.last {
            self.last_at = Some(uptime());
        }
    }

    /// Notes that callers were answered at `now`, on the monotonic clock, and how many calls there were before.
    pub(crate) fn answered(&mut self, calls_before: u64, answered: usize, now: Duration) {
        (self.last, self.answered_at) = (calls_before + answered as u64, now);
        self.last_at = (answered > 0 && self.calls >= self.last).then(uptime);
    }

    /// How long it took, if all are back.
    pub(crate) fn took(&self) -> Option<Duration> {
        Some(self.last_at?.saturating_sub(self.answered_at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Comeback, Gathering};

    const SYNC: Duration = Duration::from_micros(400);

    #[test]
    fn quick_callers_are_waited_for() {
        let mut gathering = Gathering { sync_took: SYNC, calls_expected: 16, came_back: Some(SYNC / 2) };
        assert_eq!(gathering.wish(), (16, SYNC / 2));
        gathering.sync_took = Duration::from_secs(5);
        assert_eq!(gathering.wish(), (16, Duration::from_millis(1)), "but never for long");
        gathering.came_back = Some(Duration::from_millis(2));
        assert_eq!(gathering.wish(), (0, Duration::ZERO), "they would come too late");
    }

    #[test]
    fn slow_callers_are_not_waited_for_unless_they_are_many() {
        for came_back in [None, Some(SYNC)] {
            let mut gathering = Gathering { sync_took: SYNC, calls_expected: 19, came_back };
            assert_eq!(gathering.wish(), (0, Duration::ZERO));
            gathering.calls_expected = 64;
            assert_eq!(gathering.wish(), (48, SYNC * 2));
            (gathering.sync_took, gathering.came_back) = (Duration::from_secs(5), None);
            assert_eq!(gathering.wish(), (48, Duration::from_millis(1)), "but never for long");
        }
    }

    #[test]
    fn callers_are_back_with_as_many_calls_as_were_answered() {
        let mut comeback = Comeback::default();
        comeback.call();
        comeback.answered(comeback.calls, 2, Duration::ZERO);
        comeback.call();
        assert_eq!(comeback.took(), None, "one of two");
        comeback.call();
        assert!(comeback.took().is_some());
        comeback.answered(comeback.calls - 1, 1, Duration::ZERO);
        assert!(comeback.took().is_some(), "it came before anybody could count");
        comeback.answered(comeback.calls, 1, Duration::ZERO);
        assert_eq!(comeback.took(), None);
        comeback.answered(comeback.calls, 0, Duration::ZERO);
        assert_eq!(comeback.took(), None, "nobody was answered, so nobody is quick");
    }
}
