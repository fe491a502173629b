//! Lanes: the claimable messages of one (namespace, topic, shard), in order of number, and the rotation between lanes.

mod topics;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

use super::arena::{Arena, Slot};
use super::counts::ClassCounts;
use super::inherited::Inherited;
use super::ready::Ready;
use super::sorted::Sorted;
use crate::id::{Number, Shard};
use crate::key::Namespace;
use crate::port::Counts;
use crate::text::Topic;
use crate::worker::WorkerName;

struct TopicRow {
    namespace: Namespace,
    name: Topic,
    lanes: BTreeMap<Shard, Slot>,
    /// The lanes that have claimable messages, and the one that was served last.
    ready: BTreeMap<Shard, Slot>,
    served: Shard,
    /// The serve count when a claim that names this topic was last served from it.
    served_at: u64,
    woken: bool,
    /// The number of leases of each named worker.
    workers: BTreeMap<WorkerName, u32>,
}

struct Lane {
    topic: Slot,
    shard: Shard,
    counts: ClassCounts,
    ready: Sorted<Number>,
    messages: u32,
    /// Unfinished messages of this lane that are not in memory.
    unloaded: u64,
    inherited: Option<Box<Inherited>>,
}

#[derive(Default)]
pub(super) struct Lanes {
    topics: Arena<TopicRow>,
    rows: Arena<Lane>,
    by_name: [HashMap<Topic, Slot>; Namespace::ALL.len()],
    /// The same names in byte order, for listings.
    pub(super) names: [BTreeSet<Topic>; Namespace::ALL.len()],
    /// The topics that have claimable messages.
    pub(super) ready: [Ready; Namespace::ALL.len()],
    /// Topics that became claimable since the last [`Self::take_wakeups`].
    woken: Vec<(Namespace, Topic)>,
    /// During a replay nobody is woken.
    pub(super) replaying: bool,
    /// By shard, the maximum number of messages that a lane delivered past its oldest inherited delivery.
    pub(super) reorder_depths: BTreeMap<Shard, u64>,
    serves: u64,
}

impl Lanes {
    /// Acquires the lane for one more message with content, creating it if necessary.
    pub(super) fn acquire(&mut self, namespace: Namespace, name: &Topic, shard: Shard) -> Slot {
        let known = self.find(namespace, name, shard);
        let lane = known.unwrap_or_else(|| self.create(namespace, name, shard));
        self.rows[lane].messages += 1;
        lane
    }

    fn create(&mut self, namespace: Namespace, name: &Topic, shard: Shard) -> Slot {
        let topic = self.find_topic(namespace, name).unwrap_or_else(|| {
            let topic = self.topics.insert(TopicRow {
                namespace,
                name: name.clone(),
                lanes: BTreeMap::new(),
                ready: BTreeMap::new(),
                served: Shard::default(),
                served_at: 0,
                woken: false,
                workers: BTreeMap::new(),
            });
            self.by_name[namespace as usize].insert(name.clone(), topic);
            self.names[namespace as usize].insert(name.clone());
            topic
        });
        let (counts, ready) = (ClassCounts::default(), Sorted::default());
        let (messages, unloaded, inherited) = (0, 0, None);
        let lane = self.rows.insert(Lane { topic, shard, counts, ready, messages, unloaded, inherited });
        self.topics[topic].lanes.insert(shard, lane);
        lane
    }

    /// The lane, if it has messages.
    pub(super) fn find(&self, namespace: Namespace, name: &Topic, shard: Shard) -> Option<Slot> {
        self.topics[self.find_topic(namespace, name)?].lanes.get(&shard).copied()
    }

    /// Releases the lane of a message. The last message removes the lane, and the topic if it has no other lanes.
    pub(super) fn release(&mut self, lane: Slot) {
        self.rows[lane].messages -= 1;
        if self.rows[lane].messages > 0 {
            return;
        }
        let Lane { topic, shard, .. } = self.rows[lane];
        self.rows.remove(lane);
        let row = &mut self.topics[topic];
        row.lanes.remove(&shard);
        if row.lanes.is_empty() {
            self.by_name[row.namespace as usize].remove(&row.name);
            self.names[row.namespace as usize].remove(&row.name);
            self.topics.remove(topic);
        }
    }

    pub(super) fn topic(&self, lane: Slot) -> &Topic {
        &self.topics[self.rows[lane].topic].name
    }

    /// The topic of a lane; `Slot::NONE` for no lane.
    pub(super) fn topic_of(&self, lane: Slot) -> Slot {
        lane.some().map_or(Slot::NONE, |lane| self.rows[lane].topic)
    }

    pub(super) fn shard(&self, lane: Slot) -> Shard {
        self.rows[lane].shard
    }

    pub(super) fn find_topic(&self, namespace: Namespace, name: &Topic) -> Option<Slot> {
        self.by_name[namespace as usize].get(name).copied()
    }

    pub(super) fn counts(&mut self, lane: Slot) -> &mut ClassCounts {
        &mut self.rows[lane].counts
    }

    /// Makes a message claimable.
    pub(super) fn offer(&mut self, lane: Slot, number: Number, message: Slot) {
        self.rows[lane].ready.insert(number, message);
        let Lane { ready, inherited, .. } = &self.rows[lane];
        let (first, restricted) = (ready.len() == 1, inherited.is_some());
        if first {
            self.enter_rotation(lane);
        }
        if first || restricted {
            self.wake(lane);
        }
    }

    /// Makes a message no longer claimable.
    pub(super) fn withdraw(&mut self, lane: Slot, number: Number) {
        self.rows[lane].ready.remove(number);
        if self.rows[lane].ready.is_empty() {
            self.leave_rotation(lane);
        }
    }

    /// Adds a lane to the rotation.
    pub(super) fn enter_rotation(&mut self, lane: Slot) {
        let Lane { topic, shard, .. } = self.rows[lane];
        let row = &mut self.topics[topic];
        row.ready.insert(shard, lane);
        if row.ready.len() == 1 {
            self.ready[row.namespace as usize].insert(topic, &row.name);
        }
    }

    /// Wakes the workers that wait for the lane's topic.
    fn wake(&mut self, lane: Slot) {
        let row = &mut self.topics[self.rows[lane].topic];
        if !self.replaying && !row.woken {
            row.woken = true;
            self.woken.push((row.namespace, row.name.clone()));
        }
    }

    /// Removes a lane from the rotation.
    pub(super) fn leave_rotation(&mut self, lane: Slot) {
        let Lane { topic, shard, .. } = self.rows[lane];
        let row = &mut self.topics[topic];
        row.ready.remove(&shard);
        if row.ready.is_empty() {
            self.ready[row.namespace as usize].remove(topic, &row.name);
        }
    }

    /// The named topics that have messages, the least recently served first.
    pub(super) fn least_recently_served(&self, namespace: Namespace, names: &[Topic]) -> Vec<Slot> {
        let mut topics: Vec<_> = names.iter().filter_map(|name| self.find_topic(namespace, name)).collect();
        topics.sort_by_key(|topic| self.topics[*topic].served_at);
        topics
    }

    /// Notes that a claim which names the topic was served from it.
    pub(super) fn mark_served(&mut self, topic: Slot) {
        self.serves += 1;
        self.topics[topic].served_at = self.serves;
    }

    /// The next ready topic in the rotation of a namespace.
    pub(super) fn next_topic(&mut self, namespace: Namespace) -> Option<Slot> {
        let Ready { slots: ready, served, .. } = &mut self.ready[namespace as usize];
        let after = served.and_then(|served| ready.range((Excluded(served), Unbounded)).next());
        *served = after.or_else(|| ready.first()).copied();
        *served
    }

    /// The next ready lane in the rotation of a topic, and its first message.
    pub(super) fn next_lane(&mut self, topic: Slot) -> Option<(Slot, Number, Slot)> {
        let row = &mut self.topics[topic];
        let next = row.served.0.checked_add(1);
        let after = next.and_then(|next| row.ready.range(Shard(next)..).next());
        let (shard, lane) = after.or_else(|| row.ready.first_key_value())?;
        let lane = *lane;
        row.served = *shard;
        let (number, message) = self.rows[lane].ready.first().expect("a ready lane has a message");
        Some((lane, number, message))
    }

    /// Whether the restart rule allows delivering this message.
    pub(super) fn may_deliver(&self, lane: Slot, number: Number) -> bool {
        self.rows[lane].inherited.as_ref().is_none_or(|inherited| inherited.may_deliver(number))
    }

    /// Notes a delivery for the restart rule.
    pub(super) fn note_delivered(&mut self, lane: Slot, number: Number) {
        let Lane { shard, inherited, .. } = &mut self.rows[lane];
        let depth = inherited.as_mut().map_or(0, |inherited| inherited.note_delivered(number) as u64);
        if depth > 0 {
            let most = self.reorder_depths.entry(*shard).or_default();
            *most = depth.max(*most);
        }
    }

    /// Adds a delivery from before the restart that is still outstanding.
    pub(super) fn inherit(&mut self, lane: Slot, number: Number) {
        self.rows[lane].inherited.get_or_insert_default().add(number);
    }

    /// Notes that a lease of this message has ended.
    pub(super) fn end_inherited(&mut self, lane: Slot, number: Number) {
        let inherited = &mut self.rows[lane].inherited;
        if inherited.is_none() {
            return;
        }
        inherited.take_if(|inherited| inherited.remove(number));
        if !self.rows[lane].ready.is_empty() {
            self.wake(lane);
        }
    }

    /// Reports the topics that became claimable since the last call.
    pub(super) fn take_wakeups(&mut self, mut notify: impl FnMut(Namespace, &Topic)) {
        for (namespace, name) in self.woken.drain(..) {
            if let Some(topic) = self.by_name[namespace as usize].get(&name) {
                self.topics[*topic].woken = false;
            }
            notify(namespace, &name);
        }
    }
}

#[cfg(test)]
impl Lanes {
    /// Every lane with its claimable numbers, for comparison.
    pub(super) fn dump(&self) -> Vec<String> {
        let line = |lane: &Lane| {
            let topic = &self.topics[lane.topic];
            let open = topic.ready.contains_key(&lane.shard)
                && self.ready[topic.namespace as usize].contains(lane.topic, &topic.name);
            assert_eq!(
                open,
                !lane.ready.is_empty(),
                "a lane is in the rotation iff it has a claimable message"
            );
            let numbers = lane.ready.keys();
            let workers = &topic.workers;
            let Lane { shard, messages, .. } = lane;
            format!("{} {} {shard:?} {messages} {numbers:?} {workers:?}", topic.namespace, topic.name)
        };
        let mut lines: Vec<_> = self.rows.iter().map(|(_, lane)| line(lane)).collect();
        lines.sort();
        lines
    }
}
