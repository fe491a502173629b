//! A message as its sender builds it and its handler gets it.

mod moment;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncebox_core::{
    Attributes, CallerHash, Clock, Content, Delivery, Error, Id, Invalid, Key, Kind, Namespace, NewMessage,
    Partition, Payload, Source, Timestamp, Topic, Trace,
};
use serde::Serialize;

use crate::build::Settings;

pub use moment::Moment;

/// A message: what it is about, where it comes from, what its sender calls it, and what it carries.
///
/// Two messages with the same source and id are the same message, also if their topics differ. A value that is out of
/// bounds is told when the message is enqueued. The payload and the values of attributes stay out of `Debug` output.
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
    /// The first value that was out of bounds.
    problem: Option<Invalid>,
}

impl Message {
    /// A message without a payload, ready at once. Topic, source and id have 1 to 255 characters.
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

    /// Carries these bytes.
    #[must_use]
    pub fn bytes(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Carries this text.
    #[must_use]
    pub fn text(self, payload: impl Into<String>) -> Self {
        self.bytes(payload.into())
    }

    /// Carries this value as JSON.
    pub fn json(self, payload: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::to_vec(payload).map_err(|_| {
            // What serde says may quote the value, and values stay out of errors.
            Error::new(
                Kind::Invalid,
                "payload cannot be written as JSON: its Serialize refuses, or has keys that are no texts",
            )
        })?;
        Ok(self.bytes(json))
    }

    /// A hash of the content by the sender's own algorithm, such as `sha256`: compared when the key comes again.
    #[must_use]
    pub fn hash(mut self, algorithm: &str, hash: &[u8]) -> Self {
        let hash = CallerHash::new(algorithm, hash);
        self.hash = self.checked(hash).or(self.hash.take());
        self
    }

    /// A name and a value beside the payload: up to 64, of 16 KiB together.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        let pairs = self.attributes.iter().chain([(name, value)]);
        let attributes = Attributes::new(pairs);
        self.attributes = self.checked(attributes).unwrap_or_default();
        self
    }

    /// The same, unless that would be out of bounds.
    pub(crate) fn try_attribute(mut self, name: &str, value: &str) -> Self {
        if let Ok(attributes) = Attributes::new(self.attributes.iter().chain([(name, value)])) {
            self.attributes = attributes;
        }
        self
    }

    /// Messages with the same partition are handled one at a time, in order.
    #[must_use]
    pub fn partition(mut self, partition: impl AsRef<str>) -> Self {
        self.partition = Some(partition.as_ref().into());
        self
    }

    /// Not handled before this moment; one that has passed means at once (IBX-023, IBX-024).
    #[must_use]
    pub fn due_at(mut self, due: impl Into<Moment>) -> Self {
        self.due = Some(due.into());
        self
    }

    /// Not handled before so much time has passed since it was enqueued.
    #[must_use]
    pub fn due_in(mut self, delay: Duration) -> Self {
        self.due = Some(Moment::after(delay));
        self
    }

    /// Dead from this moment on unless it is handled or in a handler's hands by then.
    #[must_use]
    pub fn expires_at(mut self, expires: impl Into<Moment>) -> Self {
        self.expires = Some(expires.into());
        self
    }

    /// Dead so long after it was enqueued, unless it is handled or in a handler's hands by then.
    #[must_use]
    pub fn expires_in(mut self, delay: Duration) -> Self {
        self.expires = Some(Moment::after(delay));
        self
    }

    /// The id of the whole story that the message belongs to.
    #[must_use]
    pub fn correlation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_correlation(id))
    }

    /// The id of what directly caused the message.
    #[must_use]
    pub fn causation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_causation(id))
    }

    /// The id of the tenant on whose behalf it comes.
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

/// Reading.
impl Message {
    /// What it is about.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What its source calls it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it carries.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// What stands beside the payload.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// The sender's hash.
    pub fn sender_hash(&self) -> Option<&CallerHash> {
        self.hash.as_ref()
    }

    /// What caused it.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The partition it runs in.
    pub fn partition_key(&self) -> Option<&str> {
        self.partition.as_deref()
    }

    /// The moment of the sender's before which it is not handled, if it was enqueued with one.
    pub fn due(&self) -> Option<Timestamp> {
        self.due.and_then(Moment::fixed)
    }

    /// The moment of the sender's from which it is Dead, if it was enqueued with one.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires.and_then(Moment::fixed)
    }
}

/// To the store and back.
impl Message {
    pub(crate) fn accepted_by(self, settings: &Settings, clock: &dyn Clock) -> Result<NewMessage, Error> {
        if let Some(invalid) = self.problem {
            return Err(invalid.into());
        }
        let limit = settings.payload_bytes_max;
        if self.payload.len() > limit {
            let text = format!("payload is {} bytes long, the limit is {limit}", self.payload.len());
            return Err(Error::new(Kind::Invalid, text));
        }
        let key = Key::new(Namespace::Inbox, Source::inbox(self.source)?, Id::inbox(self.id)?);
        let policy = settings.policy_for(&key.source);
        let mut message = NewMessage::new(key, Topic::inbox(self.topic)?, Payload::new(self.payload)?);
        message.policy = policy;
        message.hash = self.hash;
        message.trace = self.trace;
        message.content.attributes = self.attributes;
        message.content.partition = self.partition.map(Partition::new).transpose()?;
        message.content.due = self.due.map(|due| due.seen_from(clock));
        message.content.expires = self.expires.map(|expires| expires.seen_from(clock));
        Ok(message)
    }

    pub(crate) fn delivered(delivery: &Delivery) -> Self {
        Self::of(&delivery.key, &delivery.content, delivery.hash.as_ref(), &delivery.trace)
    }

    /// The message that a store keeps, if it has content.
    #[cfg(feature = "testing")]
    pub(crate) fn stored(stored: &oncebox_core::Snapshot) -> Option<Self> {
        Some(Self::of(&stored.key, stored.content.as_ref()?, stored.hash.as_ref(), &stored.trace))
    }

    fn of(key: &Key, content: &Content, hash: Option<&CallerHash>, trace: &Trace) -> Self {
        Self {
            topic: content.topic.clone().into(),
            source: key.source.clone().into(),
            id: key.id.clone().into(),
            payload: content.payload.clone().into_bytes(),
            attributes: content.attributes.clone(),
            hash: hash.cloned(),
            trace: trace.clone(),
            partition: content.partition.clone().map(Into::into),
            due: content.due.map(Moment::from),
            expires: content.expires.map(Moment::from),
            problem: None,
        }
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
