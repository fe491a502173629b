//! Messages by the time of their next timer event; each message has at most one entry.

use super::arena::Slot;
use super::sorted::Sorted;
use crate::id::Number;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Timers(Sorted<(Timestamp, Number)>);

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, number: Number, slot: Slot) {
        if at != Timestamp::NEVER {
            self.0.insert((at, number), slot);
        }
    }

    pub(super) fn clear(&mut self, at: Timestamp, number: Number) {
        if at != Timestamp::NEVER {
            self.0.remove((at, number));
        }
    }

    /// The earliest timer that is due at `now`; it stays until its message is reindexed.
    pub(super) fn due(&self, now: Timestamp) -> Option<(Timestamp, Slot)> {
        let ((at, _), slot) = self.0.first().filter(|((at, _), _)| *at <= now)?;
        Some((at, slot))
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|((at, _), _)| at)
    }
}
