//! The lane of a message.

use oncebox_core::{Namespace, NewMessage, Shard, Snapshot, Topic};

/// A lane with its namespace.
pub type LaneKey = (Namespace, Topic, Shard);

/// The lane of a new message.
pub fn lane_key(message: &NewMessage) -> LaneKey {
    let content = &message.content;
    (message.key.namespace, content.topic.clone(), content.shard)
}

/// The lane of a message that has content.
pub fn lane_key_of_snapshot<P>(message: &Snapshot<P>) -> Option<LaneKey> {
    let content = message.content.as_ref()?;
    Some((message.key.namespace, content.topic.clone(), content.shard))
}
