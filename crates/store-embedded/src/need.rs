//! How much space of the journal a call needs before it may begin, and how much of a claim fits into less.

use crate::size::RECORD_BYTES;

/// Space that claims leave to settlements, orders and extensions.
pub(crate) const CLAIM_LEAVES_BYTES: u64 = 16 << 10;
/// Space that settlements, orders and extensions leave to upkeep.
pub(crate) const SETTLEMENT_LEAVES_BYTES: u64 = 4 << 10;
/// Space that upkeep leaves: headers of frames and what an opening must know are written beside every record.
pub(crate) const UPKEEP_LEAVES_BYTES: u64 = 1 << 10;

/// What a call may write at most, and what it must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Need {
    /// Bytes of everything but its claims.
    pub(crate) bytes: u64,
    /// Messages that it claims.
    pub(crate) claimed: u32,
    /// Bytes that the names of its workers add to each of these, at most.
    pub(crate) name_bytes: u64,
    /// Bytes that it leaves; its claims leave [`CLAIM_LEAVES_BYTES`] at least.
    pub(crate) leaves: u64,
}

impl Need {
    /// Space for all of it.
    pub(crate) fn most(&self) -> u64 {
        let leaves = if self.claimed > 0 { self.leaves.max(CLAIM_LEAVES_BYTES) } else { self.leaves };
        framed(self.bytes + u64::from(self.claimed) * self.grant_bytes()) + leaves
    }

    /// A lease as it is written.
    fn grant_bytes(&self) -> u64 {
        RECORD_BYTES + self.name_bytes
    }

    /// How many messages it may claim where there is so much space and no more to come: what it claims, and the `leased` messages
    /// that are out already, can be settled in what it leaves. None if it may do nothing at all.
    pub(crate) fn fit(&self, space: u64, leased: u64) -> Option<u32> {
        let left = space.checked_sub(framed(self.bytes))?;
        if left < self.leaves {
            return None;
        }
        let for_claims = left.saturating_sub(CLAIM_LEAVES_BYTES + framed(leased * RECORD_BYTES));
        let fitting =
            u32::try_from(for_claims / framed(self.grant_bytes() + RECORD_BYTES)).unwrap_or(u32::MAX);
        let claimed = self.claimed.min(fitting);
        // A call that does nothing but claim must not look like one that found nothing.
        (claimed > 0 || self.claimed == 0 || self.bytes > 0).then_some(claimed)
    }
}

/// With what frames add.
fn framed(bytes: u64) -> u64 {
    bytes + bytes / 32
}

#[cfg(test)]
mod tests {
    use super::{CLAIM_LEAVES_BYTES, Need, RECORD_BYTES, SETTLEMENT_LEAVES_BYTES, framed};

    const CLAIM: Need = Need { bytes: 0, claimed: 10, name_bytes: 0, leaves: CLAIM_LEAVES_BYTES };
    const ONE: u64 = 2 * RECORD_BYTES + 2 * RECORD_BYTES / 32;

    #[test]
    fn a_claim_is_cut_to_what_fits_and_refused_when_not_even_one_message_does() {
        assert_eq!(CLAIM.fit(CLAIM_LEAVES_BYTES + 10 * ONE, 0), Some(10));
        assert_eq!(CLAIM.fit(1 << 30, 0), Some(10), "it gets no more than it asks for");
        assert_eq!(CLAIM.fit(CLAIM_LEAVES_BYTES + 10 * ONE - 1, 0), Some(9));
        assert_eq!(CLAIM.fit(CLAIM_LEAVES_BYTES + ONE, 0), Some(1));
        assert_eq!(CLAIM.fit(CLAIM_LEAVES_BYTES + ONE - 1, 0), None);
        assert_eq!(CLAIM.fit(0, 0), None);
    }

    #[test]
    fn names_of_workers_take_space_too() {
        let named = Need { name_bytes: RECORD_BYTES, ..CLAIM };
        let one = 3 * RECORD_BYTES + 3 * RECORD_BYTES / 32;
        assert_eq!(named.fit(CLAIM_LEAVES_BYTES + 2 * one, 0), Some(2));
        assert_eq!(named.fit(CLAIM_LEAVES_BYTES + one - 1, 0), None);
        assert_eq!(named.most() - CLAIM.most(), framed(10 * RECORD_BYTES));
    }

    #[test]
    fn a_claim_leaves_space_to_settle_what_is_out() {
        let space = CLAIM_LEAVES_BYTES + framed(100 * RECORD_BYTES) + 3 * ONE;
        assert_eq!(CLAIM.fit(space, 100), Some(3));
        assert_eq!(CLAIM.fit(space, 1_000), None);
    }

    #[test]
    fn settlements_go_on_without_the_claims_of_the_same_call() {
        let both = Need { bytes: RECORD_BYTES, leaves: SETTLEMENT_LEAVES_BYTES, ..CLAIM };
        let settled = framed(RECORD_BYTES);
        assert_eq!(both.fit(settled + CLAIM_LEAVES_BYTES + 2 * ONE, 0), Some(2));
        assert_eq!(both.fit(settled + SETTLEMENT_LEAVES_BYTES, 0), Some(0));
        assert_eq!(both.fit(settled + SETTLEMENT_LEAVES_BYTES - 1, 0), None);
    }

    #[test]
    fn what_writes_nothing_needs_nothing() {
        assert_eq!((Need::default().most(), Need::default().fit(0, 1_000)), (0, Some(0)));
    }

    #[test]
    fn space_for_all_of_it_is_enough() {
        for need in
            [CLAIM, Need { bytes: 7, ..CLAIM }, Need { bytes: 7, claimed: 0, name_bytes: 0, leaves: 9 }]
        {
            let twice = need.most() + framed(u64::from(need.claimed) * RECORD_BYTES);
            assert_eq!(need.fit(twice + 1, 0), Some(need.claimed), "{need:?}");
        }
    }
}
