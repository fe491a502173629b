//! When the journal is written and synced although no caller waits for it. Times are those of the monotonic clock.

use std::time::Duration;

use crate::options::Durability;

/// Leases are synced after at most this long.
const LEASE_SYNC_INTERVAL: Duration = Duration::from_millis(50);
/// An idle journal records the store time after this long.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// What was written and synced last, and from it what is due next.
#[derive(Debug)]
pub(crate) struct SyncSchedule {
    durability: Durability,
    /// When the last frame was appended.
    appended_at: Duration,
    /// When the oldest unsynced frame was appended; none if all are synced.
    unsynced_since: Option<Duration>,
}

impl SyncSchedule {
    /// A journal that is synced.
    pub(crate) fn new(durability: Durability, now: Duration) -> Self {
        Self { durability, appended_at: now, unsynced_since: None }
    }

    /// Whether callers are answered before their group is synced.
    pub(crate) fn answers_unsynced(&self) -> bool {
        self.durability != Durability::Sync
    }

    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced_since.is_some()
    }

    pub(crate) fn appended(&mut self, now: Duration) {
        self.appended_at = now;
        self.unsynced_since.get_or_insert(now);
    }

    pub(crate) fn synced(&mut self) {
        self.unsynced_since = None;
    }

    /// Whether the store time must be recorded.
    pub(crate) fn is_heartbeat_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.appended_at) >= HEARTBEAT
    }

    /// Whether frames have been unsynced for as long as they may be.
    pub(crate) fn is_sync_due(&self, now: Duration) -> bool {
        self.sync_due_in(now).is_some_and(|due_in| due_in.is_zero())
    }

    /// How long the syncer may sleep. A heartbeat may be written up to twice as late: the last frame could be older
    /// than the sleep, but with no space left for a heartbeat, a shorter sleep would be none.
    pub(crate) fn sleep_max(&self, now: Duration) -> Duration {
        self.sync_due_in(now).map_or(HEARTBEAT, |due_in| due_in.min(HEARTBEAT))
    }

    /// The time until frames must be synced; none if all are.
    fn sync_due_in(&self, now: Duration) -> Option<Duration> {
        let interval = match self.durability {
            Durability::Sync => LEASE_SYNC_INTERVAL,
            Durability::Interval(interval) => interval,
            Durability::Os => Duration::MAX,
        };
        Some(interval.saturating_sub(now.saturating_sub(self.unsynced_since?)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HEARTBEAT, LEASE_SYNC_INTERVAL, SyncSchedule};
    use crate::options::Durability;

    const START: Duration = Duration::from_secs(100);
    const STEP: Duration = Duration::from_millis(10);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn before(at: Duration) -> Duration {
        at.saturating_sub(STEP)
    }

    #[test]
    fn leases_are_synced_50_ms_after_the_oldest_was_written() {
        let mut schedule = SyncSchedule::new(Durability::Sync, START);
        assert!(!schedule.answers_unsynced() && !schedule.is_unsynced());
        assert_eq!(schedule.sleep_max(START), HEARTBEAT);
        schedule.appended(START);
        schedule.appended(START + STEP);
        assert!(schedule.is_unsynced());
        assert_eq!(schedule.sleep_max(START + STEP), before(LEASE_SYNC_INTERVAL));
        let due = START + LEASE_SYNC_INTERVAL;
        assert!(!schedule.is_sync_due(before(due)));
        assert!(schedule.is_sync_due(due) && schedule.sleep_max(due).is_zero());
        schedule.synced();
        assert!(!schedule.is_unsynced() && !schedule.is_sync_due(due));
        assert_eq!(schedule.sleep_max(due), HEARTBEAT);
    }

    #[test]
    fn each_durability_has_its_own_interval() {
        let mut schedule = SyncSchedule::new(Durability::Interval(HOUR), START);
        schedule.appended(START);
        assert!(schedule.answers_unsynced());
        assert_eq!(schedule.sleep_max(START), HEARTBEAT, "a heartbeat comes first");
        assert!(!schedule.is_sync_due(before(START + HOUR)) && schedule.is_sync_due(START + HOUR));
        let mut schedule = SyncSchedule::new(Durability::Os, START);
        schedule.appended(START);
        assert!(schedule.answers_unsynced() && !schedule.is_sync_due(START + 1_000 * HOUR));
        assert_eq!(schedule.sleep_max(START), HEARTBEAT);
        let mut schedule = SyncSchedule::new(Durability::Interval(Duration::ZERO), START);
        schedule.appended(START);
        assert!(schedule.is_sync_due(START));
    }

    #[test]
    fn a_heartbeat_is_due_once_nothing_was_written_for_a_minute() {
        let mut schedule = SyncSchedule::new(Durability::Sync, START);
        assert!(!schedule.is_heartbeat_due(before(START + HEARTBEAT)));
        assert!(schedule.is_heartbeat_due(START + HEARTBEAT));
        schedule.appended(START + STEP);
        assert!(!schedule.is_heartbeat_due(START + HEARTBEAT));
    }
}
