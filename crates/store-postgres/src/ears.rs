//! What a process knows beside the tables: who waits for work, which lanes may have some, what has ended.

use std::collections::BTreeSet;

use oncebox_core::{Bell, Namespace, NewMessage, Timestamp, Topic, Upkept};

use crate::desk::Sitting;
use crate::lanes::{Lane, Lanes};
use crate::room::Room;
use crate::upkeep::Ended;

/// Hints and counts. Whatever is missing here is found in the tables, later.
#[derive(Default)]
pub(crate) struct Ears {
    pub(crate) bell: Bell,
    pub(crate) lanes: Lanes,
    pub(crate) room: Room,
    pub(crate) ended: Ended,
}

/// What a call brought about; told when it is committed.
#[derive(Default)]
pub(crate) struct Heard {
    lanes: BTreeSet<(Namespace, Lane)>,
    woken: BTreeSet<(Namespace, Topic)>,
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

    /// Something was decided at the desk.
    pub(crate) fn add<T>(&mut self, sitting: Sitting<T>) -> T {
        self.woken.extend(sitting.woken);
        self.upkept.push(sitting.upkept);
        sitting.answer
    }
}

impl Ears {
    /// Rings for what became claimable, and notes what ended.
    pub(crate) fn hear(&self, heard: Heard) {
        for (namespace, lane) in heard.lanes {
            self.lanes.add(namespace, [lane]);
        }
        for (namespace, topic) in &heard.woken {
            self.bell.ring(*namespace, topic);
        }
        for upkept in heard.upkept {
            self.ended.add(upkept);
        }
    }
}
