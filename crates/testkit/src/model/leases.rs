//! Leases: how they are granted, extended and settled.

use std::num::NonZeroU32;

use oncebox_core::{
    DeadReason, Extended, Extension, Fence, Grant, GrantEnd, LastError, Lease, MessageState, Namespace,
    Owner, RequestId, Settled, Settlement, Span, Timestamp, Uid, Verdict, WorkerName,
};

use super::{Illegal, Model};

/// A request for a lease.
pub(super) struct LeaseRequest {
    pub(super) owner: Owner,
    pub(super) lease: Span,
    /// The claim call that asks for it.
    pub(super) request: Option<RequestId>,
    /// The claimer's limit of attempts.
    pub(super) attempts_max: Option<NonZeroU32>,
    /// The name of the claiming worker.
    pub(super) worker: Option<WorkerName>,
}

impl Model {
    /// Grants a lease with the fence that the store generated.
    pub(super) fn grant(
        &mut self,
        index: usize,
        LeaseRequest { owner, lease, request, attempts_max, worker }: LeaseRequest,
        actual: Option<Fence>,
    ) -> Result<Lease, Illegal> {
        let fence = self.generated_fence(index, actual)?;
        let row = &mut self.rows[index];
        let extendable_until = match row.message.key.namespace {
            Namespace::Mailbox => self.now.after(lease.get() * 10),
            _ => Timestamp::NEVER,
        };
        let lease = Lease { owner, fence, until: self.now.after(lease.get()) };
        row.message.deliveries += 1;
        row.message.retry_at = None;
        let partition = row.message.content.as_ref().and_then(|content| content.partition.clone());
        let (superseded, end) = (false, None);
        row.message.grant = Some(Grant {
            lease,
            extendable_until,
            request,
            attempts_max,
            worker,
            partition,
            superseded,
            end,
        });
        Ok(lease)
    }

    /// The message whose newest grant has this owner and fence.
    fn find_grant(&self, uid: Uid, owner: Owner, fence: Fence) -> Option<(usize, Grant)> {
        let index = self.find_uid(uid)?;
        let grant = self.rows[index].message.grant.clone()?;
        (grant.lease.owner == owner && grant.lease.fence == fence).then_some((index, grant))
    }

    /// The expected outcome of `extend`.
    pub fn extend(&mut self, extension: &Extension) -> Extended {
        self.catch_up();
        let Some((index, grant)) = self.find_grant(extension.uid, extension.owner, extension.fence) else {
            return Extended::LeaseLost;
        };
        if grant.end.is_some() {
            return Extended::LeaseLost;
        }
        let wanted = self.now.after(extension.lease.get()).min(grant.extendable_until);
        let until = grant.lease.until.max(wanted);
        self.rows[index].message.grant = Some(Grant { lease: Lease { until, ..grant.lease }, ..grant });
        Extended::Until(until)
    }

    /// The expected outcome of a settlement in `work`.
    pub fn settle(&mut self, settlement: &Settlement) -> Settled {
        self.catch_up();
        let Some((index, grant)) = self.find_grant(settlement.uid, settlement.owner, settlement.fence) else {
            return Settled::LeaseLost;
        };
        let kind = settlement.verdict.kind();
        match grant.end {
            None => {
                let answer = self.settle_current(index, &settlement.verdict, &grant);
                self.end_grant(index, GrantEnd::Settled(kind, answer));
                answer
            }
            Some(GrantEnd::Settled(earlier, answer)) if earlier == kind => answer,
            Some(_) => Settled::LeaseLost,
        }
    }

    fn settle_current(&mut self, index: usize, verdict: &Verdict, grant: &Grant) -> Settled {
        let message = &mut self.rows[index].message;
        if let Some(error) = error_of(verdict) {
            message.last_error = Some(error.clone());
        }
        let released = matches!(verdict, Verdict::Release);
        if grant.superseded && !released {
            return Settled::Superseded;
        }
        let expiry = message.content.as_ref().and_then(|content| content.expires);
        let expired = message.state == MessageState::Processing && expiry.is_some_and(|at| at <= self.now);
        match verdict {
            Verdict::Ack => {
                self.finish(index);
                Settled::Done
            }
            Verdict::Fail { reason, .. } => self.settle_dead(index, *reason),
            _ if expired => self.settle_dead(index, DeadReason::Expired),
            Verdict::Release => Settled::Released,
            Verdict::Abandon { delay, .. } => {
                let at = self.now.after(delay.get());
                message.retry_at = Some(at);
                self.spend_attempt(index, grant.attempts_max);
                match self.rows[index].message.dead {
                    Some(reason) => Settled::Dead { reason },
                    None => Settled::Retrying { at },
                }
            }
            other => unreachable!("the model does not know {other:?}"),
        }
    }

    fn settle_dead(&mut self, index: usize, reason: DeadReason) -> Settled {
        self.die(index, reason);
        Settled::Dead { reason }
    }
}

fn error_of(verdict: &Verdict) -> Option<&LastError> {
    match verdict {
        Verdict::Abandon { error, .. } | Verdict::Fail { error, .. } => error.as_ref(),
        _ => None,
    }
}
