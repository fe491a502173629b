//! Bounds that requests are being refused for: what the log and health say is what callers are answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox::{Bound, Level};
use tokio::time::Instant;
use tracing::{info, warn};

/// A bound that nobody was refused for in this time is not reached any more.
const QUIET: Duration = Duration::from_secs(10);

/// From this share on, hardly anything fits.
const NEARLY_ALL: f64 = 0.99;

/// The bounds that were reached in the last seconds, by name: there are only a few.
#[derive(Default)]
pub(crate) struct Saturation(Mutex<BTreeMap<&'static str, (Bound, Instant)>>);

impl Saturation {
    fn reached(&self) -> MutexGuard<'_, BTreeMap<&'static str, (Bound, Instant)>> {
        // No update can panic halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was refused because of this bound. The first such refusal is logged.
    pub(crate) fn refused(&self, bound: Bound, now: Instant) {
        if self.reached().insert(bound.name, (bound, now)).is_none() {
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
    pub(crate) fn current(&self, now: Instant) -> Vec<Bound> {
        let mut reached = self.reached();
        reached.retain(|name, (_, at)| {
            let current = now.duration_since(*at) < QUIET;
            if !current {
                info!(bound = name, "no request was refused for this bound in the last ten seconds");
            }
            current
        });
        reached.values().map(|(bound, _)| *bound).collect()
    }
}

/// Whether everything that is sent is refused while this bound is reached: not only what is for one topic, nor only what is
/// large.
pub(crate) fn stops_writes(bound: &Bound) -> bool {
    let of_the_store = [Bound::MESSAGES, Bound::KEYS, Bound::LIVE_BYTES, Bound::DISK_BYTES];
    of_the_store.contains(&bound.name) && bound.share() >= NEARLY_ALL
}

/// How bad it is that this bound is reached.
pub(crate) fn level(bound: &Bound) -> Level {
    if stops_writes(bound) { Level::Unhealthy } else { Level::Warning }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox::Bound;
    use tokio::time::Instant;

    use super::{Saturation, stops_writes};

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
            assert_eq!(stops_writes(&Bound::new(name, used, 100)), stops, "{name} {used}");
        }
    }

    #[test]
    fn a_bound_is_current_for_ten_seconds_after_the_last_refusal() {
        let (saturation, start) = (Saturation::default(), Instant::now());
        let keys = |used| Bound::new(Bound::KEYS, used, 5);
        let seconds = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(saturation.current(start), []);
        saturation.refused(keys(5), start);
        saturation.refused(keys(6), seconds(8));
        assert_eq!(saturation.current(seconds(17)), [keys(6)]);
        assert_eq!(saturation.current(seconds(18)), []);
    }
}
