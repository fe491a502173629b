//! The ledger: records which keys were processed, and leases keys while they are being processed.

mod key;

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, Begin, Error, ErrorKind, Fingerprint, Hold, Invalid, Keep, Key, MessageRef, MessageState,
    Namespace, Operated, Order, Owner, Policy, Settled, Source, Span, StoreExt, Timestamp, Verdict,
};
use tracing::debug;

use crate::shared::{Oncebox, Shared};

pub use crate::lease_token::LeaseToken;
pub use key::{Consumer, KeyPart, LedgerKeys};

/// Minimum length of a lease.
pub const LEASE_MIN: Duration = Duration::from_secs(30);
/// Maximum length of a lease.
pub const LEASE_MAX: Duration = Duration::from_secs(120);
/// Minimum retention of processed keys.
pub const KEEP_MIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum retention of processed keys.
pub const KEEP_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Records which keys were processed. Cheap to clone.
///
/// There are two ways to use it. The simple way checks before processing and marks afterwards:
/// [`Ledger::is_processed`], [`Ledger::mark_processed`]. The safe way leases the key first, so that two consumers never
/// process one key at the same time: [`Ledger::try_begin`], then [`Ledger::finish`] or [`Ledger::release`].
///
/// ```
/// use oncebox::Oncebox;
/// use oncebox::ledger::{BeginOutcome, FinishOutcome};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// let ledger = Oncebox::open("memory:").await?.ledger();
/// let BeginOutcome::Acquired { lease, .. } = ledger.try_begin("order-17", None, None).await? else { return Ok(()) };
/// assert!(matches!(ledger.try_begin("order-17", None, None).await?, BeginOutcome::Busy { .. }));
/// // … process it …
/// assert_eq!(ledger.finish("order-17", &lease).await?, FinishOutcome::Processed);
/// assert!(ledger.is_processed("order-17").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

/// The outcome of [`Ledger::try_begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeginOutcome {
    /// The key is leased to the caller: process it, then finish or release it.
    Acquired {
        /// The lease, to finish or release the key with.
        lease: LeaseToken,
        /// When the lease ends.
        expires_at: Timestamp,
    },
    /// The key was processed before: skip it.
    Processed,
    /// Another call holds a lease on the key.
    Busy {
        /// When that lease ends.
        expires_at: Timestamp,
    },
}

/// The outcome of [`Ledger::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishOutcome {
    /// The key is now recorded as processed.
    Processed,
    /// The lease has ended or belongs to another key; nothing changed.
    LeaseLost,
}

/// The outcome of [`Ledger::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// The key is free and can be leased again at once.
    Released,
    /// The lease has ended or belongs to another key; nothing changed.
    LeaseLost,
}

/// The status of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyStatus {
    /// The key was never seen, or its retention has ended.
    Unknown,
    /// The key was seen; it is neither leased nor processed.
    Pending,
    /// A consumer holds a lease on the key.
    Busy,
    /// The key was processed.
    Processed,
}

/// The record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyRecord {
    /// The status of the key.
    pub status: KeyStatus,
    /// How often the key was leased.
    pub attempts: u32,
    /// When the key was first seen.
    pub first_seen: Option<Timestamp>,
    /// When the key was last seen.
    pub last_seen: Option<Timestamp>,
    /// When the current lease ends.
    pub lease_until: Option<Timestamp>,
}

impl Oncebox {
    /// The ledger of processed keys.
    pub fn ledger(&self) -> Ledger {
        Ledger(self.shared())
    }
}

impl Ledger {
    /// Whether the key was processed. Does not change the key.
    pub async fn is_processed(&self, key: &str) -> Result<bool, Error> {
        Ok(self.get(key).await?.status == KeyStatus::Processed)
    }

    /// Records the key as processed, even if another caller holds a lease on it. The key is kept for 7 days from now,
    /// or as long as the inbox is configured to; marking it again does not extend that. Fails with
    /// [`ErrorKind::Saturated`] if the store is full.
    pub async fn mark_processed(&self, key: &str) -> Result<(), Error> {
        let action = Action::MarkProcessed { hold: self.hold() };
        let order = Order { target: MessageRef::Key(ledger_key(key)?), action };
        match self.0.store.operate_one(&order).await? {
            Operated::Saturated { retry_after, bound } => Err(Error::saturated(retry_after, bound)),
            _ => Ok(()),
        }
    }

    /// Leases the key, unless it was processed or is leased. A lease of the same owner counts too: its first attempt
    /// may still be running.
    ///
    /// The lease lasts 30 s by default; other lengths are clamped to between 30 s and 120 s, and the outcome contains
    /// the actual end. `owner` identifies the caller to operators who inspect the store. Fails with
    /// [`ErrorKind::Saturated`] if the store is full.
    pub async fn try_begin(
        &self,
        key: &str,
        owner: Option<&str>,
        lease: Option<Duration>,
    ) -> Result<BeginOutcome, Error> {
        let lease = Span::lease(lease.unwrap_or(LEASE_MIN).clamp(LEASE_MIN, LEASE_MAX))?;
        let owner = owner.map_or_else(|| Ok(self.0.owner()), owner_of)?;
        let begin = Begin { key: ledger_key(key)?, owner, lease, hold: self.hold() };
        let outcome = match self.0.store.begin(&[begin]).await?.pop() {
            Some(oncebox_core::Begun::Acquired { uid, lease }) => {
                let expires_at = lease.until;
                BeginOutcome::Acquired { lease: LeaseToken { uid, owner, fence: lease.fence }, expires_at }
            }
            Some(oncebox_core::Begun::Processed(_)) => BeginOutcome::Processed,
            Some(oncebox_core::Begun::Busy { until }) => BeginOutcome::Busy { expires_at: until },
            Some(oncebox_core::Begun::Saturated { retry_after, bound }) => {
                return Err(Error::saturated(retry_after, bound));
            }
            // This API never creates messages with content or messages that can become Dead in this namespace.
            _ => return Err(Error::new(ErrorKind::Invalid, "the key does not belong to the ledger")),
        };
        debug!(store = %self.0.name, ?owner, acquired = matches!(outcome, BeginOutcome::Acquired { .. }), "began");
        Ok(outcome)
    }

    /// Records the key as processed, if the lease is current. *Repeat:* returns the same outcome.
    pub async fn finish(&self, key: &str, lease: &LeaseToken) -> Result<FinishOutcome, Error> {
        Ok(match self.settle(key, lease, Verdict::Ack).await? {
            Settled::Done => FinishOutcome::Processed,
            _ => FinishOutcome::LeaseLost,
        })
    }

    /// Releases the key unprocessed, if the lease is current: it can be leased again at once. *Repeat:* returns the
    /// same outcome.
    pub async fn release(&self, key: &str, lease: &LeaseToken) -> Result<ReleaseOutcome, Error> {
        Ok(match self.settle(key, lease, Verdict::Release).await? {
            Settled::Released => ReleaseOutcome::Released,
            _ => ReleaseOutcome::LeaseLost,
        })
    }

    async fn settle(&self, key: &str, lease: &LeaseToken, verdict: Verdict) -> Result<Settled, Error> {
        let key = ledger_key(key)?;
        // A lease on another key must not settle this key.
        let found = self.0.store.get_one(&MessageRef::Uid(lease.uid)).await?;
        if found.is_none_or(|found| found.key != key) {
            return Ok(Settled::LeaseLost);
        }
        let settled = self.0.store.settle(&[lease.settle(verdict)]).await?;
        Ok(settled.first().copied().unwrap_or(Settled::LeaseLost))
    }

    /// The record of a key. Does not change the key.
    pub async fn get(&self, key: &str) -> Result<KeyRecord, Error> {
        let found = self.0.store.get_one(&MessageRef::Key(ledger_key(key)?)).await?;
        let Some(found) = found else {
            let (attempts, first_seen, last_seen, lease_until) = (0, None, None, None);
            return Ok(KeyRecord {
                status: KeyStatus::Unknown,
                attempts,
                first_seen,
                last_seen,
                lease_until,
            });
        };
        let lease_until = found.lease().map(|lease| lease.until);
        let status = match (found.state, lease_until) {
            (MessageState::Done, _) => KeyStatus::Processed,
            (_, Some(_)) => KeyStatus::Busy,
            (_, None) => KeyStatus::Pending,
        };
        let (first_seen, last_seen) = (Some(found.accepted_at), Some(found.last_seen_at));
        Ok(KeyRecord { status, attempts: found.deliveries, first_seen, last_seen, lease_until })
    }

    fn hold(&self) -> Hold {
        Hold { keep: Keep::After(self.0.settings.ledger_keep), ..Policy::LEDGER.hold }
    }
}

fn ledger_key(key: &str) -> Result<Key, Invalid> {
    if key.trim().is_empty() {
        return Err(Invalid::new("key", "is blank: pass the key of the processed message"));
    }
    let source = Source::new("ledger").expect("a short text");
    Ok(Key::new(Namespace::Ledger, source, oncebox_core::Id::new(key)?))
}

/// Derives the owner from a name: the same name gives the same owner.
fn owner_of(name: &str) -> Result<Owner, Invalid> {
    let hash = Fingerprint::of_bytes(name.as_bytes());
    let (first, _) = hash.as_bytes().split_first_chunk::<16>().expect("a hash has 32 bytes");
    Owner::new(u128::from_be_bytes(*first) | 1)
}
