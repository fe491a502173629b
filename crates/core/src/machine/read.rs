//! Reads: snapshots, listings, counts, ready topics, usage.

use super::arena::Slot;
use super::numbers::entries_after;
use super::{CallContext, Machine};
use crate::annotation::Attributes;
use crate::id::Number;
use crate::key::{Key, MessageRef, Namespace};
use crate::message::{Content, Grant, MessageState, Snapshot};
use crate::payload::{Omitted, PayloadHandle};
use crate::port::{Counts, Cursor, MessagePage, MessageQuery, PageSize, ReadyTopics, Scope, Usage};
use crate::text::Topic;
use crate::time::Timestamp;

/// The maximum number of messages that one page scans: a listing with a selective filter must not block other calls.
const PAGE_SCAN_MAX: usize = 10_000;

impl<P: PayloadHandle> Machine<P> {
    /// Reads one message; see [`crate::Store::get`].
    pub fn get(&mut self, context: &mut CallContext<'_, P>, target: &MessageRef) -> Option<Snapshot<P>> {
        self.advance(context);
        self.resolve(target).map(|slot| self.snapshot(slot))
    }

    /// Reads the messages that were accepted under a key; see [`crate::Store::with_key`]. Does not find evicted
    /// messages.
    pub fn with_key(
        &mut self,
        context: &mut CallContext<'_, P>,
        key: &Key,
        limit: PageSize,
    ) -> Vec<Snapshot<Omitted>> {
        self.advance(context);
        let slots = self.messages_with_key(key, limit.get() as usize);
        slots.into_iter().map(|slot| self.snapshot(slot).without_payload()).collect()
    }

    /// Reads one page; see [`crate::Store::page`].
    pub fn page(&mut self, context: &mut CallContext<'_, P>, query: &MessageQuery) -> MessagePage {
        self.advance(context);
        let mut page = MessagePage::default();
        for (scanned, (number, slot)) in self.numbers_after(query).enumerate() {
            if scanned == PAGE_SCAN_MAX || page.messages.len() == query.size.get() as usize {
                return page;
            }
            if self.matches(slot, query) {
                page.messages.push(self.snapshot(slot).without_payload());
            }
            page.next = Some(Cursor(number));
        }
        page.next = None;
        page
    }

    /// The messages that a listing scans from its cursor on. Dead messages have an index of their own.
    fn numbers_after<'a>(&'a self, query: &MessageQuery) -> Box<dyn Iterator<Item = (Number, Slot)> + 'a> {
        if query.state == Some(MessageState::Dead) || query.dead.is_some() {
            entries_after(&self.retention_queues.dead_numbers, query.after, query.direction)
        } else {
            self.numbers.after(query.after, query.direction)
        }
    }

    fn matches(&self, slot: Slot, query: &MessageQuery) -> bool {
        let message = &self.messages[slot];
        let has_topic =
            |topic: &Topic| message.lane.some().is_some_and(|lane| self.lanes.topic(lane) == topic);
        message.key.namespace == query.namespace
            && query.state.is_none_or(|state| message.state == state)
            && query.dead.is_none_or(|dead| message.dead == Some(dead))
            && query.source.as_ref().is_none_or(|source| message.key.source == *source)
            && query.topic.as_ref().is_none_or(has_topic)
    }

    /// Counts messages; always exact. Does not count evicted messages.
    pub fn counts(&mut self, context: &mut CallContext<'_, P>, scope: &Scope) -> Counts {
        self.advance(context);
        match &scope.topic {
            None => self.totals.namespace(scope.namespace),
            Some(topic) => {
                let found = self.lanes.find_topic(scope.namespace, topic);
                found.map_or_else(Counts::default, |topic| self.lanes.topic_counts(topic, scope.shard))
            }
        }
    }

    /// Lists the topics that have claimable messages; see [`crate::Store::ready_topics`]. Never lags.
    pub fn ready_topics(&mut self, context: &mut CallContext<'_, P>, query: &ReadyTopics) -> Vec<Topic> {
        self.advance(context);
        self.lanes.ready[query.namespace as usize].names_after(query.after.as_ref(), query.limit)
    }

    /// Reports the usage of each bound; see [`crate::Store::usage`]. Never lags. Evicted messages use nothing.
    pub fn usage(&mut self, context: &mut CallContext<'_, P>) -> Usage {
        self.advance(context);
        let mut usage = Usage::new(self.bounds().to_vec());
        usage.reorder_depths.clone_from(&self.lanes.reorder_depths);
        usage
    }

    /// The usage of the byte bound: payloads, attributes and the fixed cost of each record.
    pub fn live_bytes(&self) -> u64 {
        self.totals.bytes() + self.records.bytes()
    }

    /// The number of leased messages.
    pub fn leased(&self) -> u64 {
        Namespace::ALL.iter().map(|namespace| self.totals.namespace(*namespace).leased).sum()
    }

    /// Reports the topics that became claimable since the last call, so that their workers can be woken.
    pub fn take_wakeups(&mut self, notify: impl FnMut(Namespace, &Topic)) {
        self.lanes.take_wakeups(notify);
    }

    pub(super) fn content(&self, slot: Slot) -> Option<Content<P>> {
        let message = &self.messages[slot];
        let lane = message.lane.some()?;
        let rare = message.rare.as_deref();
        let expires = Some(message.expires).filter(|at| *at != Timestamp::NEVER);
        Some(Content {
            topic: self.lanes.topic(lane).clone(),
            shard: self.lanes.shard(lane),
            partition: message.partition.some().map(|partition| self.partitions.name(partition).clone()),
            payload: message.payload.clone()?,
            attributes: rare.map_or_else(Attributes::default, |rare| rare.attributes.clone()),
            due: rare.and_then(|rare| rare.due),
            expires,
            seal: message.seal.as_deref().copied(),
        })
    }

    pub(super) fn snapshot(&self, slot: Slot) -> Snapshot<P> {
        let message = &self.messages[slot];
        Snapshot {
            uid: message.uid,
            number: message.number,
            key: message.key.clone(),
            keyed: message.keyed && message.holds_key(self.now),
            state: message.state,
            dead: message.dead,
            content: self.content(slot),
            fingerprint: message.fingerprint,
            hash: message.hash().cloned(),
            trace: message.trace.clone(),
            policy: message.policy(),
            accepted_at: message.accepted_at,
            last_seen_at: message.last_seen_at,
            finished_at: Some(message.finished_at()).filter(|at| *at != Timestamp::NEVER),
            retry_at: Some(message.retry_at()).filter(|at| *at != Timestamp::EPOCH),
            attempts: message.attempts,
            deliveries: message.deliveries,
            redrives: message.redrives(),
            last_error: message.rare.as_ref().and_then(|rare| rare.last_error.clone()),
            grant: self.grant(slot).map(Grant::from),
        }
    }
}
