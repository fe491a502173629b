//! What is paused, and how it is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use oncebox_core::{Error, Record, RecordValue, Timestamp, Topic};
use serde::{Deserialize, Serialize};

/// What is paused in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pause {
    /// New messages are rejected, and stored ones are still delivered: the topic drains.
    Sending,
    /// Messages are accepted but not delivered. Deliveries that have begun can be settled.
    Receiving,
    /// New messages are rejected and stored ones are not delivered.
    Both,
}

impl Pause {
    /// Whether new messages are rejected.
    pub fn stops_sending(self) -> bool {
        self != Self::Receiving
    }

    /// Whether messages are kept back.
    pub fn stops_receiving(self) -> bool {
        self != Self::Sending
    }

    /// The name in labels and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Receiving => "receiving",
            Self::Both => "both",
        }
    }

    fn of(sending: bool, receiving: bool) -> Option<Self> {
        match (sending, receiving) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::Sending),
            (false, true) => Some(Self::Receiving),
            (false, false) => None,
        }
    }

    pub(super) fn and(self, other: Option<Self>) -> Self {
        if other.is_none_or(|other| other == self) { self } else { Self::Both }
    }

    pub(super) fn without(self, other: Self) -> Option<Self> {
        Self::of(
            self.stops_sending() && !other.stops_sending(),
            self.stops_receiving() && !other.stops_receiving(),
        )
    }
}

/// A paused topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PausedTopic {
    /// The topic.
    pub topic: Topic,
    /// What is paused.
    pub pause: Pause,
    /// When that was changed last.
    pub since: Timestamp,
    /// Who changed it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// The stored form of a pause.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredPause {
    pub(super) pause: Pause,
    pub(super) actor: String,
    pub(super) reason: String,
}

impl StoredPause {
    pub(super) fn into_topic(self, topic: &Topic, since: Timestamp) -> PausedTopic {
        let Self { pause, actor, reason } = self;
        PausedTopic { topic: topic.clone(), pause, since, actor, reason }
    }

    pub(super) fn value(&self) -> Result<RecordValue, Error> {
        let bytes = serde_json::to_vec(self).expect("texts can be written as JSON");
        Ok(RecordValue::new(bytes)?)
    }
}

/// The paused topics of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PausedTopics(Arc<BTreeMap<Topic, PausedTopic>>);

impl FromIterator<PausedTopic> for PausedTopics {
    fn from_iter<T: IntoIterator<Item = PausedTopic>>(paused: T) -> Self {
        Self(Arc::new(paused.into_iter().map(|paused| (paused.topic.clone(), paused)).collect()))
    }
}

impl PausedTopics {
    pub(super) fn get(&self, topic: &Topic) -> Option<&PausedTopic> {
        self.0.get(topic)
    }

    /// Whether messages of every topic are delivered.
    pub(crate) fn all_delivered(&self) -> bool {
        !self.0.values().any(|paused| paused.pause.stops_receiving())
    }

    /// Whether messages of this topic are delivered.
    pub(crate) fn delivers(&self, topic: &Topic) -> bool {
        self.0.get(topic).is_none_or(|paused| !paused.pause.stops_receiving())
    }

    /// Whether new messages of this topic are accepted.
    pub(super) fn accepts(&self, topic: &Topic) -> bool {
        self.0.get(topic).is_none_or(|paused| !paused.pause.stops_sending())
    }

    /// The paused topics, ordered by name.
    pub(crate) fn list(&self) -> impl Iterator<Item = &PausedTopic> {
        self.0.values()
    }
}

impl TryFrom<&Record> for PausedTopic {
    type Error = Error;

    /// A pause that a newer version has written in another way stops everything, and can be resumed.
    fn try_from(record: &Record) -> Result<Self, Error> {
        let topic = Topic::new(record.id.as_str())?;
        let stored = serde_json::from_slice(record.value.as_bytes()).unwrap_or_else(|_| StoredPause {
            pause: Pause::Both,
            actor: String::new(),
            reason: "unknown: a newer version has written this pause".to_owned(),
        });
        Ok(stored.into_topic(&topic, record.written_at))
    }
}

#[cfg(test)]
mod tests {
    use super::Pause::{self, Both, Receiving, Sending};

    #[test]
    fn pauses_are_added_and_removed_by_part() {
        assert_eq!(Sending.and(None), Sending);
        assert_eq!(Sending.and(Some(Receiving)), Both);
        assert_eq!(Both.and(Some(Sending)), Both);
        assert_eq!(Both.without(Receiving), Some(Sending));
        assert_eq!(Sending.without(Receiving), Some(Sending));
        for pause in [Sending, Receiving, Both] {
            assert_eq!(pause.without(Both), None);
            let json = serde_json::to_string(&pause).unwrap();
            assert_eq!(json, format!("\"{}\"", pause.as_str()));
            assert_eq!(serde_json::from_str::<Pause>(&json).unwrap(), pause);
        }
    }
}
