//! The messages that a call names.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use oncebox_core::{Action, Key, MessageRef, NewMessage, Order, Uid};

use crate::lane::{LaneKey, lane_key};

/// The messages that a call names, by uid and by key, and the lanes whose fullness decides.
#[derive(Debug, Default, Clone)]
pub struct Targets<'a> {
    /// Messages with these uids.
    pub uids: Vec<Uid>,
    /// Messages that hold these keys.
    pub keys: Vec<&'a Key>,
    /// The highest limit on the lanes to which redriven messages return.
    pub(crate) redrive_lane_max: Option<NonZeroU32>,
    /// Lanes to which messages are added, with the highest limit on each.
    pub(crate) lanes: BTreeMap<LaneKey, u64>,
}

impl<'a> Targets<'a> {
    /// The messages that hold these keys.
    pub fn of_keys(keys: impl IntoIterator<Item = &'a Key>) -> Self {
        Self { keys: keys.into_iter().collect(), ..Self::default() }
    }

    /// Adds the message that holds a key.
    pub fn add_key(&mut self, key: &'a Key) {
        self.keys.push(key);
    }

    /// Adds a message.
    pub fn add_uid(&mut self, uid: Uid) {
        self.uids.push(uid);
    }

    /// Adds a message.
    pub fn add(&mut self, target: &'a MessageRef) {
        match target {
            MessageRef::Uid(uid) => self.add_uid(*uid),
            MessageRef::Key(key) => self.add_key(key),
        }
    }

    /// Adds the message of an operator's order.
    pub fn add_order(&mut self, order: &'a Order) {
        self.add(&order.target);
        if let Action::Redrive { lane_max, .. } = order.action {
            self.redrive_lane_max = self.redrive_lane_max.max(lane_max);
        }
    }

    /// Adds what decides about a new message: who holds its key and its uid, and how full its lane is.
    pub fn add_new(&mut self, message: &'a NewMessage) {
        self.add_key(&message.key);
        self.uids.extend(message.uid);
        if let Some(limit) = message.lane_max {
            let max = self.lanes.entry(lane_key(message)).or_default();
            *max = u64::from(limit.get()).max(*max);
        }
    }

    /// Whether the fullness of lanes decides.
    pub(crate) fn has_lane_limits(&self) -> bool {
        self.redrive_lane_max.is_some() || !self.lanes.is_empty()
    }
}
