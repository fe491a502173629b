//! How the topics of a namespace stand, a page at a time.

use std::ops::Bound::{Included, Unbounded};

use super::{Machine, Turn};
use crate::id::Shard;
use crate::key::Namespace;
use crate::limits::TOPIC_WORKERS_MAX;
use crate::payload::PayloadHandle;
use crate::port::{TopicCounts, TopicPage, TopicQuery, TopicRange};
use crate::text::Topic;

/// Topics that one page looks at, at most: many may have nothing but Done messages.
const PAGE_LOOKS_MAX: usize = 10_000;

impl<P: PayloadHandle> Machine<P> {
    /// Counts the messages of topics; see [`crate::Store::topic_counts`]. Always exact, never lags.
    pub fn topic_counts(&mut self, turn: &mut Turn<'_, P>, query: &TopicQuery) -> TopicPage {
        self.advance(turn);
        let names = &self.lanes.names[query.namespace as usize];
        let range = match &query.range {
            TopicRange::All => (Unbounded, Unbounded),
            TopicRange::From(from) => (Included(from), Unbounded),
            TopicRange::Only(only) => (Included(only), Included(only)),
        };
        let mut page = TopicPage::default();
        for (looks, name) in names.range::<Topic, _>(range).enumerate() {
            if looks == PAGE_LOOKS_MAX || page.topics.len() == query.limit.get() as usize {
                page.next = Some(name.clone());
                break;
            }
            page.topics.extend(self.topic(query.namespace, name));
        }
        page
    }

    /// Says how many unfinished messages a lane has that are not in memory: they count against a sender's or a redrive's `lane_max`.
    /// Only of lanes that have a message in memory.
    pub fn lane_elsewhere(&mut self, namespace: Namespace, topic: &Topic, shard: Shard, unfinished: u64) {
        let lane = self.lanes.find(namespace, topic, shard);
        self.lanes.set_elsewhere(lane, unfinished);
    }

    /// How a topic stands; none if all of its messages are Done.
    fn topic(&self, namespace: Namespace, name: &Topic) -> Option<TopicCounts> {
        let topic = self.lanes.find_topic(namespace, name)?;
        let counts = self.lanes.topic_counts(topic, None);
        let accepted = self.lanes.heads(topic).map(|message| self.messages[message].accepted_at);
        let counted = TopicCounts {
            ready: counts.ready,
            waiting: counts.waiting,
            leased: counts.leased,
            workers: self.lanes.workers(topic).take(TOPIC_WORKERS_MAX).cloned().collect(),
            dead: counts.dead,
            oldest_ready: accepted.min(),
            ..TopicCounts::none(name.clone())
        };
        let unfinished = counted.ready + counted.waiting + counted.leased + counted.dead;
        (unfinished > 0).then_some(counted)
    }
}
