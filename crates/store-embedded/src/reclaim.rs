//! Reclaiming segments: the live messages of the oldest segment are rewritten, so that its file can be reused.

use std::time::Duration;

use oncebox_system::uptime;

use crate::bases::Bases;
use crate::disk_error::DISK_RETRY;
use crate::journal::Journal;
use crate::shared::State;

/// Maximum number of bytes that reclaiming adds to one group.
const SLICE_BYTES: usize = 256 << 10;

/// When the cost of rewriting the oldest segment was estimated: the free space then, and the time on the monotonic
/// clock.
#[derive(Debug, Clone, Copy)]
struct RewriteEstimate {
    space: u64,
    at: Duration,
}

/// Reclaims the oldest segment of a journal, in slices.
pub(crate) struct Reclaimer {
    segment_bytes: u64,
    /// The messages of the oldest segment that are still to be rewritten.
    reclaiming: Option<Bases>,
    /// Reclaiming waits for space.
    stalled: bool,
    /// The last estimate, if it found that the oldest segment holds too much to rewrite.
    estimate: Option<RewriteEstimate>,
}

impl Reclaimer {
    pub(crate) fn new(segment_bytes: u64) -> Self {
        Self { segment_bytes, reclaiming: None, stalled: false, estimate: None }
    }

    /// Rewrites up to [`SLICE_BYTES`] of the oldest segment if it should be reclaimed. Returns whether space is pending:
    /// from that segment, from retired ones, or from the `wiping` ones that are being wiped.
    pub(crate) fn reclaim(&mut self, state: &mut State, journal: &mut Journal, wiping: usize) -> bool {
        self.start(state, journal, wiping);
        if let Some(bases) = &mut self.reclaiming {
            let space = usize::try_from(state.space).unwrap_or(usize::MAX);
            let before = state.engine.group.bytes.0.len();
            // At least one byte, so that a lack of space is noticed.
            let wanted = state.engine.rewrite(bases, SLICE_BYTES.min(space / 2).max(1), space);
            // Callers fill the next group before this one is written, so its bytes must be subtracted now.
            let written = (state.engine.group.bytes.0.len() - before) as u64;
            state.space = state.space.saturating_sub(written + written / 64);
            state.space_wanted = state.space_wanted.max(wanted as u64);
            self.stalled = wanted > 0;
        }
        let reclaiming = self.reclaiming.is_some() && !self.stalled;
        reclaiming || is_recycling(journal, wiping)
    }

    /// Whether there is nothing to reclaim, or no space for it.
    pub(crate) fn is_idle(&self, state: &State, journal: &Journal) -> bool {
        if self.reclaiming.is_some() { self.stalled } else { !self.has_excess_segments(state, journal) }
    }

    /// Whether all messages of the oldest segment have been rewritten, so that it can be retired. True once for each
    /// segment.
    pub(crate) fn take_finished(&mut self) -> bool {
        self.reclaiming.take_if(|bases| bases.is_empty()).is_some()
    }

    /// Starts to reclaim the oldest segment if the journal has too many or is short of space.
    fn start(&mut self, state: &mut State, journal: &mut Journal, wiping: usize) {
        if self.reclaiming.is_none()
            && (self.has_excess_segments(state, journal) || self.is_short_of_space(state, journal, wiping))
        {
            let oldest = journal.live.front_mut().expect("there is an oldest segment");
            self.reclaiming = Some(std::mem::take(&mut oldest.bases));
            state.engine.write_boot();
        }
    }

    /// Whether the journal is much larger than its live data.
    fn has_excess_segments(&self, state: &State, journal: &Journal) -> bool {
        let needed = 1 + usize::try_from(state.engine.machine.live_bytes() * 2 / self.segment_bytes)
            .unwrap_or(usize::MAX - 1);
        journal.live.len() > needed
    }

    /// Whether the journal cannot grow, little space is left, and reclaiming the oldest segment frees at least twice
    /// the space that rewriting its messages takes. Without this a backlog could not be worked off: settlements need
    /// space, and free none until half of all messages are settled.
    fn is_short_of_space(&mut self, state: &State, journal: &Journal, wiping: usize) -> bool {
        let (segment, space, now) = (self.segment_bytes, state.space, uptime());
        let oldest = journal.live.front().filter(|_| journal.live.len() > 1);
        let is_low = state.disk_error.is_some() && space < segment / 4 * 3 && !is_recycling(journal, wiping);
        let Some(oldest) = oldest.filter(|_| is_low) else {
            self.estimate = None;
            return false;
        };
        // Estimating reads thousands of messages: do it again only when the result may have changed.
        let current = |estimate: RewriteEstimate| {
            estimate.space < space + segment / 16 && now.saturating_sub(estimate.at) < DISK_RETRY
        };
        if self.estimate.is_some_and(current) {
            return false;
        }
        // Callers continue meanwhile, and need some of the space.
        let limit = (segment / 2).min(space.saturating_sub(segment / 8));
        let fits = state.engine.rewrite_bytes(&oldest.bases, limit) <= limit;
        self.estimate = (!fits).then_some(RewriteEstimate { space, at: now });
        fits
    }
}

/// Whether retired files are about to become free segments.
fn is_recycling(journal: &Journal, wiping: usize) -> bool {
    wiping > 0 || !journal.retired.is_empty()
}
