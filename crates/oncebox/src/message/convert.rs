//! Conversions between messages and the types of the store.

use oncebox_core::{
    CallerHash, Clock, Content, Delivery, Error, ErrorKind, Id, Key, Namespace, NewMessage, Partition,
    Payload, Source, Topic, Trace,
};

use super::{Message, Moment};
use crate::settings::Settings;

impl Message {
    /// The message to store, with the policy for its source. Fails if a value is invalid or the payload is too large.
    pub(crate) fn into_new_message(
        self,
        settings: &Settings,
        clock: &dyn Clock,
    ) -> Result<NewMessage, Error> {
        if let Some(invalid) = self.problem {
            return Err(invalid.into());
        }
        let limit = settings.payload_bytes_max;
        if self.payload.len() > limit {
            let text = format!("payload is {} bytes long, the limit is {limit}", self.payload.len());
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let key = Key::new(Namespace::Inbox, Source::inbox(self.source)?, Id::inbox(self.id)?);
        let policy = settings.policy_for(&key.source);
        let mut message = NewMessage::new(key, Topic::inbox(self.topic)?, Payload::new(self.payload)?);
        message.policy = policy;
        message.hash = self.hash;
        message.trace = self.trace;
        message.content.attributes = self.attributes;
        message.content.partition = self.partition.map(Partition::new).transpose()?;
        message.content.due = self.due.map(|due| due.resolve(clock));
        message.content.expires = self.expires.map(|expires| expires.resolve(clock));
        Ok(message)
    }

    pub(crate) fn from_delivery(delivery: &Delivery) -> Self {
        Self::from_parts(&delivery.key, &delivery.content, delivery.hash.as_ref(), &delivery.trace)
    }

    /// The message in a snapshot; none if the store has deleted its content.
    #[cfg(feature = "testing")]
    pub(crate) fn from_snapshot(snapshot: &oncebox_core::Snapshot) -> Option<Self> {
        Some(Self::from_parts(
            &snapshot.key,
            snapshot.content.as_ref()?,
            snapshot.hash.as_ref(),
            &snapshot.trace,
        ))
    }

    fn from_parts(key: &Key, content: &Content, hash: Option<&CallerHash>, trace: &Trace) -> Self {
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
