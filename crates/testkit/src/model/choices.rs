//! The choices that a store is free to make, and when a choice is legal.

use oncebox_core::{Fence, Number, Uid};

use super::{Illegal, Model};

impl Model {
    /// Adopts a uid that the store generated. None if the store returned none: then its outcome is of the wrong kind
    /// anyway.
    pub(super) fn generated_uid(&self, actual: Option<Uid>) -> Result<Uid, Illegal> {
        let uid = actual.unwrap_or(Uid::from_u128(u128::MAX));
        if self.uids.contains(&uid) {
            return Err(Illegal(format!("a generated uid that no message ever had, not {uid}")));
        }
        Ok(uid)
    }

    /// Adopts a fence that the store generated for a message. None as above.
    pub(super) fn generated_fence(&mut self, index: usize, actual: Option<Fence>) -> Result<Fence, Illegal> {
        let fence = actual.unwrap_or(Fence::new(u64::MAX).expect("it is not zero"));
        let uid = self.rows[index].message.uid;
        let earlier = self.fences.iter().filter(|(other, _)| *other == uid).map(|(_, fence)| *fence).max();
        if earlier.is_some_and(|earlier| fence <= earlier) {
            return Err(Illegal(format!("a fence of {uid} above {earlier:?}, not {fence:?}")));
        }
        if self.leases().iter().any(|(_, lease)| lease.fence == fence) {
            return Err(Illegal(format!("a fence that no current lease has, not {fence:?}")));
        }
        self.fences.push((uid, fence));
        Ok(fence)
    }

    /// Adopts the number that the store assigned to a message. Stores may leave gaps, so only the order matters.
    pub(super) fn note_number(&mut self, uid: Uid, actual: Number) -> Result<(), Illegal> {
        let Some(index) = self.find_uid(uid).filter(|index| self.rows[*index].store_number.is_none()) else {
            return Ok(());
        };
        let own = &self.rows[index].message;
        for row in self.rows.iter().filter(|row| row.message.key.namespace == own.key.namespace) {
            let Some(other) = row.store_number else { continue };
            if other.cmp(&actual) != row.message.number.cmp(&own.number) {
                let other_uid = row.message.uid;
                return Err(Illegal(format!(
                    "numbers in order of acceptance, not {actual:?} of {uid} next to {other:?} of {other_uid}"
                )));
            }
        }
        self.rows[index].store_number = Some(actual);
        Ok(())
    }

    /// The number of a message as the store counts, or as the model counts until the store has returned it.
    pub(super) fn number(&self, index: usize) -> Number {
        self.rows[index].store_number.unwrap_or(self.rows[index].message.number)
    }
}
