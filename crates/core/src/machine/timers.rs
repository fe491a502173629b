//! Messages by the moment at which time brings them something; each at most once, at its earliest.

use std::collections::BTreeSet;

use super::arena::Slot;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Timers(BTreeSet<(Timestamp, Slot)>);

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, slot: Slot) {
        if at != Timestamp::NEVER {
            self.0.insert((at, slot));
        }
    }

    pub(super) fn clear(&mut self, at: Timestamp, slot: Slot) {
        if at != Timestamp::NEVER {
            self.0.remove(&(at, slot));
        }
    }

    /// The earliest that is due at `now`; it stays until its message is placed anew.
    pub(super) fn due(&self, now: Timestamp) -> Option<(Timestamp, Slot)> {
        self.0.first().filter(|(at, _)| *at <= now).copied()
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }
}
