//! Reading: snapshots, listings, counts, ready topics, usage.

use super::arena::Slot;
use super::numbers::entries_after;
use super::{Machine, Turn};
use crate::annotation::Attributes;
use crate::id::Number;
use crate::key::{Key, Namespace, Ref};
use crate::message::{Content, Grant, Snapshot, State};
use crate::payload::{Omitted, PayloadHandle};
use crate::port::{Counts, Cursor, Page, PageSize, Query, ReadyTopics, Scope, Usage};
use crate::text::Topic;
use crate::time::Timestamp;

/// Messages that one page looks at, at most: a listing with a rare filter must not hold everybody up.
const PAGE_LOOKS_MAX: usize = 10_000;

impl<P: PayloadHandle> Machine<P> {
    /// Reads one message; see [`crate::Store::get`].
    pub fn get(&mut self, turn: &mut Turn<'_, P>, target: &Ref) -> Option<Snapshot<P>> {
        self.advance(turn);
        self.resolve(target).map(|slot| self.snapshot(slot))
    }

    /// Reads the messages that came under a key; see [`crate::Store::with_key`]. Messages that were evicted are not here to be found.
    pub fn with_key(&mut self, turn: &mut Turn<'_, P>, key: &Key, limit: PageSize) -> Vec<Snapshot<Omitted>> {
        self.advance(turn);
        let slots = self.bearers(key, limit.get() as usize);
        slots.into_iter().map(|slot| self.snapshot(slot).without_payload()).collect()
    }

    /// Reads one page; see [`crate::Store::page`].
    pub fn page(&mut self, turn: &mut Turn<'_, P>, query: &Query) -> Page {
        self.advance(turn);
        let mut page = Page::default();
        for (looks, (number, slot)) in self.numbers_after(query).enumerate() {
            if looks == PAGE_LOOKS_MAX || page.messages.len() == query.size.get() as usize {
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

    /// What a listing looks at from its cursor on. What is Dead has an index of its own.
    fn numbers_after<'a>(&'a self, query: &Query) -> Box<dyn Iterator<Item = (Number, Slot)> + 'a> {
        if query.state == Some(State::Dead) || query.dead.is_some() {
            entries_after(&self.shelves.dead_numbers, query.after, query.direction)
        } else {
            self.numbers.after(query.after, query.direction)
        }
    }

    fn matches(&self, slot: Slot, query: &Query) -> bool {
        let message = &self.messages[slot];
        let has_topic =
            |topic: &Topic| message.lane.some().is_some_and(|lane| self.lanes.topic(lane) == topic);
        message.key.namespace == query.namespace
            && query.state.is_none_or(|state| message.state == state)
            && query.dead.is_none_or(|dead| message.dead == Some(dead))
            && query.source.as_ref().is_none_or(|source| message.key.source == *source)
            && query.topic.as_ref().is_none_or(has_topic)
    }

    /// Counts messages; always exact. Messages that were evicted are not here to be counted.
    pub fn counts(&mut self, turn: &mut Turn<'_, P>, scope: &Scope) -> Counts {
        self.advance(turn);
        match &scope.topic {
            None => self.tally.namespace(scope.namespace),
            Some(topic) => {
                let found = self.lanes.find_topic(scope.namespace, topic);
                found.map_or_else(Counts::default, |topic| self.lanes.topic_counts(topic, scope.shard))
            }
        }
    }

    /// Names the topics that have something claimable; see [`crate::Store::ready_topics`]. Never lags.
    pub fn ready_topics(&mut self, turn: &mut Turn<'_, P>, query: &ReadyTopics) -> Vec<Topic> {
        self.advance(turn);
        self.lanes.ready[query.namespace as usize].names_after(query.after.as_ref(), query.limit)
    }

    /// Tells how much of each bound is used; see [`crate::Store::usage`]. Never lags. Messages that were evicted use nothing.
    pub fn usage(&mut self, turn: &mut Turn<'_, P>) -> Usage {
        self.advance(turn);
        let mut usage = Usage::new(self.bounds().to_vec());
        usage.reorder_depths.clone_from(&self.lanes.reorder_depths);
        usage
    }

    /// What the byte bound counts: payloads, attributes and the fixed cost of each record.
    pub fn live_bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Messages that are leased.
    pub fn leased(&self) -> u64 {
        Namespace::ALL.iter().map(|namespace| self.tally.namespace(*namespace).leased).sum()
    }

    /// Tells which topics became claimable since the last call: whom to wake.
    pub fn take_woken(&mut self, tell: impl FnMut(Namespace, &Topic)) {
        self.lanes.take_woken(tell);
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
            grant: self.held(slot).map(Grant::from),
        }
    }
}
