//! What a process knows beside the tables: who waits for work, which lanes may have some, what has ended.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicI64;

use oncebox_core::{Bell, Namespace, NewMessage, Timestamp, Topic, Upkept};

use crate::lanes::{Lane, Lanes};
use crate::letters::LetterCursor;
use crate::room::Room;
use crate::slow::Events;
use crate::upkeep::Ended;

/// Hints and counts. Whatever is missing here is found in the tables, later.
#[derive(Default)]
pub(crate) struct Ears {
    pub(crate) bell: Bell,
    pub(crate) lanes: Lanes,
    pub(crate) room: Room,
    pub(crate) ended: Ended,
    pub(crate) letters: LetterCursor,
    /// Up to when this process has seen that time has brought nothing that was not written down.
    pub(crate) quiet_until: AtomicI64,
}

/// What a call brought about; told when it is committed.
#[derive(Default)]
pub(crate) struct Heard {
    lanes: BTreeSet<(Namespace, Lane)>,
    woken: BTreeSet<(Namespace, Topic)>,
    /// Where something may have come back to its place among others.
    lowered: BTreeSet<(Namespace, Topic)>,
    /// That may be anywhere.
    all_lowered: bool,
    upkept: Vec<Upkept>,
}

impl Heard {
    /// A message has been taken in.
    pub(crate) fn add_new(&mut self, message: &NewMessage, at: Timestamp) {
        let (namespace, content) = (message.key.namespace, &message.content);
        if content.due.is_none_or(|due| due <= at) {
            self.lanes.insert((namespace, (content.topic.clone(), i32::from(content.shard.0))));
            self.woken.insert((namespace, content.topic.clone()));
        }
    }

    /// It will be told later, so others may have come and gone by then.
    pub(crate) fn belated(mut self) -> Self {
        self.lowered.extend(self.woken.iter().cloned());
        self
    }

    /// Something was decided by the slow path.
    pub(crate) fn add(&mut self, events: Events) {
        self.lowered.extend(events.woken.iter().cloned());
        self.woken.extend(events.woken);
        self.all_lowered |= events.partition_changed;
        self.upkept.push(events.upkept);
    }
}

impl Ears {
    /// Rings for what became claimable, and notes what ended.
    pub(crate) fn hear(&self, heard: Heard) {
        for (namespace, lane) in heard.lanes {
            self.lanes.add(namespace, [lane]);
        }
        for (namespace, topic) in &heard.lowered {
            self.lanes.lower(*namespace, topic);
        }
        if heard.all_lowered {
            self.lanes.lower_all();
        }
        for (namespace, topic) in &heard.woken {
            self.bell.ring(*namespace, topic);
        }
        for upkept in heard.upkept {
            self.ended.add(upkept);
        }
    }
}
