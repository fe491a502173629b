//! Messages: their content, the policies they are accepted under, and everything that can be read about them later.

mod lease;
mod policy;
mod seal;
mod snapshot;
mod state;
mod verdict;

use std::num::NonZeroU32;

use crate::annotation::{Attributes, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Shard, Uid};
use crate::key::{Key, Namespace};
use crate::payload::Payload;
use crate::text::{Partition, Topic};
use crate::time::Timestamp;

pub use lease::{Grant, GrantEnd, Lease};
pub use policy::{Divergence, Hold, Keep, Policy};
pub use seal::Seal;
pub use snapshot::{MessageSummary, Snapshot};
pub use state::{DeadReason, MessageState};
pub use verdict::{Settled, Verdict, VerdictKind};

/// The content that a handler receives. Generic over the payload handle: only sender and handler read a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content<P = Payload> {
    /// Selects the handler.
    pub topic: Topic,
    /// The shard of the topic; topic and shard form the lane in which order is kept.
    pub shard: Shard,
    /// Messages of one namespace with the same partition are processed one at a time, in order.
    pub partition: Option<Partition>,
    /// The bytes, or a handle to them.
    pub payload: P,
    /// Names and values that accompany the payload.
    pub attributes: Attributes,
    /// Not claimable before this moment, as the sender requested.
    pub due: Option<Timestamp>,
    /// Dead with reason `expired` from this moment on, unless it is leased or finished; set by the sender.
    /// [`Timestamp::NEVER`] means no expiry.
    pub expires: Option<Timestamp>,
    /// The sender's seal, for the receiver to verify. A store keeps it and never interprets it.
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
    /// The uid of the message if its key is new; none lets the store generate one.
    pub uid: Option<Uid>,
    /// The key that identifies duplicates.
    pub key: Key,
    /// The content that its handler receives.
    pub content: Content<P>,
    /// Oncebox's own hash of the content, computed by [`NewMessage::new`]: two messages with the same key and
    /// fingerprint are duplicates. To change topic or payload, build a new message.
    pub fingerprint: Fingerprint,
    /// A hash that the caller computed.
    pub hash: Option<CallerHash>,
    /// The ids of what caused it.
    pub trace: Trace,
    /// The rules that apply to it, stored with it.
    pub policy: Policy,
    /// Refuses a new message if its lane, the shard of its topic, already has this many unfinished messages. Not
    /// stored.
    pub lane_max: Option<NonZeroU32>,
}

impl NewMessage {
    /// A message that is ready at once, under the default policy of its namespace.
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
