//! From a topic to its handler, with the limits of that topic.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::limits::CLAIM_TOPICS_MAX;
use oncebox_core::{Backoff, Invalid, Topic, Topics};
use tokio::time::Instant;

use super::handler::{self, Endpoint, Handler, HandlerFn};
use super::rate::Rate;
use super::transaction;
use crate::telemetry::TopicMetrics;

/// A topic's handler with settings of its own; for [`crate::Worker::route`].
///
/// ```
/// # use std::time::Duration;
/// # use oncebox::{Oncebox, Worker};
/// use oncebox::{Failure, Route, Text};
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
    pub(super) make: Box<dyn FnOnce(S) -> Endpoint + Send>,
    pub(super) settings: RouteSettings,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RouteSettings {
    pub(super) concurrency: Option<usize>,
    pub(super) per_second: Option<f64>,
    pub(super) timeout: Option<Duration>,
    pub(super) backoff: Option<Backoff>,
    pub(super) attempts_max: Option<u32>,
    /// The type of the transaction that its handler asks for.
    pub(super) transaction: Option<TypeId>,
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// This topic is handled by this function.
    pub fn new<Arguments, F>(topic: impl Into<String>, handler: F) -> Self
    where
        F: HandlerFn<S, Arguments>,
    {
        let make = Box::new(move |state| handler::of_function(handler, state));
        let settings = RouteSettings { transaction: F::transaction(), ..RouteSettings::default() };
        Self { topic: topic.into(), make, settings }
    }

    /// The object's topic is handled by it.
    pub fn object(handler: impl Handler) -> Self {
        let topic = handler.topic().to_owned();
        Self { topic, make: Box::new(|_| handler::of_object(handler)), settings: RouteSettings::default() }
    }

    /// At most so many messages of the topic are handled at once.
    #[must_use]
    pub fn concurrency(mut self, messages: usize) -> Self {
        self.settings.concurrency = Some(messages);
        self
    }

    /// At most so many are started per second in this worker, up to a second's worth at once.
    #[must_use]
    pub fn per_second(mut self, messages: f64) -> Self {
        self.settings.per_second = Some(messages);
        self
    }

    /// A handler that runs longer is stopped; that counts as a failure.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// When a failed message is tried again.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = Some(backoff);
        self
    }

    /// Given up after this many failed attempts, if the sender named no limit of its own.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.settings.attempts_max = Some(attempts);
        self
    }
}

impl<S> Route<S> {
    /// Its handler runs in a transaction of this type, also if it does not ask for it.
    pub(crate) fn in_transaction(mut self, kind: TypeId) -> Self
    where
        S: 'static,
    {
        let make = self.make;
        self.make = Box::new(move |state| transaction::around(make(state)));
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

/// A route at work.
pub(super) struct Lane {
    pub(super) topic: Topic,
    pub(super) endpoint: Endpoint,
    pub(super) settings: RouteSettings,
    pub(super) metrics: TopicMetrics,
    pub(super) rate: Option<Rate>,
    /// Handlers that run.
    pub(super) running: usize,
    /// Messages that wait here for a handler.
    pub(super) queued: usize,
}

impl Lane {
    pub(super) fn is_limited(&self) -> bool {
        self.settings.concurrency.is_some() || self.rate.is_some()
    }

    /// How many more may be claimed.
    fn room(&mut self, now: Instant) -> usize {
        let by_concurrency =
            self.settings.concurrency.map_or(usize::MAX, |limit| limit - self.running.min(limit));
        let by_rate = self.rate.as_mut().map_or(usize::MAX, |rate| rate.available(now));
        by_concurrency.min(by_rate).saturating_sub(self.queued)
    }

    /// Whether one that waits here may start.
    pub(super) fn may_start(&mut self, now: Instant) -> bool {
        self.settings.concurrency.is_none_or(|limit| self.running < limit)
            && self.rate.as_mut().is_none_or(|rate| rate.available(now) > 0)
    }
}

/// All routes of a worker, and what its claims ask for.
pub(super) struct Lanes {
    pub(super) all: Vec<Lane>,
    by_topic: HashMap<Topic, usize>,
    /// What claims ask for: each limited topic by itself, the others together with those that may be tried as often.
    wishes: Vec<Wish>,
    /// The wish that comes first in the next claim, so that none starves.
    turn: usize,
}

struct Wish {
    topics: Topics,
    /// The limit of attempts that claims for it carry.
    attempts_max: Option<NonZeroU32>,
    /// The limited topic that this is.
    lane: Option<usize>,
}

/// A share of the room that a worker has.
pub(super) struct Share {
    pub(super) wish: usize,
    pub(super) topics: Topics,
    pub(super) attempts_max: Option<NonZeroU32>,
    pub(super) messages: usize,
}

impl Lanes {
    /// `attempts_max` is the limit of topics that have none of their own.
    pub(super) fn new(all: Vec<Lane>, attempts_max: Option<u32>) -> Result<Self, Invalid> {
        let by_topic = all.iter().enumerate().map(|(place, lane)| (lane.topic.clone(), place)).collect();
        let limit = |lane: &Lane| lane.settings.attempts_max.or(attempts_max).and_then(NonZeroU32::new);
        let mut wishes = Vec::new();
        for (place, lane) in all.iter().enumerate().filter(|(_, lane)| lane.is_limited()) {
            let topics = Topics::only([lane.topic.clone()])?;
            wishes.push(Wish { topics, attempts_max: limit(lane), lane: Some(place) });
        }
        let mut free: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for lane in all.iter().filter(|lane| !lane.is_limited()) {
            free.entry(limit(lane)).or_default().push(lane.topic.clone());
        }
        for (attempts_max, topics) in free {
            for topics in topics.chunks(CLAIM_TOPICS_MAX) {
                wishes.push(Wish { topics: Topics::only(topics.iter().cloned())?, attempts_max, lane: None });
            }
        }
        Ok(Self { all, by_topic, wishes, turn: 0 })
    }

    /// Asks for every topic, also those that nobody handles.
    pub(super) fn take_all(&mut self, attempts_max: Option<u32>) {
        let attempts_max = attempts_max.and_then(NonZeroU32::new);
        self.wishes = vec![Wish { topics: Topics::ALL, attempts_max, lane: None }];
    }

    pub(super) fn find(&self, topic: &Topic) -> Option<usize> {
        self.by_topic.get(topic).copied()
    }

    /// The topics to be woken for.
    pub(super) fn interest(&self) -> Topics {
        let named = Topics::only(self.all.iter().map(|lane| lane.topic.clone()));
        if self.wishes.iter().any(|wish| wish.topics.named().is_none()) {
            Topics::ALL
        } else {
            named.unwrap_or(Topics::ALL)
        }
    }

    /// How many wishes there are.
    pub(super) fn wishes(&self) -> usize {
        self.wishes.len()
    }

    /// The wishes that may be claimed now, in turn; others have reached their own limits.
    pub(super) fn open(&mut self, now: Instant) -> Vec<usize> {
        let count = self.wishes.len();
        let mut open: Vec<_> = (0..count).map(|place| (place + self.turn) % count).collect();
        open.retain(|wish| self.limit(*wish, now) > 0);
        open
    }

    /// How many more messages may be claimed for a wish.
    fn limit(&mut self, wish: usize, now: Instant) -> usize {
        self.wishes[wish].lane.map_or(usize::MAX, |lane| self.all[lane].room(now))
    }

    /// Deals `room` out over what may be claimed, the wishes in turn, the quiet ones last.
    pub(super) fn shares(&mut self, room: usize, now: Instant, quiet: &BTreeSet<usize>) -> Vec<Share> {
        self.turn = (self.turn + 1) % self.wishes.len().max(1);
        let mut open = self.open(now);
        open.sort_by_key(|wish| quiet.contains(wish));
        let (mut left, mut list) = (room, Vec::new());
        let all = open.len();
        for (place, wish) in open.into_iter().enumerate() {
            let messages = left.div_ceil(all - place).min(self.limit(wish, now));
            if messages == 0 {
                break;
            }
            left -= messages;
            let Wish { topics, attempts_max, .. } = &self.wishes[wish];
            list.push(Share { wish, topics: topics.clone(), attempts_max: *attempts_max, messages });
        }
        list
    }

    /// When a topic that has used up its rate may go on.
    pub(super) fn next_rate(&mut self, now: Instant) -> Option<Instant> {
        let rates = self.all.iter_mut().filter_map(|lane| lane.rate.as_mut());
        rates.filter_map(|rate| (rate.available(now) == 0).then(|| rate.next(now))).min()
    }
}
