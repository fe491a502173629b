//! Messages, as senders build them and handlers receive them.

mod convert;
mod moment;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncebox_core::{Error, ErrorKind, Timestamp};
use serde::Serialize;

pub use moment::Moment;
pub use oncebox_core::{
    Attributes, CallerHash, Content, DeadReason, Divergence, Fingerprint, Hold, Id, Invalid, Keep, Key,
    LastError, Lease, Namespace, Number, Omitted, Partition, Payload, Policy, Shard, Source, Topic, Trace,
    Uid,
};

/// A message: a topic, a source, an id that is unique within the source, and a payload.
///
/// Two messages with the same source and id are the same message, even if their topics differ. Invalid values are
/// reported when the message is enqueued. `Debug` output contains neither the payload nor the values of attributes.
///
/// ```
/// # use std::time::Duration;
/// use oncebox::Message;
///
/// let message = Message::new("invoice.due", "billing", "inv_17")
///     .text("remind them")
///     .partition("customer-4")
///     .attribute("region", "eu")
///     .due_in(Duration::from_secs(3_600));
/// assert_eq!(message.payload(), "remind them");
/// ```
#[derive(Clone)]
pub struct Message {
    topic: Arc<str>,
    source: Arc<str>,
    id: Arc<str>,
    payload: Bytes,
    attributes: Attributes,
    hash: Option<CallerHash>,
    trace: Trace,
    partition: Option<Arc<str>>,
    due: Option<Moment>,
    expires: Option<Moment>,
    /// The first invalid value.
    problem: Option<Invalid>,
}

impl Message {
    /// Creates a message without a payload, which is ready at once. Topic, source and id have 1 to 255 characters.
    ///
    /// ```
    /// # let number = 17;
    /// oncebox::Message::new("orders", "shop", &format!("order-{number}"));
    /// ```
    pub fn new(topic: impl AsRef<str>, source: impl AsRef<str>, id: impl AsRef<str>) -> Self {
        Self {
            topic: topic.as_ref().into(),
            source: source.as_ref().into(),
            id: id.as_ref().into(),
            payload: Bytes::new(),
            attributes: Attributes::default(),
            hash: None,
            trace: Trace::default(),
            partition: None,
            due: None,
            expires: None,
            problem: None,
        }
    }

    /// Sets the payload to these bytes.
    #[must_use]
    pub fn bytes(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the payload to this text.
    #[must_use]
    pub fn text(self, payload: impl Into<String>) -> Self {
        self.bytes(payload.into())
    }

    /// Sets the payload to this value, as JSON.
    pub fn json(self, payload: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_vec(payload).map_err(|_| {
            // The error of serde may quote the value, and errors must not contain payloads.
            Error::new(
                ErrorKind::Invalid,
                "payload cannot be serialized as JSON: its Serialize implementation failed, or a map key is not a string",
            )
        })?;
        Ok(self.bytes(json))
    }

    /// Sets a hash of the content by the sender's own algorithm, such as `sha256`. It is compared when the key is
    /// enqueued again.
    #[must_use]
    pub fn hash(mut self, algorithm: &str, hash: &[u8]) -> Self {
        let hash = CallerHash::new(algorithm, hash);
        self.hash = self.checked(hash).or(self.hash.take());
        self
    }

    /// Adds an attribute: metadata next to the payload. A message has at most 64 attributes with at most 16 KiB in
    /// total.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        let pairs = self.attributes.iter().chain([(name, value)]);
        let attributes = Attributes::new(pairs);
        self.attributes = self.checked(attributes).unwrap_or_default();
        self
    }

    /// Adds an attribute, unless that would exceed the limits.
    fn try_attribute(mut self, name: &str, value: &str) -> Self {
        if let Ok(attributes) = Attributes::new(self.attributes.iter().chain([(name, value)])) {
            self.attributes = attributes;
        }
        self
    }

    /// Sets the partition. Messages of the same partition are handled one at a time, in order.
    #[must_use]
    pub fn partition(mut self, partition: impl AsRef<str>) -> Self {
        self.partition = Some(partition.as_ref().into());
        self
    }

    /// Delays the message until this moment; a moment in the past means no delay (IBX-023, IBX-024).
    #[must_use]
    pub fn due_at(mut self, due: impl Into<Moment>) -> Self {
        self.due = Some(due.into());
        self
    }

    /// Delays the message for this time after it is enqueued.
    #[must_use]
    pub fn due_in(mut self, delay: Duration) -> Self {
        self.due = Some(Moment::after(delay));
        self
    }

    /// Sets when the message expires: it becomes Dead at this moment, unless it has been handled or is being handled by
    /// then.
    #[must_use]
    pub fn expires_at(mut self, expires: impl Into<Moment>) -> Self {
        self.expires = Some(expires.into());
        self
    }

    /// Sets how long after it is enqueued the message expires: it becomes Dead then, unless it has been handled or is
    /// being handled.
    #[must_use]
    pub fn expires_in(mut self, delay: Duration) -> Self {
        self.expires = Some(Moment::after(delay));
        self
    }

    /// Sets the id of the business transaction or workflow that the message belongs to.
    #[must_use]
    pub fn correlation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_correlation(id))
    }

    /// Sets the id of the message or request that directly caused this message.
    #[must_use]
    pub fn causation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_causation(id))
    }

    /// Sets the id of the tenant that the message belongs to.
    #[must_use]
    pub fn tenant(self, id: &str) -> Self {
        self.traced(|trace| trace.with_tenant(id))
    }

    fn traced(mut self, with: impl FnOnce(Trace) -> Result<Trace, Invalid>) -> Self {
        let trace = with(self.trace.clone());
        self.trace = self.checked(trace).unwrap_or_default();
        self
    }

    fn checked<T>(&mut self, value: Result<T, Invalid>) -> Option<T> {
        value.map_err(|invalid| self.problem.get_or_insert(invalid)).ok()
    }
}

/// Accessors.
impl Message {
    /// The topic, which selects the handler.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The source that the message comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The id of the message within its source.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The payload.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The hash of the content that the sender set.
    pub fn sender_hash(&self) -> Option<&CallerHash> {
        self.hash.as_ref()
    }

    /// The correlation, causation and tenant ids.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The partition.
    pub fn partition_key(&self) -> Option<&str> {
        self.partition.as_deref()
    }

    /// The moment before which the message is not handled, if the sender set one as an absolute time.
    pub fn due(&self) -> Option<Timestamp> {
        self.due.and_then(Moment::fixed)
    }

    /// The moment at which the message expires, if the sender set one as an absolute time.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires.and_then(Moment::fixed)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic)
            .field("source", &self.source)
            .field("id", &self.id)
            .field("payload_bytes", &self.payload.len())
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}
