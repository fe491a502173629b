//! What a process remembers beside the tables: which lanes may have something, how full they are, who waits for work.
//!
//! A cache, bounded and evictable (rule 25). Full, stale or empty it may cost a query; it never gives a wrong answer, and never delays a
//! message by more than a second beyond the interval at which claims come.

mod cursor;
mod effects;
mod ended;
mod fullness;
mod interest;
mod lanes;
mod letters;
mod position;

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize};
use std::time::Duration;

use oncebox_core::{Bell, Topic};

pub(crate) use cursor::Cursor;
pub(crate) use effects::Effects;
use ended::Ended;
pub(crate) use fullness::{Demand, Fullness, LaneOf, lane_of, lane_of_snapshot};
pub(crate) use interest::{Interest, SCAN_LANES};
pub(crate) use lanes::{Lanes, Plan};
use letters::Letters;
pub(crate) use position::{From, Position, Span, Start};

/// A slice of a topic, served in order.
pub(crate) type Lane = (Topic, i32);

/// What a process remembers.
#[derive(Default)]
pub(crate) struct Hints {
    pub(crate) bell: Bell,
    pub(crate) lanes: Lanes,
    pub(crate) ended: Ended,
    pub(crate) letters: Letters,
    pub(crate) fullness: Fullness,
    /// Whether the store has as many keys as it may, and when that was asked last.
    pub(crate) keys: Mutex<Option<(bool, Duration)>>,
    /// How often lanes were searched for: each time another one of those that were found is first.
    pub(crate) searches: AtomicUsize,
    /// Up to when this process has seen that time has brought nothing that was not written down.
    pub(crate) quiet_until: AtomicI64,
}

impl Hints {
    /// Notes what a call brought about, once it is committed, and wakes those who wait for it.
    pub(crate) fn note(&self, effects: Effects) {
        for (namespace, lane) in effects.lowered {
            self.lanes.lower(namespace, lane.clone());
            self.lanes.note(namespace, lane);
        }
        if effects.all_lowered {
            self.lanes.lower_all();
        }
        for (namespace, lane) in effects.filled {
            self.lanes.note(namespace, lane);
        }
        for (namespace, topic) in &effects.woken {
            self.bell.ring(*namespace, topic);
        }
        for upkept in effects.upkept {
            self.ended.add(upkept);
        }
    }
}
