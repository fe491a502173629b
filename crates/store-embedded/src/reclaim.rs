//! Reclaiming: what the oldest segment still holds is written again, so that its file can be used for something else.

use std::time::Duration;

use oncebox_system::uptime;

use crate::shared::State;
use crate::syncer::{DISK_RETRY, Syncer};

/// Bytes that reclaiming adds to one group at most.
const SLICE_BYTES: usize = 256 << 10;

/// When the oldest segment was weighed: the space that was left, and the moment on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weighed {
    space: u64,
    at: Duration,
}

impl Syncer {
    /// Writes a piece of the oldest segment again if it should be reclaimed, and tells the callers whether that gives them space.
    pub(crate) fn reclaim(&mut self, state: &mut State) {
        self.plan_reclaim(state);
        if let Some(homes) = &mut self.reclaiming {
            let room = usize::try_from(state.room).unwrap_or(usize::MAX);
            let before = state.engine.group.bytes.0.len();
            // One byte at least, so that a lack of space is noticed.
            let wanted = state.engine.write_again(homes, SLICE_BYTES.min(room / 2).max(1), room);
            // Callers fill the next group before this one is written, so what it took must be gone for them by now.
            let written = (state.engine.group.bytes.0.len() - before) as u64;
            state.room = state.room.saturating_sub(written + written / 64);
            state.room_wanted = state.room_wanted.max(wanted as u64);
            self.stalled = wanted > 0;
        }
        let reclaiming = self.reclaiming.is_some() && !self.stalled;
        let relief = reclaiming || self.is_emptying();
        if std::mem::replace(&mut state.relief, relief) && !relief {
            self.shared.unblock();
        }
    }

    /// Whether files that are not needed any more are about to become segments.
    fn is_emptying(&self) -> bool {
        self.wiping > 0 || !self.journal.retired.is_empty()
    }

    /// Whether there is nothing to reclaim, or no space to do it.
    pub(crate) fn reclaim_rests(&self, state: &State) -> bool {
        if self.reclaiming.is_some() { self.stalled } else { !self.has_too_much(state) }
    }

    /// Begins to write again what the oldest segment holds if the journal has too much.
    fn plan_reclaim(&mut self, state: &mut State) {
        if self.reclaiming.is_none() && (self.has_too_much(state) || self.is_pressed(state)) {
            let oldest = self.journal.live.front_mut().expect("there is an oldest segment");
            self.reclaiming = Some(std::mem::take(&mut oldest.homes));
            state.engine.write_boot();
        }
    }

    /// Whether the journal is much larger than what it holds.
    fn has_too_much(&self, state: &State) -> bool {
        let needed = 1 + usize::try_from(state.engine.machine.live_bytes() * 2 / self.segment_bytes)
            .unwrap_or(usize::MAX - 1);
        self.journal.live.len() > needed
    }

    /// Whether the journal cannot grow, work uses up what is left of it, and the oldest segment gives back at least twice what
    /// writing its messages again takes. Without this a backlog stops the work on it: settlements need space, and free none until
    /// half of everything is settled.
    fn is_pressed(&mut self, state: &State) -> bool {
        let (segment, space, now) = (self.segment_bytes, state.room, uptime());
        let oldest = self.journal.live.front().filter(|_| self.journal.live.len() > 1);
        let pressed = state.trouble.is_some() && space < segment / 4 * 3 && !self.is_emptying();
        let Some(oldest) = oldest.filter(|_| pressed) else {
            self.weighed = None;
            return false;
        };
        // Weighing reads thousands of messages: not again before it may have changed.
        let current = |weighed: Weighed| {
            weighed.space < space + segment / 16 && now.saturating_sub(weighed.at) < DISK_RETRY
        };
        if self.weighed.is_some_and(current) {
            return false;
        }
        // Callers go on meanwhile, and need some of the space.
        let limit = (segment / 2).min(space.saturating_sub(segment / 8));
        let light = state.engine.weigh(&oldest.homes, limit) <= limit;
        self.weighed = (!light).then_some(Weighed { space, at: now });
        light
    }
}
