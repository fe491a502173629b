//! Helpers for cases: small messages, claims, owners, durations; common steps; races.

mod race;
mod steps;

use std::error::Error;
use std::time::Duration;

use oncebox_core::{
    Batch, CallerHash, Claim, Delivery, Divergence, Hold, Id, Keep, Key, LastError, Lease, Namespace,
    NewMessage, Observation, Owner, Partition, Payload, Policy, Settlement, Shard, Source, Span, Timestamp,
    Topic, Topics, Trace, Uid, Verdict,
};

pub(crate) use race::race;

/// The result of a step of a case.
pub(crate) type Checked<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The lease of [`claim`] and of [`Fixture::begin`].
pub(crate) const LEASE: Duration = seconds(30);
/// The smallest step of store time.
pub(crate) const TICK: Duration = millis(1);

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 24 * 60 * 60)
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::new("test duration", duration).expect("tests use sensible durations")
}

pub(crate) fn owner(value: u128) -> Owner {
    Owner::new(value).expect("tests count owners from 1")
}

pub(crate) fn error(text: &str) -> Option<LastError> {
    LastError::new(text)
}

/// A key of the inbox, from the source `shop`.
pub(crate) fn key(id: &str) -> Key {
    key_in(Namespace::Inbox, "shop", id)
}

pub(crate) fn key_in(namespace: Namespace, source: &str, id: &str) -> Key {
    let source = Source::new(source).expect("tests use short sources");
    Key::new(namespace, source, Id::new(id).expect("tests use short ids"))
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).expect("tests use short topics")
}

/// A caller's hash of 32 equal bytes.
pub(crate) fn hash(algorithm: &str, byte: u8) -> CallerHash {
    CallerHash::new(algorithm, &[byte; 32]).expect("32 bytes are a hash")
}

/// An inbox message of topic `orders` with the payload `first`.
pub(crate) fn message(id: &str) -> NewMessage {
    message_for(key(id))
}

/// A command of `tenant`.
pub(crate) fn command(tenant: &str, id: &str) -> NewMessage {
    message_for(key_in(Namespace::Commands, tenant, id))
}

/// A message to the mailbox.
pub(crate) fn mail(id: &str) -> NewMessage {
    message_for(key_in(Namespace::Mailbox, "orders", id))
}

pub(crate) fn message_for(key: Key) -> NewMessage {
    NewMessage::new(key, topic("orders"), Payload::new("first").expect("five bytes are a payload"))
}

/// Changes one property of a message.
pub(crate) trait Draft: Sized {
    fn change(self, change: impl FnOnce(&mut NewMessage)) -> Self;

    /// Replaces topic and payload, with their fingerprint; everything else stays.
    fn content(self, topic: &str, payload: &[u8]) -> Self;

    fn payload(self, payload: impl AsRef<[u8]>) -> Self {
        self.content("orders", payload.as_ref())
    }

    fn topic(self, topic: &str) -> Self {
        self.content(topic, b"first")
    }

    fn uid(self, uid: u128) -> Self {
        self.change(|message| message.uid = Some(Uid::from_u128(uid)))
    }

    fn shard(self, shard: u16) -> Self {
        self.change(|message| message.content.shard = Shard(shard))
    }

    fn partition(self, name: &str) -> Self {
        let partition = Partition::new(name).expect("tests use short partitions");
        self.change(|message| message.content.partition = Some(partition))
    }

    fn due(self, due: Timestamp) -> Self {
        self.change(|message| message.content.due = Some(due))
    }

    fn expires(self, expires: Timestamp) -> Self {
        self.change(|message| message.content.expires = Some(expires))
    }

    fn hash(self, hash: CallerHash) -> Self {
        self.change(|message| message.hash = Some(hash))
    }

    fn correlation(self, id: &str) -> Self {
        let trace = Trace::default().with_correlation(id).expect("tests use short ids");
        self.change(|message| message.trace = trace)
    }

    fn attempts_max(self, attempts: u32) -> Self {
        self.change(|message| message.policy.attempts_max = attempts.try_into().ok())
    }

    fn hold(self, window: Duration, keep: Option<Duration>) -> Self {
        let keep = keep.map_or(Keep::Window, Keep::After);
        self.change(|message| message.policy.hold = Hold { window, keep })
    }

    fn divergence(self, divergence: Divergence) -> Self {
        self.change(|message| message.policy.divergence = divergence)
    }
}

impl Draft for NewMessage {
    fn change(mut self, change: impl FnOnce(&mut NewMessage)) -> Self {
        change(&mut self);
        self
    }

    fn content(mut self, name: &str, payload: &[u8]) -> Self {
        let payload = Payload::new(payload.to_vec()).expect("tests use small payloads");
        let fresh = Self::new(self.key.clone(), topic(name), payload);
        self.content.topic = fresh.content.topic;
        self.content.payload = fresh.content.payload;
        self.fingerprint = fresh.fingerprint;
        self
    }
}

/// A claim by the first owner on any topic of the inbox.
pub(crate) fn claim(batch: u32) -> Claim {
    claim_in(Namespace::Inbox, batch)
}

pub(crate) fn claim_in(namespace: Namespace, batch: u32) -> Claim {
    Claim::new(namespace, owner(1), span(LEASE), Batch::new(batch).expect("tests use sensible batches"))
}

/// A claim on these topics of the inbox.
pub(crate) fn claim_of(topics: &[&str], batch: u32) -> Claim {
    let topics = Topics::only(topics.iter().map(|name| topic(name))).expect("tests name a few topics");
    Claim { topics, ..claim(batch) }
}

/// An observation without a hash, with the hold of the inbox.
pub(crate) fn observation(key: Key) -> Observation {
    Observation { key, hash: None, hold: Policy::INBOX.hold }
}

pub(crate) fn settlement(uid: Uid, lease: &Lease, verdict: Verdict) -> Settlement {
    Settlement { uid, owner: lease.owner, fence: lease.fence, verdict }
}

/// The ids of deliveries, in order.
pub(crate) fn ids(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.key.id.as_str()).collect()
}
