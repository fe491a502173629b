//! Bounds that caused the server to reject requests, for the log and the health endpoints.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::health::{Bound, HealthLevel};
use tokio::time::Instant;
use tracing::{info, warn};

/// A bound counts as reached until no request was rejected for this long.
const QUIET_PERIOD: Duration = Duration::from_secs(10);

/// From this used share on, hardly any message fits.
const NEARLY_FULL: f64 = 0.99;

/// A bound that caused requests to be rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReachedBound {
    pub(crate) bound: Bound,
    /// When the last request was rejected.
    at: Instant,
    /// Whether a message was accepted since then.
    accepted: bool,
}

/// The bounds that were reached recently, by name; there are only a few.
#[derive(Default)]
pub(crate) struct Saturation {
    reached: Mutex<BTreeMap<&'static str, ReachedBound>>,
    /// Whether `reached` is not empty.
    any: AtomicBool,
}

impl Saturation {
    fn reached(&self) -> MutexGuard<'_, BTreeMap<&'static str, ReachedBound>> {
        // No update can panic halfway.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a message was accepted.
    pub(crate) fn accepted(&self) {
        if self.any.load(Ordering::Acquire) {
            self.reached().values_mut().for_each(|reached| reached.accepted = true);
        }
    }

    /// Records that a request was rejected because of this bound. The first rejection is logged.
    pub(crate) fn rejected(&self, bound: Bound, now: Instant) {
        self.any.store(true, Ordering::Release);
        let reached = ReachedBound { bound, at: now, accepted: false };
        if self.reached().insert(bound.name, reached).is_none() {
            let Bound { name, used, limit, .. } = bound;
            warn!(
                bound = name,
                used,
                limit,
                remedy = bound.remedy(),
                "requests are rejected: {}",
                bound.problem()
            );
        }
    }

    /// Returns the bounds for which requests were rejected recently. Logs each bound that is no longer reached.
    pub(crate) fn current(&self, now: Instant) -> Vec<ReachedBound> {
        let mut reached = self.reached();
        reached.retain(|name, ReachedBound { at, .. }| {
            let current = now.duration_since(*at) < QUIET_PERIOD;
            if !current {
                info!(bound = name, "bound no longer reached: no request was rejected in the last 10 s");
            }
            current
        });
        self.any.store(!reached.is_empty(), Ordering::Release);
        reached.values().copied().collect()
    }
}

impl ReachedBound {
    /// Whether all new messages are rejected, not only those of one topic or large ones.
    pub(crate) fn stops_writes(&self) -> bool {
        let store_bounds = [Bound::MESSAGES, Bound::KEYS, Bound::LIVE_BYTES, Bound::DISK_BYTES];
        store_bounds.contains(&self.bound.name) && self.bound.share() >= NEARLY_FULL && !self.accepted
    }

    pub(crate) fn level(&self) -> HealthLevel {
        if self.stops_writes() { HealthLevel::Unhealthy } else { HealthLevel::Warning }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox::health::Bound;
    use tokio::time::Instant;

    use super::Saturation;

    #[test]
    fn only_a_full_store_stops_all_writes() {
        for (name, used, stops) in [
            (Bound::KEYS, 100, true),
            (Bound::DISK_BYTES, 100, true),
            (Bound::LIVE_BYTES, 100, true),
            (Bound::LIVE_BYTES, 90, false),
            (Bound::LANE_MESSAGES, 100, false),
            (Bound::IN_FLIGHT, 100, false),
        ] {
            let saturation = Saturation::default();
            saturation.rejected(Bound::new(name, used, 100), Instant::now());
            let [reached] = saturation.current(Instant::now())[..] else { panic!("expected one bound") };
            assert_eq!(reached.stops_writes(), stops, "{name} {used}");
            saturation.accepted();
            let [reached] = saturation.current(Instant::now())[..] else {
                panic!("expected the bound to stay current")
            };
            assert!(!reached.stops_writes(), "a message was accepted since then");
        }
    }

    #[test]
    fn a_bound_is_current_for_ten_seconds_after_the_last_rejection() {
        let (saturation, start) = (Saturation::default(), Instant::now());
        let keys = |used| Bound::new(Bound::KEYS, used, 5);
        let seconds = |seconds| start + Duration::from_secs(seconds);
        let current = |at| saturation.current(at).iter().map(|reached| reached.bound).collect::<Vec<_>>();
        assert_eq!(current(start), []);
        saturation.rejected(keys(5), start);
        saturation.rejected(keys(6), seconds(8));
        assert_eq!(current(seconds(17)), [keys(6)]);
        assert_eq!(current(seconds(18)), []);
    }
}
