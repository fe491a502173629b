//! Watching over a store: which topics have work, how they stand, and how full it is.

use std::collections::BTreeMap;

use crate::id::Shard;
use crate::key::Namespace;
#[cfg(doc)]
use crate::limits::TOPIC_WORKERS_MAX;
use crate::port::PageSize;
use crate::text::Topic;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// Which topics to name: those of a namespace that have something claimable, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyTopics {
    /// Of this namespace.
    pub namespace: Namespace,
    /// After this one, byte by byte; there need not be such a topic.
    pub after: Option<Topic>,
    /// So many at most.
    pub limit: PageSize,
}

impl ReadyTopics {
    /// The first of a namespace, as many as may be asked for.
    pub fn first(namespace: Namespace) -> Self {
        Self { namespace, after: None, limit: PageSize::MAX }
    }
}

/// Which topics to count: those of a namespace that have messages which are not Done, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicQuery {
    /// Of this namespace.
    pub namespace: Namespace,
    /// Those in this range.
    pub range: TopicRange,
    /// This many at most.
    pub limit: PageSize,
}

/// A range of topics, byte by byte; there need not be a topic of a name that it is given by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TopicRange {
    /// Every topic.
    #[default]
    All,
    /// This one and those after it.
    From(Topic),
    /// This one. A store reads nothing to count others.
    Only(Topic),
}

impl TopicRange {
    /// Whether a topic is in it.
    pub fn contains(&self, topic: &Topic) -> bool {
        match self {
            Self::All => true,
            Self::From(from) => topic >= from,
            Self::Only(only) => topic == only,
        }
    }
}

impl TopicQuery {
    /// The first of a namespace, as many as a page may have.
    pub fn first(namespace: Namespace) -> Self {
        Self { namespace, range: TopicRange::All, limit: PageSize::MAX }
    }

    /// One topic of a namespace.
    pub fn only(namespace: Namespace, topic: Topic) -> Self {
        Self { namespace, range: TopicRange::Only(topic), limit: PageSize::MAX }
    }
}

/// How the messages of one topic stand.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicCounts {
    /// The topic.
    pub topic: Topic,
    /// Claimable now.
    pub ready: u64,
    /// Neither claimable nor leased: not due, waiting for its retry time or its partition.
    pub waiting: u64,
    /// Under a current lease.
    pub leased: u64,
    /// The workers that hold current leases and have a name, by name: the first [`TOPIC_WORKERS_MAX`].
    pub workers: Vec<WorkerName>,
    /// Dead.
    pub dead: u64,
    /// When the first claimable message was accepted: of the first in each shard, by number, the earliest. None if nothing is
    /// claimable. A message that was redriven stands behind those that came before its redrive.
    pub oldest_ready: Option<Timestamp>,
    /// The numbers are estimates: at least one of them is too low.
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
    /// Where the next page begins; none at the end.
    pub next: Option<Topic>,
}

/// One of the bounds of a store, and how much of it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The name in labels and answers; never changes.
    pub name: &'static str,
    /// So much is used; more than the limit if the limit was lowered.
    pub used: u64,
    /// So much may be used.
    pub limit: u64,
}

impl Bound {
    /// The name of the bound on messages that are not Done.
    pub const MESSAGES: &'static str = "messages";
    /// The name of the bound on keys and records of any kind, Done ones included.
    pub const KEYS: &'static str = "keys";
    /// The name of the bound on payloads, texts and the fixed cost of each record together.
    pub const LIVE_BYTES: &'static str = "live_bytes";
    /// The name of the bound on unfinished messages of one lane, which the sender names.
    pub const LANE_MESSAGES: &'static str = "lane_messages";
    /// The name of the bound on deliveries that are out at once, which the claimer names.
    pub const IN_FLIGHT: &'static str = "in_flight";
    /// The name of the bound that the disk sets: bytes of the files that a store keeps there. Its limit is what it has when
    /// the disk gives no more.
    pub const DISK_BYTES: &'static str = "disk_bytes";

    /// A bound and how much of it is used.
    pub const fn new(name: &'static str, used: u64, limit: u64) -> Self {
        Self { name, used, limit }
    }

    /// What is refused while it is reached, and why: the first half of a sentence.
    pub fn problem(&self) -> &'static str {
        match self.name {
            Self::MESSAGES => "the store holds as many unfinished messages as it may",
            Self::KEYS => "the store knows as many keys as it may",
            Self::LIVE_BYTES => "the store has too little memory left",
            Self::LANE_MESSAGES => "the shard holds as many unfinished messages as it may",
            Self::IN_FLIGHT => "as many messages are in flight as may be",
            Self::DISK_BYTES => "the disk is full",
            _ => "a bound is reached",
        }
    }

    /// What an operator can do about it: the second half of that sentence.
    pub fn remedy(&self) -> &'static str {
        match self.name {
            Self::MESSAGES => "let consumers catch up, or raise `messages_max` in the URL of the store",
            Self::KEYS => "keep keys for a shorter time, or raise `keys_max` in the URL of the store",
            Self::LIVE_BYTES => "let consumers catch up, or raise `live_bytes_max` in the URL of the store",
            Self::LANE_MESSAGES => {
                "let consumers catch up, spread the topic by a shard key, or raise `mailbox.shard_capacity`"
            }
            Self::IN_FLIGHT => "acknowledge what was received, or raise `mailbox.global_in_flight`",
            Self::DISK_BYTES => "free space on the disk that the store is on",
            _ => "raise it",
        }
    }

    /// How much of the limit is used: 0 is nothing, 1 all of it. Where nothing may be used, all of it is.
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact to the last of 2^53 units")]
    pub fn share(&self) -> f64 {
        if self.limit == 0 { 1.0 } else { self.used as f64 / self.limit as f64 }
    }
}

/// How much of its bounds a store uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Each bound once; none in a store without bounds.
    pub bounds: Vec<Bound>,
    /// Why the store cannot take in any more, and what to do, if that is none of its bounds: it may open no more files, say.
    pub trouble: Option<String>,
    /// By shard, the most messages that one lane of the mailbox gave out past its oldest inherited delivery since the store was opened
    /// (MBX-G-9): never more than [`crate::limits::MAILBOX_REORDER_MESSAGES_MAX`]. Shards that gave out none are not in it.
    pub reorder_depths: BTreeMap<Shard, u64>,
}

impl Usage {
    /// The usage of these bounds.
    pub fn new(bounds: Vec<Bound>) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// The bound with the largest share, the first of them if there are several; none in a store without bounds.
    pub fn fullest(&self) -> Option<&Bound> {
        self.bounds
            .iter()
            .reduce(|fullest, bound| if bound.share() > fullest.share() { bound } else { fullest })
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Usage};

    /// Holds: RULE-20.
    #[test]
    fn the_fullest_bound_is_the_one_with_the_largest_share() {
        let [messages, keys, bytes] = [("messages", 8, 10), ("keys", 40, 100), ("live_bytes", 800, 1_000)]
            .map(|(name, used, limit)| Bound::new(name, used, limit));
        assert_eq!(Usage::default().fullest(), None);
        assert_eq!(Usage::new(vec![keys]).fullest(), Some(&keys));
        assert_eq!(Usage::new(vec![keys, messages, bytes]).fullest(), Some(&messages));
        assert_eq!(Usage::new(vec![bytes, keys, messages]).fullest(), Some(&bytes));
        let shut = Bound::new("keys", 0, 0);
        assert_eq!(Usage::new(vec![bytes, shut]).fullest(), Some(&shut));
    }

    #[test]
    fn a_share_is_of_the_limit_and_may_pass_it() {
        let shares = [(0, 10), (8, 10), (15, 10), (0, 0), (u64::MAX, u64::MAX)];
        let shares = shares.map(|(used, limit)| format!("{:.2}", Bound::new("keys", used, limit).share()));
        assert_eq!(shares, ["0.00", "0.80", "1.50", "1.00", "1.00"]);
    }
}
