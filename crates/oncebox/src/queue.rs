//! The work queue: claim, settle and extend by key, for applications that implement their own worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{
    Backoff, Batch, Budget, Claim, Error, ErrorKind, Extension, Key, LastError, MessageRef, Namespace,
    Settlement, Snapshot, StoreExt, Timestamp, Uid, Verdict,
};
use tracing::{debug, info};

use crate::shared::{Oncebox, Shared};

pub use oncebox_core::{Delivery, Extended, Fence, Owner, RequestId, Settled, Span, WorkerName};

/// Maximum number of claims that one queue remembers. Further claims fail until some are settled or their leases have
/// ended.
const CLAIMS_MAX: usize = 100_000;
/// How far the local clock may be ahead of the store's clock.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);
/// Maximum number of leases that one call to [`WorkQueue::reap`] ends.
const REAP_ITEMS_MAX: u32 = 1_000;

/// Claims and settles messages, for applications that implement their own worker.
///
/// A queue remembers what was claimed through it, so messages are settled by owner and key. A message that the owner no
/// longer holds is reported as [`Settled::LeaseLost`], and nothing changes (IBX-046). Clones share the remembered
/// claims. Use a separate owner for each task: if an owner loses a message and claims it again, a late settlement for
/// the first claim counts for the second.
#[derive(Clone)]
pub struct WorkQueue {
    shared: Arc<Shared>,
    claims: Arc<Mutex<HashMap<(Owner, Key), Claimed>>>,
}

/// A remembered claim: what is needed to settle the message.
#[derive(Clone, Copy)]
struct Claimed {
    uid: Uid,
    fence: Fence,
    attempts: u32,
    /// The end of the lease, unless it was extended elsewhere.
    until: Timestamp,
    /// The claim is remembered only so that a repeated settlement returns the same outcome.
    settled: bool,
}

impl Oncebox {
    /// The handle for claiming and settling messages yourself. Most applications use a [`crate::Worker`] instead.
    pub fn queue(&self) -> WorkQueue {
        WorkQueue { shared: self.shared(), claims: Arc::default() }
    }
}

impl WorkQueue {
    fn claims(&self) -> MutexGuard<'_, HashMap<(Owner, Key), Claimed>> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new, unique owner. A worker uses one for its lifetime.
    pub fn new_owner(&self) -> Owner {
        self.shared.owner()
    }

    /// Leases up to `batch` ready messages of any topic. *Repeat:* claims other messages; those of a lost response are
    /// delivered again when their leases have ended.
    pub async fn claim(&self, owner: Owner, lease: Duration, batch: u32) -> Result<Vec<Delivery>, Error> {
        let claim = Claim::new(Namespace::Inbox, owner, Span::lease(lease)?, Batch::new(batch)?);
        self.ensure_capacity(batch)?;
        let deliveries = self.shared.store.claim(&claim).await?;
        let mut claims = self.claims();
        for Delivery { key, uid, lease, attempts, .. } in &deliveries {
            let claimed = Claimed {
                uid: *uid,
                fence: lease.fence,
                attempts: *attempts,
                until: lease.until,
                settled: false,
            };
            claims.insert((owner, key.clone()), claimed);
        }
        drop(claims);
        debug!(store = %self.shared.name, %owner, claimed = deliveries.len(), "claimed");
        Ok(deliveries)
    }

    /// If too many claims are remembered, forgets those that were settled, then those whose leases have ended.
    fn ensure_capacity(&self, batch: u32) -> Result<(), Error> {
        let mut claims = self.claims();
        if claims.len() + batch as usize > CLAIMS_MAX {
            claims.retain(|_, claimed| !claimed.settled);
        }
        if claims.len() + batch as usize > CLAIMS_MAX {
            // The local clock may be ahead of the store's.
            let now = self.shared.clock.now();
            claims.retain(|_, claimed| claimed.until.after(CLOCK_SKEW_MAX) > now);
        }
        if claims.len() + batch as usize > CLAIMS_MAX {
            let text = format!("more than {CLAIMS_MAX} messages would be claimed at once: settle some first");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(())
    }

    /// Acknowledges messages that were handled: they become Done.
    pub async fn ack(&self, owner: Owner, keys: &[Key]) -> Result<Vec<Settled>, Error> {
        self.settle(owner, keys, |_| Verdict::Ack).await
    }

    /// Abandons messages whose handling failed for now: an attempt is used up, and they are delivered again after
    /// `delay`, or after 2, 4, 8 … 60 s if it is none. A delay of zero is rejected (IBX-058). A blank error counts as
    /// none.
    pub async fn abandon(
        &self,
        owner: Owner,
        keys: &[Key],
        error: Option<&str>,
        delay: Option<Duration>,
    ) -> Result<Vec<Settled>, Error> {
        let error = error.and_then(LastError::new);
        let delay = delay.map(Span::delay).transpose()?;
        self.settle(owner, keys, |claimed| {
            let backoff = || self.shared.delay(&Backoff::INBOX, claimed.attempts);
            Verdict::Abandon { delay: delay.unwrap_or_else(backoff), error: error.clone() }
        })
        .await
    }

    /// Fails messages permanently: they become Dead.
    pub async fn fail(&self, owner: Owner, keys: &[Key], error: &str) -> Result<Vec<Settled>, Error> {
        let error = LastError::new(error);
        let reason = oncebox_core::DeadReason::Failed;
        self.settle(owner, keys, |_| Verdict::Fail { reason, error: error.clone() }).await
    }

    /// Releases messages that were not handled: they are ready again at once, and no attempt is used up.
    pub async fn release(&self, owner: Owner, keys: &[Key]) -> Result<Vec<Settled>, Error> {
        self.settle(owner, keys, |_| Verdict::Release).await
    }

    async fn settle(
        &self,
        owner: Owner,
        keys: &[Key],
        verdict: impl Fn(&Claimed) -> Verdict,
    ) -> Result<Vec<Settled>, Error> {
        let held: Vec<_> = keys.iter().map(|key| self.held(owner, key)).collect();
        let settlements = held.iter().flatten().map(|claimed| {
            let Claimed { uid, fence, .. } = *claimed;
            Settlement { uid, owner, fence, verdict: verdict(claimed) }
        });
        let mut settled = self.shared.store.settle(&settlements.collect::<Vec<_>>()).await?.into_iter();
        let mut claims = self.claims();
        for key in keys {
            if let Some(claimed) = claims.get_mut(&(owner, key.clone())) {
                claimed.settled = true;
            }
        }
        Ok(one_per_key(&held, &mut settled, Settled::LeaseLost))
    }

    /// Extends the leases: they end `lease` from now.
    pub async fn extend(&self, owner: Owner, keys: &[Key], lease: Duration) -> Result<Vec<Extended>, Error> {
        let lease = Span::lease(lease)?;
        let held: Vec<_> = keys.iter().map(|key| self.held(owner, key)).collect();
        let extension = |&Claimed { uid, fence, .. }: &Claimed| Extension { uid, owner, fence, lease };
        let extensions: Vec<_> = held.iter().flatten().map(extension).collect();
        let extended = self.shared.store.extend(&extensions).await?;
        let extended = one_per_key(&held, &mut extended.into_iter(), Extended::LeaseLost);
        let mut claims = self.claims();
        for (key, extended) in keys.iter().zip(&extended) {
            if let (Extended::Until(until), Some(claimed)) = (extended, claims.get_mut(&(owner, key.clone())))
            {
                claimed.until = *until;
            }
        }
        Ok(extended)
    }

    fn held(&self, owner: Owner, key: &Key) -> Option<Claimed> {
        self.claims().get(&(owner, key.clone())).copied()
    }

    /// Ends up to 1,000 lapsed leases and returns their number; call it until it returns 0 (IBX-068).
    ///
    /// Workers and [`crate::Maintenance`] do this on their own. A lapsed lease is never treated as valid, even before
    /// it is reaped.
    pub async fn reap(&self) -> Result<u64, Error> {
        let report = self.shared.store.maintain(Budget::new(REAP_ITEMS_MAX)).await?;
        if report.lapsed > 0 {
            info!(store = %self.shared.name, reaped = report.lapsed, "reaped");
        }
        Ok(report.lapsed)
    }

    /// Everything that is stored about a message.
    pub async fn get(&self, key: &Key) -> Result<Option<Snapshot>, Error> {
        self.shared.store.get_one(&MessageRef::Key(key.clone())).await
    }
}

/// One outcome per key: the store's for the claims in `held`, `missing` for the others.
fn one_per_key<T: Copy>(
    held: &[Option<Claimed>],
    outcomes: &mut impl Iterator<Item = T>,
    missing: T,
) -> Vec<T> {
    let outcome = |held: &Option<Claimed>| held.and_then(|_| outcomes.next()).unwrap_or(missing);
    held.iter().map(outcome).collect()
}
