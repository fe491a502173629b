//! Routes: topics with their handlers and limits.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::limits::CLAIM_TOPICS_MAX;
use oncebox_core::{Backoff, Invalid, Topic, Topics};
use tokio::time::Instant;

use super::handler::{self, DynHandler, Handler, HandlerFn};
use super::rate::Rate;
use super::transaction;
use crate::telemetry::TopicMetrics;

/// A topic's handler with settings for this topic; for [`crate::Worker::route`].
///
/// ```
/// # use std::time::Duration;
/// # use oncebox::{Oncebox, Worker};
/// use oncebox::{worker::Route, Failure, Text};
///
/// async fn send(Text(_mail): Text) -> Result<(), Failure> {
///     Ok(())
/// }
///
/// # fn worker(oncebox: &Oncebox) -> Worker {
/// Worker::new(oncebox).route(
///     Route::new("mail.send", send).concurrency(2).per_second(10.0).timeout(Duration::from_secs(20)),
/// )
/// # }
/// ```
pub struct Route<S = ()> {
    pub(super) topic: String,
    pub(super) make: Box<dyn FnOnce(S) -> DynHandler + Send>,
    pub(super) settings: RouteSettings,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RouteSettings {
    pub(super) concurrency: Option<usize>,
    pub(super) per_second: Option<f64>,
    pub(super) timeout: Option<Duration>,
    pub(super) backoff: Option<Backoff>,
    pub(super) attempts_max: Option<u32>,
    /// The type of the transaction that the handler asks for.
    pub(super) transaction: Option<TypeId>,
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// Handles this topic with an async function.
    pub fn new<Arguments, F>(topic: impl Into<String>, handler: F) -> Self
    where
        F: HandlerFn<S, Arguments>,
    {
        let make = Box::new(move |state| handler::of_function(handler, state));
        let route = Self { topic: topic.into(), make, settings: RouteSettings::default() };
        match F::transaction() {
            Some(kind) => route.in_transaction(kind),
            None => route,
        }
    }

    /// Handles the object's topic with it.
    pub fn object(handler: impl Handler) -> Self {
        let topic = handler.topic().to_owned();
        Self { topic, make: Box::new(|_| handler::of_object(handler)), settings: RouteSettings::default() }
    }

    /// Maximum number of messages of this topic handled at once.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = Some(messages);
        self
    }

    /// Maximum number of messages of this topic started per second in this worker. Bursts of up to one second's worth
    /// are allowed.
    #[must_use]
    pub fn per_second(mut self, messages: f64) -> Self {
        self.settings.per_second = Some(messages);
        self
    }

    /// Stops a handler that runs longer than this; that counts as a failure. Overrides [`crate::Worker::timeout`].
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// The backoff after failures. Overrides [`crate::Worker::backoff`].
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = Some(backoff);
        self
    }

    /// Maximum number of failed attempts, if the sender set none. Overrides [`crate::Worker::attempts_max`].
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.settings.attempts_max = Some(attempts);
        self
    }
}

impl<S> Route<S> {
    /// Runs the handler in a transaction of this type.
    pub(crate) fn in_transaction(mut self, kind: TypeId) -> Self
    where
        S: 'static,
    {
        let make = self.make;
        self.make = Box::new(move |state| transaction::in_transaction(make(state)));
        self.settings.transaction = Some(kind);
        self
    }
}

impl RouteSettings {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        if self.concurrency == Some(0) {
            return Err(Invalid::new("concurrency of a topic", "must be greater than zero"));
        }
        if self.per_second.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(Invalid::new("rate of a topic", "must be greater than zero"));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Invalid::new("timeout", "must be greater than zero"));
        }
        if self.attempts_max == Some(0) {
            return Err(Invalid::new("attempts_max", "must be greater than zero"));
        }
        Ok(())
    }
}

/// A route of a running worker.
pub(super) struct ActiveRoute {
    pub(super) topic: Topic,
    pub(super) handler: DynHandler,
    pub(super) settings: RouteSettings,
    pub(super) metrics: TopicMetrics,
    pub(super) rate: Option<Rate>,
    /// Handlers that are running.
    pub(super) running: usize,
    /// Deliveries that wait for a handler.
    pub(super) queued: usize,
}

impl ActiveRoute {
    pub(super) fn is_limited(&self) -> bool {
        self.settings.concurrency.is_some() || self.rate.is_some()
    }

    /// How many more messages may be claimed.
    fn capacity(&mut self, now: Instant) -> usize {
        let by_concurrency =
            self.settings.concurrency.map_or(usize::MAX, |limit| limit - self.running.min(limit));
        let by_rate = self.rate.as_mut().map_or(usize::MAX, |rate| rate.available(now));
        by_concurrency.min(by_rate).saturating_sub(self.queued)
    }

    /// Whether a queued delivery may start.
    pub(super) fn may_start(&mut self, now: Instant) -> bool {
        self.settings.concurrency.is_none_or(|limit| self.running < limit)
            && self.rate.as_mut().is_none_or(|rate| rate.available(now) > 0)
    }
}

/// All routes of a worker, and how it claims from them.
pub(super) struct RouteTable {
    pub(super) all: Vec<ActiveRoute>,
    by_topic: HashMap<Topic, usize>,
    /// Topics that are claimed together: each limited topic alone, the others grouped by their limit of attempts.
    groups: Vec<ClaimGroup>,
    /// The claim group that comes first in the next claim, so that none starves.
    rotation: usize,
}

struct ClaimGroup {
    topics: Topics,
    /// The limit of attempts that its claims carry.
    attempts_max: Option<NonZeroU32>,
    /// The index of the route, if this is a limited topic.
    route: Option<usize>,
}

/// A part of the worker's free capacity.
pub(super) struct Share {
    pub(super) group: usize,
    pub(super) topics: Topics,
    pub(super) attempts_max: Option<NonZeroU32>,
    pub(super) messages: usize,
}

impl RouteTable {
    /// `attempts_max` is the default for routes without a limit of attempts.
    pub(super) fn new(all: Vec<ActiveRoute>, attempts_max: Option<u32>) -> Result<Self, Invalid> {
        let by_topic = all.iter().enumerate().map(|(index, route)| (route.topic.clone(), index)).collect();
        let limit =
            |route: &ActiveRoute| route.settings.attempts_max.or(attempts_max).and_then(NonZeroU32::new);
        let mut groups = Vec::new();
        for (index, route) in all.iter().enumerate().filter(|(_, route)| route.is_limited()) {
            let topics = Topics::only([route.topic.clone()])?;
            groups.push(ClaimGroup { topics, attempts_max: limit(route), route: Some(index) });
        }
        let mut free: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for route in all.iter().filter(|route| !route.is_limited()) {
            free.entry(limit(route)).or_default().push(route.topic.clone());
        }
        for (attempts_max, topics) in free {
            for topics in topics.chunks(CLAIM_TOPICS_MAX) {
                groups.push(ClaimGroup {
                    topics: Topics::only(topics.iter().cloned())?,
                    attempts_max,
                    route: None,
                });
            }
        }
        Ok(Self { all, by_topic, groups, rotation: 0 })
    }

    /// Claims every topic, including those without a handler.
    pub(super) fn claim_all_topics(&mut self, attempts_max: Option<u32>) {
        let attempts_max = attempts_max.and_then(NonZeroU32::new);
        self.groups = vec![ClaimGroup { topics: Topics::ALL, attempts_max, route: None }];
    }

    pub(super) fn find(&self, topic: &Topic) -> Option<usize> {
        self.by_topic.get(topic).copied()
    }

    /// The topics to be woken for.
    pub(super) fn interest(&self) -> Topics {
        let named = Topics::only(self.all.iter().map(|route| route.topic.clone()));
        if self.groups.iter().any(|group| group.topics.named().is_none()) {
            Topics::ALL
        } else {
            named.unwrap_or(Topics::ALL)
        }
    }

    /// The number of claim groups.
    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The claim groups that may be claimed from now, in rotation; the others have reached their limits.
    pub(super) fn claimable(&mut self, now: Instant) -> Vec<usize> {
        let count = self.groups.len();
        let mut claimable: Vec<_> = (0..count).map(|index| (index + self.rotation) % count).collect();
        claimable.retain(|group| self.limit(*group, now) > 0);
        claimable
    }

    /// How many more messages may be claimed for a group.
    fn limit(&mut self, group: usize, now: Instant) -> usize {
        self.groups[group].route.map_or(usize::MAX, |route| self.all[route].capacity(now))
    }

    /// Divides `capacity` among the groups that may be claimed from, in rotation, with the drained ones last.
    pub(super) fn shares(&mut self, capacity: usize, now: Instant, drained: &BTreeSet<usize>) -> Vec<Share> {
        self.rotation = (self.rotation + 1) % self.groups.len().max(1);
        let mut claimable = self.claimable(now);
        claimable.sort_by_key(|group| drained.contains(group));
        let (mut left, mut list) = (capacity, Vec::new());
        let all = claimable.len();
        for (index, group) in claimable.into_iter().enumerate() {
            let messages = left.div_ceil(all - index).min(self.limit(group, now));
            if messages == 0 {
                break;
            }
            left -= messages;
            let ClaimGroup { topics, attempts_max, .. } = &self.groups[group];
            list.push(Share { group, topics: topics.clone(), attempts_max: *attempts_max, messages });
        }
        list
    }

    /// When a topic that has used up its rate may start again.
    pub(super) fn next_rate(&mut self, now: Instant) -> Option<Instant> {
        let rates = self.all.iter_mut().filter_map(|route| route.rate.as_mut());
        rates.filter_map(|rate| (rate.available(now) == 0).then(|| rate.next(now))).min()
    }
}
