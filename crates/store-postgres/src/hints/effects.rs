//! Effects of a call besides its answer.

use std::collections::BTreeSet;

use oncebox_core::{MaintenanceReport, Namespace, NewMessage, Timestamp, Topic};
use oncebox_store_rows::Events;

use super::Lane;

/// Effects of a call, applied when it is committed.
#[derive(Default)]
pub(crate) struct Effects {
    /// Lanes that received a new message, above all existing ones.
    pub(super) filled: BTreeSet<(Namespace, Lane)>,
    /// Lanes in which a message may have returned to its old position.
    pub(super) invalidated: BTreeSet<(Namespace, Lane)>,
    /// The same for all lanes.
    pub(super) all_invalidated: bool,
    pub(super) woken: BTreeSet<(Namespace, Topic)>,
    pub(super) reports: Vec<MaintenanceReport>,
}

impl Effects {
    /// Adds a message that was accepted.
    pub(crate) fn add_new(&mut self, message: &NewMessage, at: Timestamp) {
        let (namespace, content) = (message.key.namespace, &message.content);
        if content.due.is_none_or(|due| due <= at) {
            self.filled.insert((namespace, (content.topic.clone(), i32::from(content.shard.0))));
            self.woken.insert((namespace, content.topic.clone()));
        }
    }

    /// Adds the events of the slow path.
    pub(crate) fn extend(&mut self, events: Vec<Events>) {
        let lane =
            |(namespace, topic, shard): (_, _, oncebox_core::Shard)| (namespace, (topic, i32::from(shard.0)));
        for events in events {
            self.invalidated.extend(events.ready.into_iter().map(lane));
            self.all_invalidated |= events.partition_changed;
            self.woken.extend(events.woken);
            self.reports.push(events.report);
        }
    }

    /// Prepares the effects to be applied later, when other messages may have come and gone.
    pub(crate) fn deferred(mut self) -> Self {
        self.invalidated.append(&mut self.filled);
        self
    }
}
