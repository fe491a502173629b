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

/// The oldest segment while it is being rewritten.
struct Rewrite {
    /// What is still to be rewritten.
    bases: Bases,
    /// The next of it needs more space.
    stalled: bool,
}

/// Reclaims the oldest segment of a journal, in slices.
pub(crate) struct Reclaimer {
    segment_bytes: u64,
    /// None while no segment is being reclaimed.
    rewrite: Option<Rewrite>,
    /// The last estimate, if it found that the oldest segment holds too much to rewrite.
    estimate: Option<RewriteEstimate>,
}

impl Reclaimer {
    pub(crate) fn new(segment_bytes: u64) -> Self {
        Self { segment_bytes, rewrite: None, estimate: None }
    }

    /// Rewrites up to [`SLICE_BYTES`] of the oldest segment if it should be reclaimed. Returns whether space is pending:
    /// from that segment, from retired ones, or from the `wiping` ones that are being wiped.
    pub(crate) fn reclaim(&mut self, state: &mut State, journal: &mut Journal, wiping: usize) -> bool {
        self.start(state, journal, wiping);
        if let Some(Rewrite { bases, stalled }) = &mut self.rewrite {
            let space = usize::try_from(state.space.free()).unwrap_or(usize::MAX);
            let before = state.engine.group.bytes.0.len();
            // At least one byte, so that a lack of space is noticed.
            let wanted = state.engine.rewrite(bases, SLICE_BYTES.min(space / 2).max(1), space);
            // Callers fill the next group before this one is written, so its bytes must be subtracted now.
            state.space.use_bytes(state.engine.group.bytes.0.len() - before);
            state.space.want(wanted as u64);
            *stalled = wanted > 0;
        }
        self.rewrite.as_ref().is_some_and(|rewrite| !rewrite.stalled) || is_recycling(journal, wiping)
    }

    /// Whether there is nothing to reclaim, or no space for it.
    pub(crate) fn is_idle(&self, state: &State, journal: &Journal) -> bool {
        match &self.rewrite {
            Some(rewrite) => rewrite.stalled,
            None => !self.has_excess_segments(state, journal),
        }
    }

    /// Whether all messages of the oldest segment have been rewritten, so that it can be retired. True once for each
    /// segment.
    pub(crate) fn take_finished(&mut self) -> bool {
        self.rewrite.take_if(|rewrite| rewrite.bases.is_empty()).is_some()
    }

    /// Starts to reclaim the oldest segment if the journal has too many or is short of space.
    fn start(&mut self, state: &mut State, journal: &mut Journal, wiping: usize) {
        if self.rewrite.is_none()
            && (self.has_excess_segments(state, journal) || self.is_short_of_space(state, journal, wiping))
        {
            let oldest = journal.live.front_mut().expect("there is an oldest segment");
            let bases = std::mem::take(&mut oldest.bases);
            self.rewrite = Some(Rewrite { bases, stalled: false });
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
        let (segment, space, now) = (self.segment_bytes, state.space.free(), uptime());
        let oldest = journal.live.front().filter(|_| journal.live.len() > 1);
        let is_low =
            state.space.disk_error().is_some() && space < segment / 4 * 3 && !is_recycling(journal, wiping);
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
