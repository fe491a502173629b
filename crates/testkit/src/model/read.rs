//! Reads: single messages, listings, counts, ready topics, topics, and the next instants at which something changes.

use std::collections::{BTreeMap, BTreeSet};

use oncebox_core::limits::TOPIC_WORKERS_MAX;
use oncebox_core::{
    Counts, Direction, Key, Lease, MessageQuery, MessageRef, MessageState, Namespace, Omitted, PageSize,
    ReadyTopics, Scope, Snapshot, Timestamp, Topic, TopicCounts, TopicPage, TopicQuery, Uid,
};

use super::maintenance::repeat_window_end;
use super::{Facts, Illegal, Model};

impl Model {
    /// The expected result of `get`.
    pub fn get(
        &mut self,
        target: &MessageRef,
        actual: Option<&Snapshot>,
    ) -> Result<Option<Snapshot>, Illegal> {
        self.catch_up();
        if let Some(actual) = actual {
            self.note_number(actual.uid, actual.number)?;
        }
        Ok(self.find(target).map(|index| self.view(index)))
    }

    /// The expected result of `with_key`.
    pub fn with_key(
        &mut self,
        key: &Key,
        limit: PageSize,
        actual: &[Snapshot<Omitted>],
    ) -> Result<Vec<Snapshot<Omitted>>, Illegal> {
        self.catch_up();
        for message in actual {
            self.note_number(message.uid, message.number)?;
        }
        let with_key = (0..self.rows.len()).filter(|index| self.rows[*index].message.key == *key);
        let mut found: Vec<_> = with_key.map(|index| self.view(index)).collect();
        found.sort_by_key(|message| std::cmp::Reverse((message.accepted_at, message.uid)));
        found.truncate(limit.get() as usize);
        Ok(found.into_iter().map(Snapshot::without_payload).collect())
    }

    /// The expected result of all pages of a listing together, whatever the cursor and the page size of the query.
    pub fn list(
        &mut self,
        query: &MessageQuery,
        actual: &[Snapshot<Omitted>],
    ) -> Result<Vec<Snapshot<Omitted>>, Illegal> {
        self.catch_up();
        for message in actual {
            self.note_number(message.uid, message.number)?;
        }
        let mut listed: Vec<_> = self.in_order().into_iter().map(|index| self.view(index)).collect();
        listed.retain(|message| {
            let topic = message.content.as_ref().map(|content| &content.topic);
            message.key.namespace == query.namespace
                && (query.state.is_none() || query.state == Some(message.state))
                && (query.dead.is_none() || query.dead == message.dead)
                && (query.topic.is_none() || query.topic.as_ref() == topic)
                && (query.source.is_none() || query.source.as_ref() == Some(&message.key.source))
        });
        if query.direction == Direction::NewestFirst {
            listed.reverse();
        }
        Ok(listed.into_iter().map(Snapshot::without_payload).collect())
    }

    /// The expected result of `counts`, if it does not lag.
    pub fn counts(&mut self, scope: &Scope) -> Counts {
        self.catch_up();
        let mut counts = Counts::default();
        for message in self.rows.iter().map(|row| &row.message) {
            let topic = message.content.as_ref().map(|content| &content.topic);
            let shard = message.content.as_ref().map(|content| content.shard);
            let counted = scope.topic.is_none()
                || scope.topic.as_ref() == topic && (scope.shard.is_none() || scope.shard == shard);
            if message.key.namespace != scope.namespace || !counted {
                continue;
            }
            let count = match message.state {
                MessageState::Seen => &mut counts.seen,
                MessageState::Done => &mut counts.done,
                MessageState::Dead => &mut counts.dead,
                _ if message.is_leased() => &mut counts.leased,
                _ if self.is_claimable(message) => &mut counts.ready,
                _ => &mut counts.waiting,
            };
            *count += 1;
        }
        counts
    }

    /// The expected result of `ready_topics`, if it does not lag.
    pub fn ready_topics(&mut self, query: &ReadyTopics) -> Vec<Topic> {
        self.catch_up();
        let messages = self.rows.iter().map(|row| &row.message);
        let claimable =
            messages.filter(|message| message.key.namespace == query.namespace && self.is_claimable(message));
        let mut topics: Vec<_> =
            claimable.filter_map(|message| Some(message.content.as_ref()?.topic.clone())).collect();
        topics.sort();
        topics.dedup();
        topics.retain(|topic| query.after.as_ref().is_none_or(|after| topic > after));
        topics.truncate(query.limit.get() as usize);
        topics
    }

    /// The expected result of `topic_counts`, if it does not lag and returns full pages.
    pub fn topic_counts(&mut self, query: &TopicQuery) -> TopicPage {
        self.catch_up();
        let messages = self.rows.iter().map(|row| &row.message);
        let unfinished = messages.filter(|message| {
            message.key.namespace == query.namespace && message.state != MessageState::Done
        });
        let mut topics: Vec<_> =
            unfinished.filter_map(|message| Some(message.content.as_ref()?.topic.clone())).collect();
        topics.sort();
        topics.dedup();
        topics.retain(|topic| query.range.contains(topic));
        let next = topics.get(query.limit.get() as usize).cloned();
        topics.truncate(query.limit.get() as usize);
        let topics = topics.into_iter().map(|topic| self.topic_counted(query.namespace, &topic)).collect();
        TopicPage { topics, next }
    }

    fn topic_counted(&mut self, namespace: Namespace, topic: &Topic) -> TopicCounts {
        let counts = self.counts(&Scope::topic(namespace, topic.clone()));
        let mut counted = TopicCounts::none(topic.clone());
        (counted.ready, counted.waiting) = (counts.ready, counts.waiting);
        (counted.leased, counted.dead) = (counts.leased, counts.dead);
        let mut heads = BTreeMap::new();
        for index in self.in_order() {
            let message = &self.rows[index].message;
            let content = message.content.as_ref().filter(|content| content.topic == *topic);
            if let Some(content) = content
                && message.key.namespace == namespace
                && self.is_claimable(message)
            {
                heads.entry(content.shard).or_insert(message.accepted_at);
            }
        }
        counted.oldest_ready = heads.into_values().min();
        let messages = self.rows.iter().map(|row| &row.message);
        let leased = messages.filter(|message| {
            let here = message.content.as_ref().is_some_and(|content| content.topic == *topic);
            here && message.key.namespace == namespace && message.state == MessageState::Processing
        });
        let workers: BTreeSet<_> = leased.filter_map(|message| message.current()?.worker.clone()).collect();
        counted.workers = workers.into_iter().take(TOPIC_WORKERS_MAX).collect();
        counted
    }

    /// The current leases, with the messages that they belong to.
    pub fn leases(&self) -> Vec<(Uid, Lease)> {
        let messages = self.rows.iter().map(|row| &row.message);
        messages.filter_map(|message| Some((message.uid, message.current()?.lease))).collect()
    }

    /// The moments after now at which some rule takes effect, in order.
    pub fn instants(&self) -> Vec<Timestamp> {
        let mut instants = Vec::new();
        for message in self.rows.iter().map(|row| &row.message) {
            let content = message.content.as_ref();
            instants.extend(message.next_event());
            instants.extend(message.current().map(|grant| grant.extendable_until));
            instants.extend(content.and_then(|content| content.due));
            instants.extend(content.and_then(|content| content.expires));
            instants.extend(message.retry_at);
            instants.extend(repeat_window_end(message));
            instants.push(message.held_until());
        }
        instants.retain(|at| self.now < *at && *at != Timestamp::NEVER);
        instants.sort();
        instants.dedup();
        instants
    }

    /// All messages in order of number.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut indices: Vec<_> = (0..self.rows.len()).collect();
        indices.sort_by_key(|index| self.rows[*index].message.number);
        indices
    }

    fn view(&self, index: usize) -> Snapshot {
        let message = self.rows[index].message.clone();
        Snapshot { number: self.number(index), keyed: message.holds_key(self.now), ..message }
    }
}
