//! How much journal space a call needs before it may run, and how many claims fit into less.

use crate::size::RECORD_BYTES;

/// Space that claims leave for settlements, orders and extensions.
pub(crate) const CLAIM_HEADROOM_BYTES: u64 = 16 << 10;
/// Space that settlements, orders and extensions leave for maintenance.
pub(crate) const SETTLEMENT_HEADROOM_BYTES: u64 = 4 << 10;
/// Space that maintenance leaves: frame headers and boot records are written in addition to every record.
pub(crate) const MAINTENANCE_HEADROOM_BYTES: u64 = 1 << 10;

/// The most that a call may write, and the headroom that it must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reservation {
    /// Bytes of everything except the claims.
    pub(crate) bytes: u64,
    /// Messages that the call claims.
    pub(crate) claimed: u32,
    /// Maximum number of bytes that a worker name adds to each claimed message.
    pub(crate) name_bytes: u64,
    /// Bytes that must stay free; claims leave at least [`CLAIM_HEADROOM_BYTES`].
    pub(crate) headroom: u64,
}

impl Reservation {
    /// Space for the whole call.
    pub(crate) fn bytes_max(&self) -> u64 {
        let headroom = if self.claimed > 0 { self.headroom.max(CLAIM_HEADROOM_BYTES) } else { self.headroom };
        framed(self.bytes + u64::from(self.claimed) * self.grant_bytes()) + headroom
    }

    /// Bytes of one lease in the journal.
    fn grant_bytes(&self) -> u64 {
        RECORD_BYTES + self.name_bytes
    }

    /// How many messages the call may claim if there is only `space` and no more to come: the claimed messages and the
    /// `leased` ones must still fit when they are settled. `None` if the call may not run at all.
    pub(crate) fn claims_that_fit(&self, space: u64, leased: u64) -> Option<u32> {
        let left = space.checked_sub(framed(self.bytes))?;
        if left < self.headroom {
            return None;
        }
        let for_claims = left.saturating_sub(CLAIM_HEADROOM_BYTES + framed(leased * RECORD_BYTES));
        let fitting =
            u32::try_from(for_claims / framed(self.grant_bytes() + RECORD_BYTES)).unwrap_or(u32::MAX);
        let claimed = self.claimed.min(fitting);
        // A call that only claims must not appear to have found no messages.
        (claimed > 0 || self.claimed == 0 || self.bytes > 0).then_some(claimed)
    }
}

/// `bytes` with the overhead of frames.
fn framed(bytes: u64) -> u64 {
    bytes + bytes / 32
}

#[cfg(test)]
mod tests {
    use super::{CLAIM_HEADROOM_BYTES, RECORD_BYTES, Reservation, SETTLEMENT_HEADROOM_BYTES, framed};

    const CLAIM: Reservation =
        Reservation { bytes: 0, claimed: 10, name_bytes: 0, headroom: CLAIM_HEADROOM_BYTES };
    const ONE: u64 = 2 * RECORD_BYTES + 2 * RECORD_BYTES / 32;

    #[test]
    fn a_claim_is_reduced_to_what_fits_and_rejected_if_not_even_one_message_fits() {
        assert_eq!(CLAIM.claims_that_fit(CLAIM_HEADROOM_BYTES + 10 * ONE, 0), Some(10));
        assert_eq!(CLAIM.claims_that_fit(1 << 30, 0), Some(10), "never more than requested");
        assert_eq!(CLAIM.claims_that_fit(CLAIM_HEADROOM_BYTES + 10 * ONE - 1, 0), Some(9));
        assert_eq!(CLAIM.claims_that_fit(CLAIM_HEADROOM_BYTES + ONE, 0), Some(1));
        assert_eq!(CLAIM.claims_that_fit(CLAIM_HEADROOM_BYTES + ONE - 1, 0), None);
        assert_eq!(CLAIM.claims_that_fit(0, 0), None);
    }

    #[test]
    fn worker_names_take_space() {
        let named = Reservation { name_bytes: RECORD_BYTES, ..CLAIM };
        let one = 3 * RECORD_BYTES + 3 * RECORD_BYTES / 32;
        assert_eq!(named.claims_that_fit(CLAIM_HEADROOM_BYTES + 2 * one, 0), Some(2));
        assert_eq!(named.claims_that_fit(CLAIM_HEADROOM_BYTES + one - 1, 0), None);
        assert_eq!(named.bytes_max() - CLAIM.bytes_max(), framed(10 * RECORD_BYTES));
    }

    #[test]
    fn a_claim_leaves_space_to_settle_leased_messages() {
        let space = CLAIM_HEADROOM_BYTES + framed(100 * RECORD_BYTES) + 3 * ONE;
        assert_eq!(CLAIM.claims_that_fit(space, 100), Some(3));
        assert_eq!(CLAIM.claims_that_fit(space, 1_000), None);
    }

    #[test]
    fn settlements_run_without_the_claims_of_the_same_call() {
        let both = Reservation { bytes: RECORD_BYTES, headroom: SETTLEMENT_HEADROOM_BYTES, ..CLAIM };
        let settled = framed(RECORD_BYTES);
        assert_eq!(both.claims_that_fit(settled + CLAIM_HEADROOM_BYTES + 2 * ONE, 0), Some(2));
        assert_eq!(both.claims_that_fit(settled + SETTLEMENT_HEADROOM_BYTES, 0), Some(0));
        assert_eq!(both.claims_that_fit(settled + SETTLEMENT_HEADROOM_BYTES - 1, 0), None);
    }

    #[test]
    fn a_call_that_writes_nothing_needs_no_space() {
        assert_eq!(
            (Reservation::default().bytes_max(), Reservation::default().claims_that_fit(0, 1_000)),
            (0, Some(0))
        );
    }

    #[test]
    fn space_for_the_whole_call_is_enough() {
        for reservation in [
            CLAIM,
            Reservation { bytes: 7, ..CLAIM },
            Reservation { bytes: 7, claimed: 0, name_bytes: 0, headroom: 9 },
        ] {
            let twice = reservation.bytes_max() + framed(u64::from(reservation.claimed) * RECORD_BYTES);
            assert_eq!(
                reservation.claims_that_fit(twice + 1, 0),
                Some(reservation.claimed),
                "{reservation:?}"
            );
        }
    }
}
