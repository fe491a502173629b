//! What a process remembers besides the tables: which lanes may have messages, how full they are, and who waits for
//! messages.
//!
//! A bounded cache that may be evicted at any time (RULE-25). If it is full, stale or empty, it may cost a query;
//! it never causes a wrong answer, and never delays a message by more than a second beyond the interval between
//! claims.

mod cursor;
mod dead_letters;
mod depths;
mod effects;
mod lane_queue;
mod lanes;
mod position;

use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oncebox_core::{Notifier, Topic};
use oncebox_store_rows::PendingReport;

pub(crate) use cursor::ScanCursor;
use dead_letters::DeadLetterTopics;
pub(crate) use depths::{Demand, DepthCache};
pub(crate) use effects::Effects;
pub(crate) use lane_queue::{LaneQueue, SCAN_LANES};
pub(crate) use lanes::{LaneCache, Plan};
pub(crate) use position::{NumberRange, ScanFrom, ScanPosition, ScanStart};

/// A lane: a shard of a topic, served in order.
pub(crate) type Lane = (Topic, i32);

/// Lanes as statement parameters: their topics and their shards.
pub(crate) fn columns(lanes: &[Lane]) -> (Vec<&str>, Vec<i32>) {
    lanes.iter().map(|(topic, shard)| (topic.as_str(), *shard)).unzip()
}

/// The cache of a process.
#[derive(Default)]
pub(crate) struct Hints {
    pub(crate) notifier: Notifier,
    pub(crate) lanes: LaneCache,
    pub(crate) report: PendingReport,
    pub(crate) dead_letters: DeadLetterTopics,
    pub(crate) depths: DepthCache,
    /// Whether the store has reached its maximum number of keys, and when that was last checked.
    pub(crate) keys: Mutex<Option<(bool, Duration)>>,
    /// The number of searches so far: rotates which of the lanes found is first.
    pub(crate) searches: AtomicUsize,
    /// This process has found no due timer up to this time.
    pub(crate) timers_checked_until: AtomicI64,
}

impl Hints {
    /// Whether new keys are rejected.
    pub(crate) fn keys_are_full(&self) -> bool {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|(full, _)| full)
    }

    /// Applies the effects of a committed call and wakes the listeners.
    pub(crate) fn apply(&self, effects: Effects) {
        for (namespace, lane) in effects.invalidated {
            self.lanes.invalidate(namespace, lane.clone());
            self.lanes.mark_ready(namespace, lane);
        }
        if effects.all_invalidated {
            self.lanes.invalidate_all();
        }
        for (namespace, lane) in effects.filled {
            self.lanes.mark_ready(namespace, lane);
        }
        for (namespace, topic) in &effects.woken {
            self.notifier.notify(*namespace, topic);
        }
        for report in effects.reports {
            self.report.add(report);
        }
    }
}
