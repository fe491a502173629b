//! How many segments the allocator prepares: enough free ones, and not too many while the disk fails. Counts and times
//! only; the syncer owns the files and the threads' channels.

use std::time::Duration;

use crate::disk_error::DISK_RETRY;

/// Number of free segments to keep.
pub(crate) const FREE_SEGMENTS: usize = 2;
/// Bytes of a segment that hold no frames (upper bound).
const SEGMENT_OVERHEAD_BYTES: u64 = 512;

/// The segments that the allocator is preparing.
#[derive(Debug)]
pub(crate) struct SegmentSupply {
    segment_bytes: u64,
    /// Segments that are being created.
    creating: usize,
    /// Segments that are being made from files of the journal.
    wiping: usize,
    /// When the allocator last failed, on the monotonic clock; none once it can create segments again.
    failed_at: Option<Duration>,
}

/// What a free segment is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    New,
    /// The file existed before, so success says nothing about free disk space.
    Wiped,
}

/// What happens to a file that the journal does not need any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Wipe,
    Remove,
}

impl SegmentSupply {
    pub(crate) fn new(segment_bytes: u64, failed_at: Option<Duration>) -> Self {
        Self { segment_bytes, creating: 0, wiping: 0, failed_at }
    }

    /// Segments that are being made from files of the journal.
    pub(crate) fn wiping(&self) -> usize {
        self.wiping
    }

    /// Whether the allocator failed, and has not created a segment since.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed_at.is_some()
    }

    /// Decides what happens to a file of `bytes` while the journal has `free` segments.
    pub(crate) fn reuse(&mut self, bytes: u64, free: usize) -> Reuse {
        // After a failure, segments being created do not count: they will probably fail.
        let creating = if self.has_failed() { 0 } else { self.creating };
        if bytes != self.segment_bytes || free + creating + self.wiping >= FREE_SEGMENTS {
            return Reuse::Remove;
        }
        self.wiping += 1;
        Reuse::Wipe
    }

    /// How many segments to create now: the journal has `free` ones and `space` bytes, and `wanted` bytes are waited
    /// for. Counts them as being created.
    pub(crate) fn create(&mut self, free: usize, space: u64, wanted: u64, now: Duration) -> usize {
        // After a failure, wait before asking the disk again.
        if self.failed_at.is_some_and(|at| now.saturating_sub(at) < DISK_RETRY) {
            return 0;
        }
        let before = self.creating;
        loop {
            let coming = self.creating + self.wiping;
            let coming_bytes = coming as u64 * (self.segment_bytes - SEGMENT_OVERHEAD_BYTES);
            if free + coming >= FREE_SEGMENTS && space + coming_bytes >= wanted {
                return self.creating - before;
            }
            self.creating += 1;
        }
    }

    /// Records that a segment is ready; with it the journal has `free` ones. Returns whether it shows that the disk
    /// works again.
    pub(crate) fn ready(&mut self, origin: Origin, free: usize) -> bool {
        self.ended(origin);
        // The disk may still be full although an existing file was wiped.
        let works = origin == Origin::New || free >= FREE_SEGMENTS;
        if works {
            self.failed_at = None;
        }
        works
    }

    /// Ends the failure if the journal with `free` segments needs none, and the disk was left alone for a while. Returns
    /// whether it ended: the next caller that needs space tries the disk again.
    pub(crate) fn recover_unneeded(&mut self, free: usize, now: Duration) -> bool {
        let waited = self.failed_at.is_some_and(|at| now.saturating_sub(at) >= DISK_RETRY);
        let recovers = waited && free >= FREE_SEGMENTS;
        if recovers {
            self.failed_at = None;
        }
        recovers
    }

    /// Records that a segment could not be made.
    pub(crate) fn failed(&mut self, origin: Origin, now: Duration) {
        self.ended(origin);
        self.failed_at = Some(now);
    }

    fn ended(&mut self, origin: Origin) {
        match origin {
            Origin::New => self.creating -= 1,
            Origin::Wiped => self.wiping -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FREE_SEGMENTS, Origin, Reuse, SEGMENT_OVERHEAD_BYTES, SegmentSupply};
    use crate::disk_error::DISK_RETRY;

    const SEGMENT: u64 = 1 << 16;
    const NOW: Duration = Duration::from_secs(100);

    fn supply() -> SegmentSupply {
        SegmentSupply::new(SEGMENT, None)
    }

    #[test]
    fn two_segments_are_kept_free() {
        let mut supply = supply();
        assert_eq!(supply.create(0, 0, 0, NOW), FREE_SEGMENTS);
        assert_eq!(supply.create(0, 0, 0, NOW), 0, "they are being created");
        assert!(supply.ready(Origin::New, 1));
        assert_eq!(supply.create(1, SEGMENT, 0, NOW), 0);
        assert!(supply.ready(Origin::New, 2));
        assert_eq!(supply.create(1, SEGMENT, 0, NOW), 1, "one was used");
    }

    #[test]
    fn more_are_created_if_a_caller_needs_more_space() {
        let mut supply = supply();
        let usable = SEGMENT - SEGMENT_OVERHEAD_BYTES;
        assert_eq!(supply.create(2, 2 * SEGMENT, 2 * SEGMENT + 3 * usable, NOW), 3);
        assert_eq!(supply.create(2, 2 * SEGMENT, 2 * SEGMENT + 3 * usable + 1, NOW), 1);
    }

    #[test]
    fn a_file_is_reused_if_it_has_the_right_size_and_is_needed() {
        let mut supply = supply();
        assert_eq!(supply.reuse(SEGMENT + 1, 0), Reuse::Remove, "another size");
        assert_eq!(supply.reuse(SEGMENT, 2), Reuse::Remove, "enough are free");
        assert_eq!([supply.reuse(SEGMENT, 0), supply.reuse(SEGMENT, 0)], [Reuse::Wipe; 2]);
        assert_eq!(supply.reuse(SEGMENT, 0), Reuse::Remove, "enough are being wiped");
        assert_eq!((supply.wiping(), supply.create(0, 0, 0, NOW)), (2, 0));
        let mut supply = self::supply();
        assert_eq!(supply.create(0, 0, 0, NOW), 2);
        assert_eq!(supply.reuse(SEGMENT, 0), Reuse::Remove, "enough are being created");
        supply.failed(Origin::New, NOW);
        assert_eq!(supply.reuse(SEGMENT, 0), Reuse::Wipe, "the other one will fail too");
    }

    #[test]
    fn a_failing_disk_is_asked_once_a_second() {
        let mut supply = supply();
        assert_eq!(supply.create(0, 0, 0, NOW), 2);
        supply.failed(Origin::New, NOW);
        supply.failed(Origin::New, NOW);
        assert_eq!(supply.create(0, 0, 0, NOW + DISK_RETRY / 2), 0);
        assert_eq!(supply.create(0, 0, 0, NOW + DISK_RETRY), 2);
    }

    #[test]
    fn a_failure_ends_when_nothing_is_needed() {
        let mut supply = SegmentSupply::new(SEGMENT, Some(NOW));
        assert!(!supply.recover_unneeded(2, NOW + DISK_RETRY / 2), "those who wait must be rejected first");
        assert!(!supply.recover_unneeded(1, NOW + DISK_RETRY), "a segment is needed");
        assert!(supply.recover_unneeded(2, NOW + DISK_RETRY) && !supply.has_failed());
        assert!(!supply.recover_unneeded(2, NOW + DISK_RETRY), "there is no failure");
    }

    #[test]
    fn a_wiped_file_does_not_show_that_the_disk_has_space() {
        let mut supply = SegmentSupply::new(SEGMENT, Some(NOW));
        assert_eq!([supply.reuse(SEGMENT, 0), supply.reuse(SEGMENT, 0)], [Reuse::Wipe; 2]);
        assert!(!supply.ready(Origin::Wiped, 1) && supply.has_failed());
        assert!(supply.ready(Origin::Wiped, 2) && !supply.has_failed(), "none is needed any more");
        let mut supply = SegmentSupply::new(SEGMENT, Some(NOW));
        assert_eq!(supply.create(0, 0, 0, NOW + DISK_RETRY), 2);
        assert!(supply.ready(Origin::New, 1) && !supply.has_failed());
    }
}
