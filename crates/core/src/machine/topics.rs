//! Counts of the topics of a namespace, one page at a time.

use std::ops::Bound::{Included, Unbounded};

use super::{CallContext, Machine};
use crate::id::Shard;
use crate::key::Namespace;
use crate::limits::TOPIC_WORKERS_MAX;
use crate::payload::PayloadHandle;
use crate::port::{TopicCounts, TopicPage, TopicQuery, TopicRange};
use crate::text::Topic;

/// The maximum number of topics that one page scans: many may have only Done messages.
const PAGE_SCAN_MAX: usize = 10_000;

impl<P: PayloadHandle> Machine<P> {
    /// Counts the messages of topics; see [`crate::Store::topic_counts`]. Always exact, never lags.
    pub fn topic_counts(&mut self, context: &mut CallContext<'_, P>, query: &TopicQuery) -> TopicPage {
        self.advance(context);
        let names = &self.lanes.names[query.namespace as usize];
        let range = match &query.range {
            TopicRange::All => (Unbounded, Unbounded),
            TopicRange::From(from) => (Included(from), Unbounded),
            TopicRange::Only(only) => (Included(only), Included(only)),
        };
        let mut page = TopicPage::default();
        for (scanned, name) in names.range::<Topic, _>(range).enumerate() {
            if scanned == PAGE_SCAN_MAX || page.topics.len() == query.limit.get() as usize {
                page.next = Some(name.clone());
                break;
            }
            page.topics.extend(self.topic(query.namespace, name));
        }
        page
    }

    /// Sets the number of unfinished messages of a lane that are not in memory: they count against the `lane_max` of a
    /// sender or a redrive. The lane stays in memory from now on: for machines that exist for one decision.
    pub fn set_lane_unloaded(&mut self, namespace: Namespace, topic: &Topic, shard: Shard, unfinished: u64) {
        let lane = self.lanes.acquire(namespace, topic, shard);
        self.lanes.set_unloaded(lane, unfinished);
    }

    /// The counts of a topic; none if all of its messages are Done.
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
