//! Working by hand: claim, settle, extend, by key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{
    Backoff, Batch, Budget, Claim, Delivery, Error, Extended, Extension, Fence, Key, Kind, LastError,
    Namespace, Owner, Ref, Settled, Settlement, Snapshot, Span, StoreExt, Timestamp, Uid, Verdict,
};
use tracing::{debug, info};

use crate::shared::Shared;

/// Most claims that one queue remembers; more are refused until some are settled or their leases have ended.
const CLAIMS_MAX: usize = 100_000;
/// How far the process's clock may be ahead of the store's.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);
/// Ended leases that one upkeep call lets happen, at most.
const REAP_ITEMS_MAX: u32 = 1_000;

/// Claims messages and settles them, for those who write their own worker.
///
/// A queue remembers what was claimed through it, so messages are settled by owner and key: one that the owner does not
/// hold any more is reported as [`Settled::LeaseLost`], and nothing changes (IBX-046). Clones share that memory. Give each task an
/// owner of its own: should an owner claim a message again after it lost it, its late settlement counts for the new claim.
#[derive(Clone)]
pub struct WorkQueue {
    shared: Arc<Shared>,
    claims: Arc<Mutex<HashMap<(Owner, Key), Claimed>>>,
}

/// What is needed to settle a claimed message.
#[derive(Clone, Copy)]
struct Claimed {
    uid: Uid,
    fence: Fence,
    attempts: u32,
    /// The lease ends here unless it was extended elsewhere.
    until: Timestamp,
    /// Remembered only so that the same settlement again gets the same answer.
    settled: bool,
}

impl WorkQueue {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, claims: Arc::default() }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<(Owner, Key), Claimed>> {
        // Nothing here can panic halfway: what is found is whole.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner that nobody else has; a worker keeps one for its lifetime.
    pub fn new_owner(&self) -> Owner {
        self.shared.owner()
    }

    /// Leases up to `batch` messages that are ready, of any topic. *Repeat:* claims others; what a lost answer held comes again
    /// when its lease has ended.
    pub async fn claim(&self, owner: Owner, lease: Duration, batch: u32) -> Result<Vec<Delivery>, Error> {
        let claim = Claim::new(Namespace::Inbox, owner, Span::lease(lease)?, Batch::new(batch)?);
        self.make_room(batch)?;
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

    /// Forgets claims that were settled, then those whose leases have long ended, should there be too many.
    fn make_room(&self, batch: u32) -> Result<(), Error> {
        let mut claims = self.claims();
        if claims.len() + batch as usize > CLAIMS_MAX {
            claims.retain(|_, claimed| !claimed.settled);
        }
        if claims.len() + batch as usize > CLAIMS_MAX {
            // By a clock that may be ahead of the store's.
            let now = self.shared.clock.now();
            claims.retain(|_, claimed| claimed.until.after(CLOCKS_APART_MAX) > now);
        }
        if claims.len() + batch as usize > CLAIMS_MAX {
            let text = format!("more than {CLAIMS_MAX} messages would be claimed at once: settle some first");
            return Err(Error::new(Kind::Invalid, text));
        }
        Ok(())
    }

    /// Handled: the messages become Done.
    pub async fn ack(&self, owner: Owner, keys: &[Key]) -> Result<Vec<Settled>, Error> {
        self.settle(owner, keys, |_| Verdict::Ack).await
    }

    /// Failed for now: an attempt is spent, and they come again after `delay`, or after 2, 4, 8 … 60 s if none is given.
    /// A delay of zero is refused (IBX-058). A blank error is none.
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
            let usual = || self.shared.delay(&Backoff::INBOX, claimed.attempts);
            Verdict::Abandon { delay: delay.unwrap_or_else(usual), error: error.clone() }
        })
        .await
    }

    /// Failed for good: the messages become Dead.
    pub async fn fail(&self, owner: Owner, keys: &[Key], error: &str) -> Result<Vec<Settled>, Error> {
        let error = LastError::new(error);
        let reason = oncebox_core::DeadReason::Failed;
        self.settle(owner, keys, |_| Verdict::Fail { reason, error: error.clone() }).await
    }

    /// Not tried: they are ready at once, and no attempt is spent.
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
        Ok(spread(&held, &mut settled, Settled::LeaseLost))
    }

    /// Moves the end of the leases to `lease` from now.
    pub async fn extend(&self, owner: Owner, keys: &[Key], lease: Duration) -> Result<Vec<Extended>, Error> {
        let lease = Span::lease(lease)?;
        let held: Vec<_> = keys.iter().map(|key| self.held(owner, key)).collect();
        let extension = |&Claimed { uid, fence, .. }: &Claimed| Extension { uid, owner, fence, lease };
        let extensions: Vec<_> = held.iter().flatten().map(extension).collect();
        let extended = self.shared.store.extend(&extensions).await?;
        let extended = spread(&held, &mut extended.into_iter(), Extended::LeaseLost);
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

    /// Ends leases that have lapsed, and gives back how many; a bounded piece, so call it until it answers 0 (IBX-068).
    ///
    /// Workers and [`crate::Upkeep`] do this by themselves, and no lapsed lease counts as current in the meantime.
    pub async fn reap(&self) -> Result<u64, Error> {
        let upkept = self.shared.store.upkeep(Budget::new(REAP_ITEMS_MAX)).await?;
        if upkept.lapsed > 0 {
            info!(store = %self.shared.name, reaped = upkept.lapsed, "reaped");
        }
        Ok(upkept.lapsed)
    }

    /// Everything that is known about a message.
    pub async fn get(&self, key: &Key) -> Result<Option<Snapshot>, Error> {
        self.shared.store.get_one(&Ref::Key(key.clone())).await
    }
}

/// One outcome per key: the store's for those that were held, `missing` for the others.
fn spread<T: Copy>(held: &[Option<Claimed>], outcomes: &mut impl Iterator<Item = T>, missing: T) -> Vec<T> {
    let outcome = |held: &Option<Claimed>| held.and_then(|_| outcomes.next()).unwrap_or(missing);
    held.iter().map(outcome).collect()
}
