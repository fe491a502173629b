//! An outgoing message, and the shard that it goes to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oncebox_core::limits::TEXT_BYTES_MAX;
use oncebox_core::{
    Attributes, Error, Fingerprint, Id, Invalid, Key, Namespace, NewMessage, Partition, Payload, Shard,
    Source, Span, Timestamp, Topic, Trace, Uid,
};

/// A message to send: its topic, its idempotency key, its payload and options. Sending fails if a value is out of
/// bounds.
#[derive(Clone)]
pub struct OutgoingMessage {
    topic: Arc<str>,
    idem_key: Arc<str>,
    payload: Bytes,
    payload_hash: Option<String>,
    attributes: Attributes,
    partition: Option<Arc<str>>,
    shard_key: Option<Arc<str>>,
    due_in: Option<Duration>,
    expires_in: Option<Duration>,
    trace: Trace,
    invalid: Option<Invalid>,
}

impl OutgoingMessage {
    /// Creates a message with an empty payload. Within the replay window of its topic, an idempotency key is accepted
    /// once.
    pub fn new(topic: impl AsRef<str>, idem_key: impl AsRef<str>) -> Self {
        Self {
            topic: topic.as_ref().into(),
            idem_key: idem_key.as_ref().into(),
            payload: Bytes::new(),
            payload_hash: None,
            attributes: Attributes::default(),
            partition: None,
            shard_key: None,
            due_in: None,
            expires_in: None,
            trace: Trace::default(),
            invalid: None,
        }
    }

    /// Sets the payload.
    #[must_use]
    pub fn bytes(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the expected BLAKE3 hash of the payload, as `b3:` and 64 hex digits. Sending rejects a payload with another
    /// hash.
    #[must_use]
    pub fn payload_hash(mut self, hash: impl Into<String>) -> Self {
        self.payload_hash = Some(hash.into());
        self
    }

    /// Sets the attributes: at most 64 names and values, 16 KiB in total.
    #[must_use]
    pub fn attributes<N: AsRef<str>, V: AsRef<str>>(
        mut self,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        match Attributes::new(pairs) {
            Ok(attributes) => self.attributes = attributes,
            Err(invalid) => drop(self.invalid.get_or_insert(invalid)),
        }
        self
    }

    /// Sets the partition. Messages with the same partition are delivered one at a time, in order, across all topics; without
    /// a [`OutgoingMessage::shard_key`] they are in the same shard.
    #[must_use]
    pub fn partition(mut self, partition: impl AsRef<str>) -> Self {
        self.partition = Some(partition.as_ref().into());
        self
    }

    /// Sets the key that selects the shard, and has no other effect: messages of one topic with the same key are in the
    /// same shard, and can be delivered concurrently. 1 to 1,024 bytes without NUL.
    #[must_use]
    pub fn shard_key(mut self, key: impl AsRef<str>) -> Self {
        self.shard_key = Some(key.as_ref().into());
        self
    }

    /// Delays delivery by this time from sending, by the clock of the sending process.
    #[must_use]
    pub fn due_in(mut self, delay: Duration) -> Self {
        self.due_in = Some(delay);
        self
    }

    /// Sets the expiry: the message becomes a dead letter, reason `expired`, if it is not handled within this time from
    /// sending, by the clock of the sending process. Must be more than [`OutgoingMessage::due_in`]. The `ready_keep` of
    /// its topic applies if that ends earlier.
    #[must_use]
    pub fn expires_in(mut self, delay: Duration) -> Self {
        self.expires_in = Some(delay);
        self
    }

    /// Sets the correlation id. Default: a new id.
    #[must_use]
    pub fn corr_id(mut self, id: &str) -> Self {
        match std::mem::take(&mut self.trace).with_correlation(id) {
            Ok(trace) => self.trace = trace,
            Err(invalid) => drop(self.invalid.get_or_insert(invalid)),
        }
        self
    }

    /// Sets all trace ids, including [`OutgoingMessage::corr_id`]. Messages with clones of one trace share its memory.
    #[must_use]
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    pub(super) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Whether the payload has the expected hash, if one was set.
    pub(super) fn matches_hash(&self) -> bool {
        let Some(hash) = &self.payload_hash else { return true };
        Fingerprint::of_bytes(&self.payload).to_string().eq_ignore_ascii_case(hash)
    }

    /// When the message is due and when it expires, if it is sent `now`. `ready_keep` counts from the time it is due.
    pub(super) fn times(
        &self,
        now: Timestamp,
        ready_keep: Duration,
    ) -> Result<(Option<Timestamp>, Timestamp), Invalid> {
        let after = |name, delay: Option<Duration>| {
            let span = delay.map(|delay| Span::new(name, delay)).transpose()?;
            Ok::<_, Invalid>(span.map(|span| now.after(span.get())))
        };
        let (due, expires) = (after("due_in", self.due_in)?, after("expires_in", self.expires_in)?);
        if due.zip(expires).is_some_and(|(due, expires)| expires <= due) {
            return Err(Invalid::new("expires_in", "must be more than due_in"));
        }
        let kept = due.unwrap_or(now).after(ready_keep);
        Ok((due, expires.map_or(kept, |expires| expires.min(kept))))
    }

    pub(super) fn into_message(
        self,
        sharding: &mut Sharding,
        corr_id: impl FnOnce() -> Uid,
    ) -> Result<NewMessage, Error> {
        if let Some(invalid) = self.invalid {
            return Err(invalid.into());
        }
        if let Some(key) = &self.shard_key {
            check_shard_key(key)?;
        }
        let shard = sharding.of(&self.topic, self.shard_key.as_deref().or(self.partition.as_deref()));
        // The topic is also the source of the key. It is checked first, so that errors name the topic.
        let topic = Topic::new(self.topic.clone())?;
        let key = Key::new(Namespace::Mailbox, Source::new(self.topic)?, Id::new(self.idem_key)?);
        let mut message = NewMessage::new(key, topic, Payload::new(self.payload)?);
        message.content.shard = shard;
        message.content.attributes = self.attributes;
        message.content.partition = self.partition.map(Partition::new).transpose()?;
        message.trace = self.trace;
        if message.trace.correlation().is_none() {
            message.trace = message.trace.with_correlation(&corr_id().to_string())?;
        }
        Ok(message)
    }
}

/// Computes shards. Remembers the last topic, because the messages of one call mostly have the same topic.
pub(super) struct Sharding {
    shards: u16,
    last: Option<(Arc<str>, Shard)>,
}

impl Sharding {
    pub(super) fn new(shards: u16) -> Self {
        Self { shards, last: None }
    }

    /// `key` spreads the messages of a topic over its shards: a shard key or a partition.
    fn of(&mut self, topic: &Arc<str>, key: Option<&str>) -> Shard {
        if key.is_some() {
            return shard(topic, key, self.shards);
        }
        if let Some((last, shard)) = &self.last
            && last == topic
        {
            return *shard;
        }
        let shard = shard(topic, None, self.shards);
        self.last = Some((topic.clone(), shard));
        shard
    }
}

/// A shard key is not stored, but has the same limits as stored texts.
fn check_shard_key(key: &str) -> Result<(), Invalid> {
    if key.is_empty() || key.len() > TEXT_BYTES_MAX || key.contains('\0') {
        return Err(Invalid::new("shard_key", "must have 1 to 1024 bytes, and no NUL"));
    }
    Ok(())
}

/// The shard of a topic or, with a key, of topic and key. It never changes while the number of shards stays the same.
fn shard(topic: &str, key: Option<&str>, shards: u16) -> Shard {
    let hash = match key {
        Some(key) => Fingerprint::of_bytes([topic, key].join("\0").as_bytes()),
        None => Fingerprint::of_bytes(topic.as_bytes()),
    };
    let first = u64::from_be_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
    Shard(u16::try_from(first % u64::from(shards.max(1))).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::{Sharding, shard};

    /// Holds: MBX-P-1, MBX-P-6.
    #[test]
    fn a_shard_is_stable_and_partitions_spread_a_topic() {
        assert_eq!(shard("orders", None, 8), shard("orders", None, 8));
        assert_eq!(
            (shard("orders", None, 8).0, shard("orders", Some("7"), 8).0),
            (SHARD_OF_ORDERS, SHARD_OF_ORDERS_7)
        );
        let spread: BTreeSet<_> =
            (0..100).map(|partition| shard("orders", Some(&partition.to_string()), 8)).collect();
        assert_eq!(spread.len(), 8);
        assert_eq!(shard("orders", None, 1).0, 0);
    }

    #[test]
    fn messages_sent_together_get_the_same_shards_as_messages_sent_alone() {
        let mut sharding = Sharding::new(8);
        let topics = [("orders", None), ("orders", Some("7")), ("orders", None), ("refunds", None)];
        for (topic, partition) in topics {
            assert_eq!(sharding.of(&Arc::from(topic), partition), shard(topic, partition, 8));
        }
    }

    /// Shards are stored with messages, so these values must not change.
    const SHARD_OF_ORDERS: u16 = 6;
    const SHARD_OF_ORDERS_7: u16 = 7;
}
