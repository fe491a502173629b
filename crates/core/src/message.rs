//! The message: its content, the policies it is accepted under, and everything that can be read about it later.

mod policy;
mod seal;
mod snapshot;

use std::num::NonZeroU32;

use crate::annotation::{Attributes, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Shard, Uid};
use crate::key::{Key, Namespace};
use crate::payload::Payload;
use crate::text::{Partition, Topic};
use crate::time::Timestamp;

pub use policy::{Divergence, Hold, Keep, Policy};
pub use seal::Seal;
pub use snapshot::{DeadReason, Grant, GrantEnd, Lease, Snapshot, State};

/// What a handler gets to see. Generic over the payload handle: only sender and handler look into a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<P = Payload> {
    /// Chooses the handler.
    pub topic: Topic,
    /// The slice of the topic; with the topic it makes the lane in which order is kept.
    pub shard: Shard,
    /// Messages of one namespace with the same partition run one at a time, in order.
    pub partition: Option<Partition>,
    /// The bytes, or a handle to them.
    pub payload: P,
    /// Names and values beside the payload.
    pub attributes: Attributes,
    /// Not claimable before this moment of the sender's.
    pub due: Option<Timestamp>,
    /// Dead with reason `expired` from this moment of the sender's on, unless it is leased or finished. [`Timestamp::NEVER`] is none.
    pub expires: Option<Timestamp>,
    /// What the sender froze about it, for the receiver to check. A store keeps it and never looks into it.
    pub seal: Option<Seal>,
}

impl<P> Content<P> {
    /// The same content with another payload handle.
    pub fn with_payload<Q>(self, payload: impl FnOnce(P) -> Q) -> Content<Q> {
        Content {
            topic: self.topic,
            shard: self.shard,
            partition: self.partition,
            payload: payload(self.payload),
            attributes: self.attributes,
            due: self.due,
            expires: self.expires,
            seal: self.seal,
        }
    }
}

/// A message to be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage<P = Payload> {
    /// The uid it shall have if its key is new; drawn by the store if none is given.
    pub uid: Option<Uid>,
    /// What it is known by.
    pub key: Key,
    /// What its handler gets.
    pub content: Content<P>,
    /// Our hash of the content, made by [`NewMessage::new`]: two messages with one key and one fingerprint are the same. Make
    /// a new message rather than exchange topic or payload.
    pub fingerprint: Fingerprint,
    /// A hash of the caller's own.
    pub hash: Option<CallerHash>,
    /// What caused it.
    pub trace: Trace,
    /// The rules it lives under, stored with it.
    pub policy: Policy,
    /// Refused if it is new and its lane, the slice of its topic, has so many unfinished messages already. Not stored.
    pub lane_max: Option<NonZeroU32>,
}

impl NewMessage {
    /// A message ready at once, under its namespace's usual policy.
    pub fn new(key: Key, topic: Topic, payload: Payload) -> Self {
        let fingerprint = match key.namespace {
            Namespace::Mailbox => Fingerprint::of_bytes(payload.as_bytes()),
            Namespace::Inbox | Namespace::Commands | Namespace::Ledger => Fingerprint::of(&topic, &payload),
        };
        let policy = Policy::of(key.namespace);
        let content = Content {
            topic,
            shard: Shard::default(),
            partition: None,
            payload,
            attributes: Attributes::default(),
            due: None,
            expires: None,
            seal: None,
        };
        Self {
            uid: None,
            key,
            content,
            fingerprint,
            hash: None,
            trace: Trace::default(),
            policy,
            lane_max: None,
        }
    }
}

impl<P> NewMessage<P> {
    /// The same message with another payload handle.
    pub fn with_payload<Q>(self, payload: impl FnOnce(P) -> Q) -> NewMessage<Q> {
        NewMessage {
            uid: self.uid,
            key: self.key,
            content: self.content.with_payload(payload),
            fingerprint: self.fingerprint,
            hash: self.hash,
            trace: self.trace,
            policy: self.policy,
            lane_max: self.lane_max,
        }
    }
}
