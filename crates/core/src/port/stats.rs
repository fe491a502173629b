//! Statistics: topics with claimable messages, counts per topic, and how full the store is.

use std::collections::BTreeMap;

use crate::bound::Bound;
use crate::id::Shard;
use crate::key::Namespace;
#[cfg(doc)]
use crate::limits::TOPIC_WORKERS_MAX;
use crate::port::PageSize;
use crate::text::Topic;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// A query for the topics of a namespace that have claimable messages, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyTopics {
    /// The namespace.
    pub namespace: Namespace,
    /// Topics after this name in byte order; a topic of this name need not exist.
    pub after: Option<Topic>,
    /// The maximum number of topics.
    pub limit: PageSize,
}

impl ReadyTopics {
    /// The first page of a namespace, with the maximum page size.
    pub fn first(namespace: Namespace) -> Self {
        Self { namespace, after: None, limit: PageSize::MAX }
    }
}

/// A query for the topics of a namespace that have messages which are not Done, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicQuery {
    /// The namespace.
    pub namespace: Namespace,
    /// The topics to count.
    pub range: TopicRange,
    /// The maximum number of topics.
    pub limit: PageSize,
}

/// A range of topics in byte order; a topic with the name of a bound need not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TopicRange {
    /// Every topic.
    #[default]
    All,
    /// This topic and those after it.
    From(Topic),
    /// Only this topic. A store reads nothing about other topics.
    Only(Topic),
}

impl TopicRange {
    /// Whether a topic is in the range.
    pub fn contains(&self, topic: &Topic) -> bool {
        match self {
            Self::All => true,
            Self::From(from) => topic >= from,
            Self::Only(only) => topic == only,
        }
    }
}

impl TopicQuery {
    /// The first page of a namespace, with the maximum page size.
    pub fn first(namespace: Namespace) -> Self {
        Self { namespace, range: TopicRange::All, limit: PageSize::MAX }
    }

    /// One topic of a namespace.
    pub fn only(namespace: Namespace, topic: Topic) -> Self {
        Self { namespace, range: TopicRange::Only(topic), limit: PageSize::MAX }
    }
}

/// Message counts of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// The topic.
    pub topic: Topic,
    /// Claimable now.
    pub ready: u64,
    /// Neither claimable nor leased: not due, or waiting for the retry time or the partition.
    pub waiting: u64,
    /// Under a current lease.
    pub leased: u64,
    /// The names of workers that hold current leases, sorted: the first [`TOPIC_WORKERS_MAX`].
    pub workers: Vec<WorkerName>,
    /// Dead.
    pub dead: u64,
    /// When the oldest claimable message was accepted: the earliest among the first claimable message, by number, of
    /// each shard. None if no message is claimable. A redriven message ranks behind those accepted before its redrive.
    pub oldest_ready: Option<Timestamp>,
    /// The counts are estimates: at least one of them is too low.
    pub estimated: bool,
}

impl TopicCounts {
    /// A topic without messages.
    pub const fn none(topic: Topic) -> Self {
        let (ready, waiting, leased, dead) = (0, 0, 0, 0);
        Self {
            topic,
            ready,
            waiting,
            leased,
            workers: Vec::new(),
            dead,
            oldest_ready: None,
            estimated: false,
        }
    }
}

/// One page of the topics of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicPage {
    /// The topics, by name.
    pub topics: Vec<TopicCounts>,
    /// Where the next page starts; none at the end.
    pub next: Option<Topic>,
}

/// How much of its bounds a store uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Each bound once; none in a store without bounds.
    pub bounds: Vec<Bound>,
    /// Why the store refuses writes, and what to do, if the cause is not one of its bounds: for example, it cannot open
    /// more files.
    pub problem: Option<String>,
    /// By shard, the maximum number of messages that one mailbox lane has delivered past its oldest inherited delivery
    /// since the store was opened (MBX-G-9): at most [`crate::limits::MAILBOX_REORDER_MESSAGES_MAX`]. Shards without
    /// any are left out.
    pub reorder_depths: BTreeMap<Shard, u64>,
}

impl Usage {
    /// The usage of these bounds.
    pub fn new(bounds: Vec<Bound>) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// The bound with the largest used share, the first one among equals; none in a store without bounds.
    pub fn fullest(&self) -> Option<&Bound> {
        self.bounds
            .iter()
            .reduce(|fullest, bound| if bound.share() > fullest.share() { bound } else { fullest })
    }
}

#[cfg(test)]
mod tests {
    use super::Usage;
    use crate::bound::Bound;

    /// Holds: RULE-20.
    #[test]
    fn the_fullest_bound_is_the_one_with_the_largest_share() {
        let [messages, keys, bytes] = [("messages", 8, 10), ("keys", 40, 100), ("live_bytes", 800, 1_000)]
            .map(|(name, used, limit)| Bound::new(name, used, limit));
        assert_eq!(Usage::default().fullest(), None);
        assert_eq!(Usage::new(vec![keys]).fullest(), Some(&keys));
        assert_eq!(Usage::new(vec![keys, messages, bytes]).fullest(), Some(&messages));
        assert_eq!(Usage::new(vec![bytes, keys, messages]).fullest(), Some(&bytes));
        let empty_limit = Bound::new("keys", 0, 0);
        assert_eq!(Usage::new(vec![bytes, empty_limit]).fullest(), Some(&empty_limit));
    }
}
