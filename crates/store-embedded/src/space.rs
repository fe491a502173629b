//! The space of the journal as callers see it, and whether a call fits into it.

use oncebox_core::Bound;

use crate::disk_error::DiskError;
use crate::reservation::Reservation;

/// The space of the journal, and why it cannot grow if it cannot.
pub(crate) struct Space {
    /// Bytes that callers may still use.
    free: u64,
    /// The most bytes that a waiting caller or the reclaimer needs; zero if none.
    wanted: u64,
    /// Reclaiming is about to free space in files that the journal already has.
    reclaim_pending: bool,
    /// Why the journal cannot grow; none while it can.
    disk_error: Option<DiskError>,
    /// Total size of the journal's files.
    file_bytes: u64,
}

/// Whether a call fits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit<'a> {
    /// It does, if it claims at most this many messages.
    Now { claimed: u32 },
    /// It will once the journal has grown.
    WhenGrown,
    /// The journal cannot grow, but reclaiming is about to free space.
    WhenReclaimed(&'a DiskError),
    /// The journal cannot grow.
    Never(&'a DiskError),
}

impl Space {
    pub(crate) fn new(free: u64, file_bytes: u64, disk_error: Option<DiskError>) -> Self {
        Self { free, wanted: 0, reclaim_pending: false, disk_error, file_bytes }
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    pub(crate) fn disk_error(&self) -> Option<&DiskError> {
        self.disk_error.as_ref()
    }

    /// The bound while the journal cannot grow: everything it has is used.
    pub(crate) fn bound(&self) -> Bound {
        Bound::new(Bound::DISK_BYTES, self.file_bytes, self.file_bytes)
    }

    /// Whether the free space is enough for `reservation`.
    pub(crate) fn has(&self, reservation: &Reservation) -> bool {
        self.free >= reservation.bytes_max()
    }

    /// Asks for this much space.
    pub(crate) fn want(&mut self, bytes: u64) {
        self.wanted = self.wanted.max(bytes);
    }

    /// Whether space is waited for, and `bytes` are enough.
    pub(crate) fn is_wanted_within(&self, bytes: u64) -> bool {
        (1..=bytes).contains(&self.wanted)
    }

    /// Whether a call fits while `leased` messages are still to be settled.
    pub(crate) fn fit(&self, reservation: &Reservation, leased: u64) -> Fit<'_> {
        let Some(disk_error) = &self.disk_error else {
            return if self.has(reservation) {
                Fit::Now { claimed: reservation.claimed }
            } else {
                Fit::WhenGrown
            };
        };
        match reservation.claims_that_fit(self.free, leased) {
            Some(claimed) => Fit::Now { claimed },
            None if self.reclaim_pending => Fit::WhenReclaimed(disk_error),
            None => Fit::Never(disk_error),
        }
    }

    /// Subtracts bytes that were added to the current group, with the overhead of frames.
    pub(crate) fn use_bytes(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.free = self.free.saturating_sub(bytes + bytes / 64);
    }

    /// Sets what the journal has. Returns whether blocked callers should try again: there is more space, or none to
    /// wait for.
    pub(crate) fn refresh(&mut self, free: u64, file_bytes: u64) -> bool {
        let has_grown = free > self.free;
        (self.free, self.file_bytes) = (free, file_bytes);
        let try_again = has_grown || self.disk_error.is_some();
        // Who still waits then asks again. Others may have been rejected, or are gone.
        if try_again || self.free >= self.wanted {
            self.wanted = 0;
        }
        try_again
    }

    /// Sets why the journal cannot grow. Returns whether this is a change.
    pub(crate) fn set_disk_error(&mut self, disk_error: Option<DiskError>) -> bool {
        let changed = self.disk_error != disk_error;
        self.disk_error = disk_error;
        changed
    }

    /// Sets whether reclaiming is about to free space. Returns whether blocked callers should try again, because it is
    /// not any more.
    pub(crate) fn set_reclaim_pending(&mut self, pending: bool) -> bool {
        std::mem::replace(&mut self.reclaim_pending, pending) && !pending
    }
}

#[cfg(test)]
mod tests {
    use super::{Fit, Space};
    use crate::disk_error::DiskError;
    use crate::reservation::{CLAIM_HEADROOM_BYTES, Reservation};

    const SETTLE: Reservation = Reservation { bytes: 3_200, claimed: 0, name_bytes: 0, headroom: 1_000 };
    const CLAIM: Reservation =
        Reservation { bytes: 0, claimed: 10, name_bytes: 0, headroom: CLAIM_HEADROOM_BYTES };

    fn full() -> DiskError {
        DiskError { full: true, text: "the disk is full".to_owned() }
    }

    #[test]
    fn a_call_waits_for_space_only_while_there_is_more_to_come() {
        let fits = Fit::Now { claimed: 0 };
        assert_eq!(Space::new(4_300, 0, None).fit(&SETTLE, 0), fits);
        assert_eq!(Space::new(4_299, 0, None).fit(&SETTLE, 0), Fit::WhenGrown);
        let mut space = Space::new(4_299, 0, Some(full()));
        assert_eq!(space.fit(&SETTLE, 0), Fit::Never(&full()));
        assert!(!space.set_reclaim_pending(true));
        assert_eq!(space.fit(&SETTLE, 0), Fit::WhenReclaimed(&full()));
        assert!(space.set_reclaim_pending(false), "those who wait must learn that it is over");
        assert_eq!(Space::new(4_300, 0, Some(full())).fit(&SETTLE, 0), fits);
    }

    #[test]
    fn a_claim_is_reduced_only_if_the_journal_cannot_grow() {
        let some = CLAIM_HEADROOM_BYTES + 1_000;
        assert_eq!(Space::new(some, 0, None).fit(&CLAIM, 0), Fit::WhenGrown);
        assert_eq!(Space::new(some, 0, Some(full())).fit(&CLAIM, 0), Fit::Now { claimed: 2 });
        let settled_first = Space::new(some, 0, Some(full()));
        assert_eq!(settled_first.fit(&CLAIM, 5), Fit::Never(&full()), "leased messages come first");
    }

    #[test]
    fn what_is_wanted_is_kept_until_those_who_wait_try_again() {
        let mut space = Space::new(100, 0, None);
        assert!(!space.has(&SETTLE));
        assert_eq!(space.wanted(), 0, "the caller may be rejected");
        space.want(4_300);
        assert!(!space.is_wanted_within(4_299) && space.is_wanted_within(4_300));
        space.want(10);
        assert!(!space.refresh(100, 0));
        assert_eq!(space.wanted(), 4_300);
        assert!(space.refresh(4_299, 0), "it has grown");
        assert!(!space.is_wanted_within(u64::MAX), "nobody has asked again");
        space.want(4_300);
        space.use_bytes(64);
        assert_eq!(space.free(), 4_299 - 65);
        assert!(!space.refresh(4_200, 0), "less than before");
        assert_eq!(space.wanted(), 4_300);
        assert!(space.refresh(4_300, 0) && space.has(&SETTLE));
        space.want(5_000);
        assert!(space.set_disk_error(Some(full())) && !space.set_disk_error(Some(full())));
        assert!(space.refresh(4_200, 0), "no caller may wait for a journal that cannot grow");
        assert_eq!(space.wanted(), 0, "those who were rejected want nothing");
    }
}
