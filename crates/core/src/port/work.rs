//! Working: claims, deliveries, settlements, extensions.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::annotation::{LastError, Trace};
use crate::error::Invalid;
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Fence, Number, Owner, RequestId, Uid};
use crate::key::{Key, Namespace};
use crate::limits::{CLAIM_MESSAGES_MAX, CLAIM_TOPICS_MAX};
use crate::message::{Content, DeadReason, Lease};
use crate::payload::Payload;
use crate::text::Topic;
use crate::time::{Span, Timestamp};
use crate::worker::WorkerName;

/// The topics that a worker takes: all, or 1 to [`CLAIM_TOPICS_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Topics(Option<Arc<[Topic]>>);

impl Topics {
    /// Every topic.
    pub const ALL: Self = Self(None);

    /// These topics; naming one twice is harmless.
    pub fn only(topics: impl IntoIterator<Item = Topic>) -> Result<Self, Invalid> {
        let mut topics: Vec<_> = topics.into_iter().collect();
        topics.sort();
        topics.dedup();
        if topics.is_empty() {
            return Err(Invalid::new("topics", "are none: name at least one, or take all"));
        }
        if topics.len() > CLAIM_TOPICS_MAX {
            return Err(Invalid::too_many("topics", CLAIM_TOPICS_MAX, topics.len()));
        }
        Ok(Self(Some(topics.into())))
    }

    /// The named topics, sorted; none if every topic is meant.
    pub fn named(&self) -> Option<&[Topic]> {
        self.0.as_deref()
    }

    /// Whether `topic` is among them.
    pub fn contains(&self, topic: &Topic) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.binary_search(topic).is_ok())
    }
}

/// How many messages one claim takes at most: 1 to [`CLAIM_MESSAGES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch(NonZeroU32);

impl Batch {
    /// One message.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// Takes a count (IBX-041).
    pub fn new(messages: u32) -> Result<Self, Invalid> {
        let messages =
            NonZeroU32::new(messages).ok_or(Invalid::new("batch size", "must be greater than zero"))?;
        if messages.get() > CLAIM_MESSAGES_MAX {
            let (limit, given) = (CLAIM_MESSAGES_MAX as usize, messages.get() as usize);
            return Err(Invalid::too_many("batch", limit, given));
        }
        Ok(Self(messages))
    }

    /// The count.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// A wish for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Where from.
    pub namespace: Namespace,
    /// Of which topics.
    pub topics: Topics,
    /// For whom.
    pub owner: Owner,
    /// Leased for how long.
    pub lease: Span,
    /// How many messages at most.
    pub batch: Batch,
    /// How many payload bytes at most; the first message is given whatever its size.
    pub bytes_max: Option<u64>,
    /// Takes no more than leaves so many messages of the namespace in flight, whoever holds them.
    pub in_flight_max: Option<u64>,
    /// How often the messages may be tried in all, for those whose senders named no limit: kept with the lease, so that a
    /// lease that ends by itself is judged by it too. None leaves it to the namespace.
    pub attempts_max: Option<NonZeroU32>,
    /// What the claimer calls itself, for people: kept with the lease, and with the newest lease after its end. A repeat of the
    /// claim does not change it.
    pub worker: Option<WorkerName>,
    /// Makes a repeat of this claim safe: the same request for the same work gets the same deliveries while their leases last.
    pub request: Option<RequestId>,
}

impl Claim {
    /// A claim of any topic, without limits, a worker's name and a request id.
    pub fn new(namespace: Namespace, owner: Owner, lease: Span, batch: Batch) -> Self {
        Self {
            namespace,
            topics: Topics::ALL,
            owner,
            lease,
            batch,
            bytes_max: None,
            in_flight_max: None,
            attempts_max: None,
            worker: None,
            request: None,
        }
    }

    /// What a repeat of this claim is known by: a hash over its request and what it asks for (namespace, topics, batch, bytes
    /// and lease), so that a request id that is used again for other work is another request. Stores keep this in place of the
    /// request, which therefore never leaves the claim in clear. None if the claim has no request.
    pub fn request_identity(&self) -> Option<RequestId> {
        let request = self.request?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"oncebox claim 1");
        hasher.update(&request.as_u128().to_le_bytes());
        hasher.update(&[self.namespace as u8, u8::from(self.topics.named().is_some())]);
        for topic in self.topics.named().unwrap_or_default() {
            hasher.update(&(topic.as_str().len() as u64).to_le_bytes());
            hasher.update(topic.as_str().as_bytes());
        }
        hasher.update(&self.batch.get().to_le_bytes());
        hasher.update(&self.bytes_max.unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(&self.lease.get().as_millis().to_le_bytes());
        let mut identity = [0; 16];
        hasher.finalize_xof().fill(&mut identity);
        Some(RequestId::from_u128(u128::from_le_bytes(identity)))
    }
}

/// A message in the hands of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P = Payload> {
    /// The identity of the message.
    pub uid: Uid,
    /// Its place in its lane.
    pub number: Number,
    /// What it is known by.
    pub key: Key,
    /// What is to be handled.
    pub content: Content<P>,
    /// Our hash of the content.
    pub fingerprint: Fingerprint,
    /// The caller's hash.
    pub hash: Option<CallerHash>,
    /// What caused it.
    pub trace: Trace,
    /// When its key came first.
    pub accepted_at: Timestamp,
    /// When its key came last.
    pub last_seen_at: Timestamp,
    /// Deliveries before this one that ended badly.
    pub attempts: u32,
    /// Which delivery this is, from 1.
    pub deliveries: u32,
    /// Why the last one failed.
    pub last_error: Option<LastError>,
    /// The right to settle it.
    pub lease: Lease,
}

impl<P> Delivery<P> {
    /// The settlement of this delivery.
    pub fn settle(&self, verdict: Verdict) -> Settlement {
        Settlement { uid: self.uid, owner: self.lease.owner, fence: self.lease.fence, verdict }
    }

    /// Handled: the message becomes Done.
    pub fn ack(&self) -> Settlement {
        self.settle(Verdict::Ack)
    }

    /// Failed for now: an attempt is spent, and it comes again after `delay`.
    pub fn abandon(&self, delay: Span, error: Option<LastError>) -> Settlement {
        self.settle(Verdict::Abandon { delay, error })
    }

    /// Failed for good: the message becomes Dead.
    pub fn fail(&self, error: Option<LastError>) -> Settlement {
        self.settle(Verdict::Fail { reason: DeadReason::Failed, error })
    }

    /// Not tried: it comes again at once, and no attempt is spent.
    pub fn release(&self) -> Settlement {
        self.settle(Verdict::Release)
    }

    /// Asks for more time.
    pub fn extend(&self, lease: Span) -> Extension {
        Extension { uid: self.uid, owner: self.lease.owner, fence: self.lease.fence, lease }
    }
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Handled: the message becomes Done.
    Ack,
    /// Failed for now: spends an attempt; Dead if that was the last one, or if it has expired (then none is spent).
    Abandon {
        /// Not claimable for so long.
        delay: Span,
        /// Why; the earlier error stays if none is given.
        error: Option<LastError>,
    },
    /// Failed for good: the message becomes Dead. Spends no attempt.
    Fail {
        /// The reason to record.
        reason: DeadReason,
        /// Why; the earlier error stays if none is given.
        error: Option<LastError>,
    },
    /// Not tried: ready at once, no attempt spent; Dead if it has expired. A key without content is just unleased.
    Release,
}

impl Verdict {
    /// Its kind.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Self::Ack => VerdictKind::Ack,
            Self::Abandon { .. } => VerdictKind::Abandon,
            Self::Fail { .. } => VerdictKind::Fail,
            Self::Release => VerdictKind::Release,
        }
    }
}

/// A [`Verdict`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum VerdictKind {
    /// [`Verdict::Ack`].
    Ack,
    /// [`Verdict::Abandon`].
    Abandon,
    /// [`Verdict::Fail`].
    Fail,
    /// [`Verdict::Release`].
    Release,
}

/// A verdict under a lease. Owner and fence are mandatory: a late worker must not overwrite the work of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The message.
    pub uid: Uid,
    /// Who settles.
    pub owner: Owner,
    /// Under which lease.
    pub fence: Fence,
    /// How it went.
    pub verdict: Verdict,
}

/// What a settlement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The message is Done.
    Done,
    /// The content was replaced under the lease: whatever the verdict (but for a release), the lease has ended, no
    /// attempt was spent, and the newer content is ready at once.
    Superseded,
    /// It comes again.
    Retrying {
        /// From this moment on.
        at: Timestamp,
    },
    /// It is ready, or an unleased key.
    Released,
    /// The message is Dead.
    Dead {
        /// Why.
        reason: DeadReason,
    },
    /// The lease is not current, or never was; nothing changed.
    LeaseLost,
}

/// What one call of `work` did: an outcome per settlement, a list of deliveries per claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Worked {
    /// One per settlement, in order.
    pub settled: Vec<Settled>,
    /// One list per claim, in order.
    pub deliveries: Vec<Vec<Delivery>>,
}

/// A wish for a longer lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// The message.
    pub uid: Uid,
    /// Who holds it.
    pub owner: Owner,
    /// Under which lease.
    pub fence: Fence,
    /// From now on for how long.
    pub lease: Span,
}

/// What became of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// It is current before this moment.
    Until(Timestamp),
    /// It is not current, or never was; nothing changed.
    LeaseLost,
}

#[cfg(test)]
mod tests {
    use super::{Batch, Topics};
    use crate::limits::{CLAIM_MESSAGES_MAX, CLAIM_TOPICS_MAX};
    use crate::text::Topic;

    /// Holds: IBX-041.
    #[test]
    fn a_batch_has_at_least_one_message_and_a_limit() {
        assert_eq!(Batch::new(0).unwrap_err().to_string(), "batch size must be greater than zero");
        assert_eq!(Batch::new(CLAIM_MESSAGES_MAX).unwrap().get(), CLAIM_MESSAGES_MAX);
        let error = Batch::new(CLAIM_MESSAGES_MAX + 1).unwrap_err();
        assert_eq!(error.to_string(), "batch has 10001 items, the limit is 10000: split it");
    }

    /// Holds: RULE-11.
    #[test]
    fn a_claim_names_up_to_64_topics_each_once() {
        let topics = |count: usize| Topics::only((0..count).map(|n| Topic::new(n.to_string()).unwrap()));
        assert!(topics(0).is_err());
        assert!(topics(CLAIM_TOPICS_MAX + 1).is_err());
        let named = topics(CLAIM_TOPICS_MAX).unwrap();
        assert!(named.contains(&Topic::new("7").unwrap()) && !named.contains(&Topic::new("64").unwrap()));
        assert!(Topics::ALL.contains(&Topic::new("64").unwrap()));
        let twice = Topics::only([Topic::new("a").unwrap(), Topic::new("a").unwrap()]).unwrap();
        assert_eq!(twice.named().map(<[_]>::len), Some(1));
    }
}
