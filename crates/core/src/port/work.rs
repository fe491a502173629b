//! Workers' calls: claims, deliveries, settlements, extensions.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::annotation::{LastError, Trace};
use crate::error::Invalid;
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Fence, Number, Owner, RequestId, Uid};
use crate::key::{Key, Namespace};
use crate::limits::{CLAIM_MESSAGES_MAX, CLAIM_TOPICS_MAX};
use crate::message::{Content, DeadReason, Lease, Settled, Verdict};
use crate::payload::Payload;
use crate::text::Topic;
use crate::time::{Span, Timestamp};
use crate::worker::WorkerName;

/// The topics that a worker claims: all, or 1 to [`CLAIM_TOPICS_MAX`] named ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Topics(Option<Arc<[Topic]>>);

impl Topics {
    /// Every topic.
    pub const ALL: Self = Self(None);

    /// These topics; duplicates are ignored.
    pub fn only(topics: impl IntoIterator<Item = Topic>) -> Result<Self, Invalid> {
        let mut topics: Vec<_> = topics.into_iter().collect();
        topics.sort();
        topics.dedup();
        if topics.is_empty() {
            return Err(Invalid::new("topics", "is empty: name at least one, or use Topics::ALL"));
        }
        if topics.len() > CLAIM_TOPICS_MAX {
            return Err(Invalid::too_many("topics", CLAIM_TOPICS_MAX, topics.len()));
        }
        Ok(Self(Some(topics.into())))
    }

    /// The named topics, sorted; none if all topics are claimed.
    pub fn named(&self) -> Option<&[Topic]> {
        self.0.as_deref()
    }

    /// Whether `topic` is among them.
    pub fn contains(&self, topic: &Topic) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.binary_search(topic).is_ok())
    }
}

/// The maximum number of messages of one claim: 1 to [`CLAIM_MESSAGES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch(NonZeroU32);

impl Batch {
    /// One message.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// Accepts 1 to [`CLAIM_MESSAGES_MAX`] (IBX-041).
    pub fn new(messages: u32) -> Result<Self, Invalid> {
        let messages =
            NonZeroU32::new(messages).ok_or(Invalid::new("batch size", "must be greater than zero"))?;
        if messages.get() > CLAIM_MESSAGES_MAX {
            let (limit, given) = (CLAIM_MESSAGES_MAX as usize, messages.get() as usize);
            return Err(Invalid::too_many("batch", limit, given));
        }
        Ok(Self(messages))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// A request to lease messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The namespace to claim from.
    pub namespace: Namespace,
    /// The topics to claim from.
    pub topics: Topics,
    /// The topics that the caller requested, if a layer claims fewer of them. They identify the request instead of
    /// `topics`, so that a repeat gets the same deliveries whatever the layer leaves out by then.
    pub requested_topics: Option<Topics>,
    /// The worker that will hold the leases.
    pub owner: Owner,
    /// The duration of the leases.
    pub lease: Span,
    /// The maximum number of messages.
    pub batch: Batch,
    /// The maximum number of payload bytes; the first message is delivered whatever its size.
    pub bytes_max: Option<u64>,
    /// The maximum number of leased messages in the namespace, for all owners together: the claim delivers no more than
    /// this limit leaves.
    pub in_flight_max: Option<u64>,
    /// The maximum number of attempts of the delivered messages whose senders set no limit. It is stored with the
    /// lease, so that it also applies if the lease lapses. None applies the limit of the namespace.
    pub attempts_max: Option<NonZeroU32>,
    /// The name of the claiming worker, for display. It is stored with the lease and stays with the newest lease after
    /// its end. A repeat of the claim does not change it.
    pub worker: Option<WorkerName>,
    /// Makes a repeat of this claim safe: the same request for the same work returns the same deliveries while their
    /// leases last.
    pub request: Option<RequestId>,
}

impl Claim {
    /// A claim of any topic, without limits, worker name and request id.
    pub fn new(namespace: Namespace, owner: Owner, lease: Span, batch: Batch) -> Self {
        Self {
            namespace,
            topics: Topics::ALL,
            requested_topics: None,
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

    /// Identifies repeats of this claim: a hash over its request id and what it asks for (namespace, topics, batch,
    /// bytes and lease), so that reusing a request id for other work makes a different request. Stores keep this hash
    /// in place of the request id, which therefore never leaves the claim in clear. None if the claim has no request
    /// id.
    pub fn request_identity(&self) -> Option<RequestId> {
        let request = self.request?;
        let topics = self.requested_topics.as_ref().unwrap_or(&self.topics);
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"oncebox claim 1");
        hasher.update(&request.as_u128().to_le_bytes());
        hasher.update(&[self.namespace as u8, u8::from(topics.named().is_some())]);
        for topic in topics.named().unwrap_or_default() {
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

/// A message that is leased to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery<P = Payload> {
    /// The identity of the message.
    pub uid: Uid,
    /// Its position in its lane.
    pub number: Number,
    /// Its key.
    pub key: Key,
    /// The content to process.
    pub content: Content<P>,
    /// Oncebox's own hash of the content.
    pub fingerprint: Fingerprint,
    /// The caller's hash.
    pub hash: Option<CallerHash>,
    /// The ids of what caused it.
    pub trace: Trace,
    /// When its key was first accepted or observed.
    pub accepted_at: Timestamp,
    /// When its key was last accepted or observed.
    pub last_seen_at: Timestamp,
    /// Failed deliveries before this one.
    pub attempts: u32,
    /// The number of this delivery, from 1.
    pub deliveries: u32,
    /// The error of the last failed delivery.
    pub last_error: Option<LastError>,
    /// The lease to settle it with.
    pub lease: Lease,
}

impl<P> Delivery<P> {
    /// A settlement of this delivery.
    pub fn settle(&self, verdict: Verdict) -> Settlement {
        Settlement { uid: self.uid, owner: self.lease.owner, fence: self.lease.fence, verdict }
    }

    /// Processed: the message becomes Done.
    pub fn ack(&self) -> Settlement {
        self.settle(Verdict::Ack)
    }

    /// Failed temporarily: spends an attempt, and the message is redelivered after `delay`.
    pub fn abandon(&self, delay: Span, error: Option<LastError>) -> Settlement {
        self.settle(Verdict::Abandon { delay, error })
    }

    /// Failed permanently: the message becomes Dead.
    pub fn fail(&self, error: Option<LastError>) -> Settlement {
        self.settle(Verdict::Fail { reason: DeadReason::Failed, error })
    }

    /// Not attempted: the message is ready again at once, and no attempt is spent.
    pub fn release(&self) -> Settlement {
        self.settle(Verdict::Release)
    }

    /// An extension of the lease.
    pub fn extend(&self, lease: Span) -> Extension {
        Extension { uid: self.uid, owner: self.lease.owner, fence: self.lease.fence, lease }
    }
}

/// A verdict on a leased message. Owner and fence are mandatory: a late worker must not overwrite the work of the next
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The message.
    pub uid: Uid,
    /// The owner of the lease.
    pub owner: Owner,
    /// The fence of the lease.
    pub fence: Fence,
    /// The result.
    pub verdict: Verdict,
}

/// The outcome of one `work` call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Worked {
    /// One outcome per settlement, in order.
    pub settled: Vec<Settled>,
    /// One list of deliveries per claim, in order.
    pub deliveries: Vec<Vec<Delivery>>,
}

/// A request to extend a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// The message.
    pub uid: Uid,
    /// The owner of the lease.
    pub owner: Owner,
    /// The fence of the lease.
    pub fence: Fence,
    /// The new duration, from now.
    pub lease: Span,
}

/// The outcome of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// The lease is current before this moment.
    Until(Timestamp),
    /// The lease is not current, or never existed; nothing changed.
    LeaseLost,
    /// Another transaction has locked the lease, perhaps to end it: nothing changed, and the lease ends when it would
    /// have. Repeat the call.
    Locked,
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
