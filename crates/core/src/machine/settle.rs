//! Settlements: the effect of a worker's verdict, which only the holder of the lease can give (IBX-046).

use super::arena::Slot;
use super::grant::StoredGrant;
use super::{CallContext, Effect, Machine};
use crate::message::{DeadReason, GrantEnd, Settled, Verdict};
use crate::payload::PayloadHandle;
use crate::port::Settlement;

impl<P: PayloadHandle> Machine<P> {
    /// Settles one delivery; see [`crate::Store::work`].
    pub fn settle(&mut self, context: &mut CallContext<'_, P>, settlement: &Settlement) -> Settled {
        self.advance(context);
        let Some(slot) = self.find_uid(settlement.uid) else { return Settled::LeaseLost };
        let Some(grant) = self.grant(slot) else { return Settled::LeaseLost };
        if grant.lease.owner != settlement.owner || grant.lease.fence != settlement.fence {
            return Settled::LeaseLost;
        }
        let kind = settlement.verdict.kind();
        match grant.end {
            None => {}
            Some(GrantEnd::Settled(before, outcome)) if before == kind => return outcome,
            Some(_) => return Settled::LeaseLost,
        }
        let outcome = self.judge(slot, grant, &settlement.verdict);
        let error = match &settlement.verdict {
            Verdict::Abandon { error, .. } | Verdict::Fail { error, .. } => error.as_ref(),
            Verdict::Ack | Verdict::Release => None,
        };
        self.commit(context.journal, slot, Effect::Settled { kind, outcome, error });
        outcome
    }

    /// The outcome of a verdict under a current lease.
    fn judge(&self, slot: Slot, grant: &StoredGrant, verdict: &Verdict) -> Settled {
        let message = &self.messages[slot];
        let (superseded, claimer) = (grant.superseded, grant.attempts_max);
        let expired = message.is_processing() && message.expires <= self.now;
        match verdict {
            Verdict::Ack | Verdict::Abandon { .. } | Verdict::Fail { .. } if superseded => {
                Settled::Superseded
            }
            Verdict::Ack => Settled::Done,
            Verdict::Fail { reason, .. } => Settled::Dead { reason: *reason },
            Verdict::Abandon { .. } | Verdict::Release if expired => {
                Settled::Dead { reason: DeadReason::Expired }
            }
            Verdict::Abandon { .. } if message.is_processing() && message.last_attempt(claimer) => {
                Settled::Dead { reason: DeadReason::Exhausted }
            }
            Verdict::Abandon { delay, .. } => Settled::Retrying { at: self.now.after(delay.get()) },
            Verdict::Release => Settled::Released,
        }
    }
}
