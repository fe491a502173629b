//! The ledger: "was this key processed?", and leases on keys that are being processed.

mod key;

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, Begin, Error, Fingerprint, Hold, Invalid, Keep, Key, Kind, Namespace, Operated, Order, Owner,
    Policy, Ref, Settled, Source, Span, State, StoreExt, Timestamp, Verdict,
};
use tracing::debug;

use crate::shared::Shared;

pub use crate::lease_token::LeaseToken;
pub use key::{Consumer, KeyPart, LedgerKeys};

/// The shortest lease that is given.
pub const LEASE_MIN: Duration = Duration::from_secs(30);
/// The longest lease that is given.
pub const LEASE_MAX: Duration = Duration::from_secs(120);
/// For how long processed keys are kept: at least.
pub const KEEP_MIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// For how long processed keys are kept: at most.
pub const KEEP_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The keys that were processed.
///
/// Two ways to use it. The short one asks before and marks after: [`Ledger::is_processed`], [`Ledger::mark_processed`].
/// The safe one takes a lease before, so that two consumers never process one key at once: [`Ledger::try_begin`], then
/// [`Ledger::finish`] or [`Ledger::release`].
///
/// ```
/// use oncebox::Oncebox;
/// use oncebox::ledger::{Begun, Finished};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// let ledger = Oncebox::open("memory:").await?.ledger();
/// let Begun::Acquired { lease, .. } = ledger.try_begin("order-17", None, None).await? else { return Ok(()) };
/// assert!(matches!(ledger.try_begin("order-17", None, None).await?, Begun::Busy { .. }));
/// // … process it …
/// assert_eq!(ledger.finish("order-17", &lease).await?, Finished::Processed);
/// assert!(ledger.is_processed("order-17").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

/// The outcome of [`Ledger::try_begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Begun {
    /// The key is leased: process it, then finish or release.
    Acquired {
        /// What to finish or release with.
        lease: LeaseToken,
        /// When the lease ends.
        expires_at: Timestamp,
    },
    /// It was processed before: skip it.
    Processed,
    /// Somebody processes it.
    Busy {
        /// When their lease ends.
        expires_at: Timestamp,
    },
}

/// The outcome of [`Ledger::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finished {
    /// The key is processed.
    Processed,
    /// The lease has ended, or is another key's; nothing changed.
    LeaseLost,
}

/// The outcome of [`Ledger::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The key can be begun again at once.
    Released,
    /// The lease has ended, or is another key's; nothing changed.
    LeaseLost,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It never came, or was forgotten.
    Unknown,
    /// It came, and nobody processes it.
    Pending,
    /// Somebody processes it.
    Busy,
    /// It was processed.
    Processed,
}

/// What is known about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Where it stands.
    pub status: Status,
    /// How often it was begun.
    pub attempts: u32,
    /// When it came first.
    pub first_seen: Option<Timestamp>,
    /// When it came last.
    pub last_seen: Option<Timestamp>,
    /// When the present lease ends.
    pub lease_until: Option<Timestamp>,
}

impl Ledger {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Whether the key was processed. Records nothing.
    pub async fn is_processed(&self, key: &str) -> Result<bool, Error> {
        Ok(self.get(key).await?.status == Status::Processed)
    }

    /// The key is processed, whoever holds it. It is kept for 7 days from now, or what the inbox is set to; marking it again
    /// does not prolong that.
    pub async fn mark_processed(&self, key: &str) -> Result<(), Error> {
        let action = Action::MarkProcessed { hold: self.hold() };
        let order = Order { target: Ref::Key(ledger_key(key)?), action };
        match self.0.store.operate_one(&order).await? {
            Operated::Saturated { retry_after, bound } => Err(Error::saturated(retry_after, bound)),
            _ => Ok(()),
        }
    }

    /// Takes a lease on the key, unless it was processed or somebody has one: also the same owner, whose first try may
    /// still run.
    ///
    /// The lease lasts 30 s if none is given, and 30 to 120 s whatever is given: the answer tells. `owner` is for those
    /// who look at the store.
    pub async fn try_begin(
        &self,
        key: &str,
        owner: Option<&str>,
        lease: Option<Duration>,
    ) -> Result<Begun, Error> {
        let lease = Span::lease(lease.unwrap_or(LEASE_MIN).clamp(LEASE_MIN, LEASE_MAX))?;
        let owner = owner.map_or_else(|| Ok(self.0.owner()), owner_of)?;
        let wish = Begin { key: ledger_key(key)?, owner, lease, hold: self.hold() };
        let begun = match self.0.store.begin(&[wish]).await?.pop() {
            Some(oncebox_core::Begun::Acquired { uid, lease }) => {
                let expires_at = lease.until;
                Begun::Acquired { lease: LeaseToken { uid, owner, fence: lease.fence }, expires_at }
            }
            Some(oncebox_core::Begun::Processed(_)) => Begun::Processed,
            Some(oncebox_core::Begun::Busy { until }) => Begun::Busy { expires_at: until },
            Some(oncebox_core::Begun::Saturated { retry_after, bound }) => {
                return Err(Error::saturated(retry_after, bound));
            }
            // Nothing that has content or can die gets into this namespace through this door.
            _ => return Err(Error::new(Kind::Invalid, "the key is not one of the ledger's")),
        };
        debug!(store = %self.0.name, ?owner, acquired = matches!(begun, Begun::Acquired { .. }), "began");
        Ok(begun)
    }

    /// The key is processed, if the lease is current. *Repeat:* answers the same.
    pub async fn finish(&self, key: &str, lease: &LeaseToken) -> Result<Finished, Error> {
        Ok(match self.settle(key, lease, Verdict::Ack).await? {
            Settled::Done => Finished::Processed,
            _ => Finished::LeaseLost,
        })
    }

    /// The key was not processed and can be begun again at once, if the lease is current. *Repeat:* answers the same.
    pub async fn release(&self, key: &str, lease: &LeaseToken) -> Result<Released, Error> {
        Ok(match self.settle(key, lease, Verdict::Release).await? {
            Settled::Released => Released::Released,
            _ => Released::LeaseLost,
        })
    }

    async fn settle(&self, key: &str, lease: &LeaseToken, verdict: Verdict) -> Result<Settled, Error> {
        let key = ledger_key(key)?;
        // A lease of another key must not settle this one.
        let found = self.0.store.get_one(&Ref::Uid(lease.uid)).await?;
        if found.is_none_or(|found| found.key != key) {
            return Ok(Settled::LeaseLost);
        }
        let settled = self.0.store.settle(&[lease.settle(verdict)]).await?;
        Ok(settled.first().copied().unwrap_or(Settled::LeaseLost))
    }

    /// What is known about a key. Records nothing.
    pub async fn get(&self, key: &str) -> Result<Entry, Error> {
        let found = self.0.store.get_one(&Ref::Key(ledger_key(key)?)).await?;
        let Some(found) = found else {
            let (attempts, first_seen, last_seen, lease_until) = (0, None, None, None);
            return Ok(Entry { status: Status::Unknown, attempts, first_seen, last_seen, lease_until });
        };
        let lease_until = found.lease().map(|lease| lease.until);
        let status = match (found.state, lease_until) {
            (State::Done, _) => Status::Processed,
            (_, Some(_)) => Status::Busy,
            (_, None) => Status::Pending,
        };
        let (first_seen, last_seen) = (Some(found.accepted_at), Some(found.last_seen_at));
        Ok(Entry { status, attempts: found.deliveries, first_seen, last_seen, lease_until })
    }

    fn hold(&self) -> Hold {
        Hold { keep: Keep::After(self.0.settings.ledger_keep), ..Policy::LEDGER.hold }
    }
}

fn ledger_key(key: &str) -> Result<Key, Invalid> {
    if key.trim().is_empty() {
        return Err(Invalid::new("key", "is blank: give the key of what is processed"));
    }
    let source = Source::new("ledger").expect("a short text");
    Ok(Key::new(Namespace::Ledger, source, oncebox_core::Id::new(key)?))
}

/// The owner that a name stands for: the same name, the same owner.
fn owner_of(name: &str) -> Result<Owner, Invalid> {
    let hash = Fingerprint::of_bytes(name.as_bytes());
    let (first, _) = hash.as_bytes().split_first_chunk::<16>().expect("a hash has 32 bytes");
    Owner::new(u128::from_be_bytes(*first) | 1)
}
