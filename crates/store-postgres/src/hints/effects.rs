//! What a call brought about that is of interest beside its answer.

use std::collections::BTreeSet;

use oncebox_core::{Namespace, NewMessage, Timestamp, Topic, Upkept};

use super::Lane;
use crate::slow::Events;

/// What a call brought about; noted when it is committed.
#[derive(Default)]
pub(crate) struct Effects {
    /// Lanes that got something new, above all that they had.
    pub(super) filled: BTreeSet<(Namespace, Lane)>,
    /// Lanes where something may have come back to its place among others.
    pub(super) lowered: BTreeSet<(Namespace, Lane)>,
    /// That may be any lane.
    pub(super) all_lowered: bool,
    pub(super) woken: BTreeSet<(Namespace, Topic)>,
    pub(super) upkept: Vec<Upkept>,
}

impl Effects {
    /// A message has been taken in.
    pub(crate) fn add_new(&mut self, message: &NewMessage, at: Timestamp) {
        let (namespace, content) = (message.key.namespace, &message.content);
        if content.due.is_none_or(|due| due <= at) {
            self.filled.insert((namespace, (content.topic.clone(), i32::from(content.shard.0))));
            self.woken.insert((namespace, content.topic.clone()));
        }
    }

    /// Something was decided on the slow path.
    pub(crate) fn add(&mut self, events: Events) {
        let lane =
            |(namespace, topic, shard): (_, _, oncebox_core::Shard)| (namespace, (topic, i32::from(shard.0)));
        self.lowered.extend(events.ready.into_iter().map(lane));
        self.all_lowered |= events.partition_changed;
        self.woken.extend(events.woken);
        self.upkept.push(events.upkept);
    }

    /// It will be noted later, so others may have come and gone by then.
    pub(crate) fn belated(mut self) -> Self {
        self.lowered.append(&mut self.filled);
        self
    }
}
