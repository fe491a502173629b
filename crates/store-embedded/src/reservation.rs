//! How much journal space a call needs before anything is applied, and how many claims fit into less.

use oncebox_core::limits::RECORD_KIND_NAME_BYTES_MAX;
use oncebox_core::machine::REMOVALS_MAX;
use oncebox_core::{Action, Claim, Key, NewMessage, Observation, Order, RecordOp, Settlement, Verdict};

/// An effect without its strings.
pub(crate) const RECORD_BYTES: u64 = 192;
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

// Below: the most that one item of a call writes.

fn text(bytes: usize) -> u64 {
    bytes as u64 + 8
}

pub(crate) fn key(key: &Key) -> u64 {
    // Beginning a key may write three effects: recorded, observed and granted.
    3 * RECORD_BYTES + text(key.source.as_str().len()) + text(key.id.as_str().len())
}

pub(crate) fn observation(observation: &Observation) -> u64 {
    key(&observation.key) + RECORD_BYTES
}

pub(crate) fn message(message: &NewMessage) -> u64 {
    let content = &message.content;
    let partition = content.partition.as_ref().map_or(0, |partition| partition.as_str().len());
    let attributes = content.attributes.bytes() + content.attributes.iter().count() * 8;
    let texts = content.topic.as_str().len() + partition + message.trace.bytes() + attributes;
    2 * RECORD_BYTES + key(&message.key) + text(texts) + content.payload.len() as u64
}

pub(crate) fn settlement(settlement: &Settlement) -> u64 {
    let error = match &settlement.verdict {
        Verdict::Abandon { error, .. } | Verdict::Fail { error, .. } => error.as_ref(),
        _ => None,
    };
    RECORD_BYTES + text(error.map_or(0, |error| error.as_str().len()))
}

/// Bytes that a claim writes with each lease in addition to its record.
pub(crate) fn worker(claim: &Claim) -> u64 {
    claim.worker.as_ref().map_or(0, |worker| text(worker.as_str().len()))
}

pub(crate) fn order(order: &Order) -> u64 {
    let error = match &order.action {
        Action::MarkDead { error } => error.as_ref(),
        _ => None,
    };
    let recorded = match &order.target {
        oncebox_core::MessageRef::Key(target) => key(target),
        oncebox_core::MessageRef::Uid(_) => 0,
    };
    RECORD_BYTES + recorded + text(error.map_or(0, |error| error.as_str().len()))
}

/// The removal of a record.
pub(crate) const RECORD_REMOVED_BYTES: u64 = RECORD_KIND_NAME_BYTES_MAX as u64 + 16;

pub(crate) fn record_op(op: &RecordOp) -> u64 {
    match op {
        RecordOp::Put { id, value, .. } => {
            let removals = u64::from(REMOVALS_MAX) * RECORD_REMOVED_BYTES;
            RECORD_BYTES + text(id.as_str().len()) + text(value.as_bytes().len()) + removals
        }
        RecordOp::Delete { .. } => RECORD_REMOVED_BYTES,
        _ => 0,
    }
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
