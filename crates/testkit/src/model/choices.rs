//! What a store may choose for itself, and when a choice is legal.

use oncebox_core::{Fence, Number, Uid};

use super::{Illegal, Model};

impl Model {
    /// Takes a uid that the store drew. None if it did not tell: then its answer is of the wrong kind anyway.
    pub(super) fn drawn_uid(&self, told: Option<Uid>) -> Result<Uid, Illegal> {
        let uid = told.unwrap_or(Uid::from_u128(u128::MAX));
        if self.uids.contains(&uid) {
            return Err(Illegal(format!("a drawn uid that no message ever had, not {uid}")));
        }
        Ok(uid)
    }

    /// Takes a fence that the store drew for a message. None as above.
    pub(super) fn drawn_fence(&mut self, index: usize, told: Option<Fence>) -> Result<Fence, Illegal> {
        let fence = told.unwrap_or(Fence::new(u64::MAX).expect("it is not zero"));
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

    /// Takes the number that the store gave a message. Stores may leave gaps, so only the order counts.
    pub(super) fn tell_number(&mut self, uid: Uid, told: Number) -> Result<(), Illegal> {
        let Some(index) = self.find_uid(uid).filter(|index| self.rows[*index].told.is_none()) else {
            return Ok(());
        };
        let own = &self.rows[index].message;
        for row in self.rows.iter().filter(|row| row.message.key.namespace == own.key.namespace) {
            let Some(other) = row.told else { continue };
            if other.cmp(&told) != row.message.number.cmp(&own.number) {
                let other_uid = row.message.uid;
                return Err(Illegal(format!(
                    "numbers in order of acceptance, not {told:?} of {uid} beside {other:?} of {other_uid}"
                )));
            }
        }
        self.rows[index].told = Some(told);
        Ok(())
    }

    /// The number of a message as the store counts, or as the model counts until the store has told.
    pub(super) fn number(&self, index: usize) -> Number {
        self.rows[index].told.unwrap_or(self.rows[index].message.number)
    }
}
