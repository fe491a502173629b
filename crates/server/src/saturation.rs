//! Bounds that requests are being refused for: what the log and health say is what callers are answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::{Bound, Level};
use tokio::time::Instant;
use tracing::{info, warn};

/// A bound that nobody was refused for in this time is not reached any more.
const QUIET: Duration = Duration::from_secs(10);

/// From this share on, hardly anything fits.
const NEARLY_ALL: f64 = 0.99;

/// A bound that requests were refused for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) bound: Bound,
    /// When the last one was refused.
    at: Instant,
    /// Whether a message was accepted since.
    accepted: bool,
}

/// The bounds that were reached in the last seconds, by name: there are only a few.
#[derive(Default)]
pub(crate) struct Saturation {
    reached: Mutex<BTreeMap<&'static str, Reached>>,
    /// Whether there are any.
    any: AtomicBool,
}

impl Saturation {
    fn reached(&self) -> MutexGuard<'_, BTreeMap<&'static str, Reached>> {
        // No update can panic halfway.
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message was accepted.
    pub(crate) fn accepted(&self) {
        if self.any.load(Ordering::Acquire) {
            self.reached().values_mut().for_each(|reached| reached.accepted = true);
        }
    }

    /// A request was refused because of this bound. The first such refusal is logged.
    pub(crate) fn refused(&self, bound: Bound, now: Instant) {
        self.any.store(true, Ordering::Release);
        let reached = Reached { bound, at: now, accepted: false };
        if self.reached().insert(bound.name, reached).is_none() {
            let Bound { name, used, limit, .. } = bound;
            warn!(
                bound = name,
                used,
                limit,
                remedy = bound.remedy(),
                "requests are refused: {}",
                bound.problem()
            );
        }
    }

    /// Those that requests were refused for in the last seconds. That a bound is not reached any more is logged.
    pub(crate) fn current(&self, now: Instant) -> Vec<Reached> {
        let mut reached = self.reached();
        reached.retain(|name, Reached { at, .. }| {
            let current = now.duration_since(*at) < QUIET;
            if !current {
                info!(bound = name, "no request was refused for this bound in the last ten seconds");
            }
            current
        });
        self.any.store(!reached.is_empty(), Ordering::Release);
        reached.values().copied().collect()
    }
}

impl Reached {
    /// Whether everything that is sent is refused: not only what is for one topic, nor only what is large.
    pub(crate) fn stops_writes(&self) -> bool {
        let of_the_store = [Bound::MESSAGES, Bound::KEYS, Bound::LIVE_BYTES, Bound::DISK_BYTES];
        of_the_store.contains(&self.bound.name) && self.bound.share() >= NEARLY_ALL && !self.accepted
    }

    pub(crate) fn level(&self) -> Level {
        if self.stops_writes() { Level::Unhealthy } else { Level::Warning }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox::Bound;
    use tokio::time::Instant;

    use super::Saturation;

    #[test]
    fn only_a_store_without_space_for_anything_stops_all_writes() {
        for (name, used, stops) in [
            (Bound::KEYS, 100, true),
            (Bound::DISK_BYTES, 100, true),
            (Bound::LIVE_BYTES, 100, true),
            (Bound::LIVE_BYTES, 90, false),
            (Bound::LANE_MESSAGES, 100, false),
            (Bound::IN_FLIGHT, 100, false),
        ] {
            let saturation = Saturation::default();
            saturation.refused(Bound::new(name, used, 100), Instant::now());
            let [reached] = saturation.current(Instant::now())[..] else { panic!("one is reached") };
            assert_eq!(reached.stops_writes(), stops, "{name} {used}");
            saturation.accepted();
            let [reached] = saturation.current(Instant::now())[..] else { panic!("it is known for a while") };
            assert!(!reached.stops_writes(), "a message was accepted since");
        }
    }

    #[test]
    fn a_bound_is_current_for_ten_seconds_after_the_last_refusal() {
        let (saturation, start) = (Saturation::default(), Instant::now());
        let keys = |used| Bound::new(Bound::KEYS, used, 5);
        let seconds = |seconds| start + Duration::from_secs(seconds);
        let current = |at| saturation.current(at).iter().map(|reached| reached.bound).collect::<Vec<_>>();
        assert_eq!(current(start), []);
        saturation.refused(keys(5), start);
        saturation.refused(keys(6), seconds(8));
        assert_eq!(current(seconds(17)), [keys(6)]);
        assert_eq!(current(seconds(18)), []);
    }
}
