//! Messages by the time of their next timer event; each message has at most one entry.

use super::arena::Slot;
use super::sorted::Sorted;
use crate::id::Number;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Timers {
    timers: Sorted<(Timestamp, Number)>,
    /// No timer is due before this: most calls need no further check.
    none_before: Timestamp,
}

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, number: Number, slot: Slot) {
        if at != Timestamp::NEVER {
            self.timers.insert((at, number), slot);
            self.none_before = self.none_before.min(at);
        }
    }

    pub(super) fn clear(&mut self, at: Timestamp, number: Number) {
        if at != Timestamp::NEVER {
            self.timers.remove((at, number));
        }
    }

    /// The earliest timer that is due at `now`; it stays until its message is reindexed.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<(Timestamp, Slot)> {
        if now < self.none_before {
            return None;
        }
        self.none_before = self.next().unwrap_or(Timestamp::NEVER);
        let ((at, _), slot) = self.timers.first().filter(|((at, _), _)| *at <= now)?;
        Some((at, slot))
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.timers.first().map(|((at, _), _)| at)
    }
}
