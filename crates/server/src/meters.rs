//! The server's own metrics. Labels are bounded: codes, routes, and topics up to a number.

pub mod names;
mod recent;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use oncebox::telemetry::names as library;
use oncebox::{DeadReason, Deaths, Namespace, Upkept, Usage};
use oncebox_wire::Code;

use recent::Recent;

/// The label of topics beyond the number that have their own.
pub(crate) const OTHER: &str = "other";

/// Handles that are looked up once.
pub(crate) struct Meters {
    pub(crate) enqueue: Histogram,
    pub(crate) dequeue: Histogram,
    pub(crate) ack: Histogram,
    pub(crate) connections: Gauge,
    redriven: [Counter; 2],
    rule_redriven: Counter,
    rule_failed: Counter,
    dlq_forgotten: Counter,
    refused: HashMap<Code, Counter>,
    endings: [Counter; 6],
    routes: RwLock<HashMap<Box<str>, Arc<RouteMeters>>>,
    topics_max: usize,
    topics: RwLock<BTreeMap<Box<str>, Arc<TopicMeters>>>,
    other: Arc<TopicMeters>,
    /// The bounds of the store: there are only a few.
    bounds: Mutex<BTreeMap<&'static str, f64>>,
}

/// The metrics of one route.
pub(crate) struct RouteMeters {
    label: Box<str>,
    seconds: Histogram,
    answers: RwLock<BTreeMap<(&'static str, u16), Counter>>,
}

impl RouteMeters {
    fn new(route: &str) -> Self {
        let seconds = histogram!(names::REQUEST_SECONDS, "route" => route.to_owned());
        Self { label: route.into(), seconds, answers: RwLock::default() }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &'static str, status: u16, took: Duration) {
        self.seconds.record(took);
        if let Some(counter) =
            self.answers.read().unwrap_or_else(PoisonError::into_inner).get(&(method, status))
        {
            return counter.increment(1);
        }
        let labels = [
            ("route", self.label.to_string()),
            ("method", method.to_owned()),
            ("status", status.to_string()),
        ];
        let mut answers = self.answers.write().unwrap_or_else(PoisonError::into_inner);
        answers.entry((method, status)).or_insert_with(|| counter!(names::REQUESTS, &labels)).increment(1);
    }
}

/// The metrics of one topic.
pub(crate) struct TopicMeters {
    label: Box<str>,
    enqueued: Counter,
    duplicates: Counter,
    delivered: Counter,
    redelivered: Counter,
    accepted_recently: Recent,
    delivered_recently: Recent,
}

/// What happened in a topic in the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastMinute {
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
}

impl Meters {
    /// `named` topics have a label of their own whatever comes; others as long as there are fewer than `topics_max`.
    pub(crate) fn new<'a>(named: impl Iterator<Item = &'a String>, topics_max: usize) -> Self {
        let reason = |code: Code| counter!(names::REJECTED, "reason" => reason(code));
        let topics = named.map(|topic| (topic.as_str().into(), Arc::new(TopicMeters::new(topic))));
        appear();
        Self {
            enqueue: histogram!(names::ENQUEUE_SECONDS),
            dequeue: histogram!(names::DEQUEUE_SECONDS),
            ack: histogram!(names::ACK_SECONDS),
            connections: gauge!(names::CONNECTIONS),
            redriven: [counter!(names::DLQ_REDRIVEN), counter!(names::DLQ_REPROCESSED)],
            rule_redriven: counter!(names::RULE_REDRIVEN),
            rule_failed: counter!(names::RULE_FAILED),
            dlq_forgotten: counter!(names::DLQ_FORGOTTEN),
            refused: Code::ALL.into_iter().map(|(code, ..)| (code, reason(code))).collect(),
            endings: ENDINGS.map(|outcome| counter!(names::SETTLED, "outcome" => outcome)),
            routes: RwLock::default(),
            topics_max,
            topics: RwLock::new(topics.collect()),
            other: Arc::new(TopicMeters::new(OTHER)),
            bounds: Mutex::default(),
        }
    }

    pub(crate) fn refused(&self, code: Code) {
        if let Some(counter) = self.refused.get(&code) {
            counter.increment(1);
        }
    }

    /// The server closed a connection.
    pub(crate) fn connection_closed(reason: &'static str) {
        counter!(names::CONNECTIONS_CLOSED, "reason" => reason).increment(1);
    }

    pub(crate) fn settled(&self, ending: Ending) {
        self.endings[ending as usize].increment(1);
    }

    /// The metrics of a route of the router's; there are only so many.
    pub(crate) fn route(&self, route: &str) -> Arc<RouteMeters> {
        if let Some(meters) = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(route) {
            return meters.clone();
        }
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        routes.entry(route.into()).or_insert_with(|| Arc::new(RouteMeters::new(route))).clone()
    }

    /// The metrics of a topic that messages were sent to or came from.
    pub(crate) fn topic(&self, topic: &str) -> Arc<TopicMeters> {
        if let Some(meters) = self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic) {
            return meters.clone();
        }
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= self.topics_max {
            return self.other.clone();
        }
        topics.entry(topic.into()).or_insert_with(|| Arc::new(TopicMeters::new(topic))).clone()
    }

    /// Dead letters were redriven.
    pub(crate) fn redriven(&self, count: u64) {
        self.redriven.iter().for_each(|counter| counter.increment(count));
    }

    /// Dead letters were redriven by a rule.
    pub(crate) fn redriven_by_rule(&self, count: u64) {
        self.rule_redriven.increment(count);
    }

    /// A step of a rule failed.
    pub(crate) fn rule_failed(&self) {
        self.rule_failed.increment(1);
    }

    /// Whether a topic has a label of its own: the settings name it, or messages of it came or went.
    pub(crate) fn knows(&self, topic: &str) -> bool {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).contains_key(topic)
    }

    /// The label of a topic; none if it is one of those that share a label.
    pub(crate) fn label(&self, topic: &str) -> Option<Box<str>> {
        let meters = self.topic(topic);
        (!Arc::ptr_eq(&meters, &self.other)).then(|| meters.label.clone())
    }

    /// What upkeep did to dead letters.
    pub(crate) fn upkept(&self, upkept: &Upkept) {
        upkept.died.iter().for_each(|deaths| self.died(deaths));
        self.dlq_forgotten.increment(upkept.dead_letters_forgotten);
    }

    fn died(&self, deaths: &Deaths) {
        if deaths.namespace == Namespace::Mailbox {
            let topic = deaths.topic.as_ref();
            let meters = topic.map_or_else(|| self.other.clone(), |topic| self.topic(topic.as_str()));
            meters.died(deaths.reason.as_str(), deaths.count);
        }
    }

    /// What happened in a topic in the last minute; none of a topic that shares its label with others.
    pub(crate) fn last_minute(&self, topic: &str) -> Option<LastMinute> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let Some(meters) = topics.get(topic) else {
            // Whatever happened there would have been counted.
            let counted = topics.len() < self.topics_max;
            return counted.then_some(LastMinute { accepted: 0, delivered: 0 });
        };
        let (accepted, delivered) = (meters.accepted_recently.count(), meters.delivered_recently.count());
        Some(LastMinute { accepted, delivered })
    }

    /// The share of each bound that is used; `NaN` for those that were known before where nothing is known.
    pub(crate) fn bounds(&self, usage: Option<&Usage>) -> BTreeMap<&'static str, f64> {
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.values_mut().for_each(|share| *share = f64::NAN);
        bounds.extend(usage.iter().flat_map(|usage| &usage.bounds).map(|bound| (bound.name, bound.share())));
        bounds.clone()
    }

    /// The topics that have a label of their own.
    pub(crate) fn topics(&self) -> Vec<Box<str>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl TopicMeters {
    fn new(topic: &str) -> Self {
        let counter = |name: &'static str| counter!(name, "topic" => topic.to_owned());
        Self {
            label: topic.into(),
            enqueued: counter(names::ENQUEUED),
            duplicates: counter(names::DUPLICATES),
            delivered: counter(names::DELIVERED),
            redelivered: counter(names::REDELIVERED),
            accepted_recently: Recent::default(),
            delivered_recently: Recent::default(),
        }
    }

    /// A message was taken in, now or before.
    pub(crate) fn taken_in(&self, duplicate: bool) {
        if duplicate {
            return self.duplicates.increment(1);
        }
        self.enqueued.increment(1);
        self.accepted_recently.add(1);
    }

    /// Messages were given out, some of them not for the first time.
    pub(crate) fn given_out(&self, messages: u64, again: u64) {
        self.delivered.increment(messages);
        self.redelivered.increment(again);
        self.delivered_recently.add(messages);
    }

    /// Messages became dead letters.
    pub(crate) fn died(&self, reason: &'static str, count: u64) {
        counter!(names::DLQ, "topic" => self.label.to_string(), "reason" => reason).increment(count);
    }
}

/// Lets counters that may stay at zero for long be there from the start: what is not there cannot be watched.
fn appear() {
    for reason in CLOSED {
        counter!(names::CONNECTIONS_CLOSED, "reason" => reason).increment(0);
    }
    for reason in DeadReason::ALL {
        counter!(library::DIED, "reason" => reason.as_str()).increment(0);
    }
    for name in [library::DIVERGED, library::LAPSED, library::EXPIRED, library::FORGOTTEN] {
        counter!(name).increment(0);
    }
    counter!(library::CALLS_FAILED, "call" => "upkeep").increment(0);
}

/// Why the server closes connections, as the label `reason` says it.
const CLOSED: [&str; 4] = ["idle", "header", "write", "limit"];

/// What became of a delivery that was settled, as the label `outcome` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Ack,
    Nack,
    Extend,
    Dead,
    Lost,
    Receipt,
}

const ENDINGS: [&str; 6] = ["ack", "nack", "extend", "dead", "lost", "receipt"];

/// What the label `reason` says for a code.
fn reason(code: Code) -> &'static str {
    match code {
        Code::Schema | Code::Method | Code::NotFound => "schema",
        Code::CapAuth | Code::CapScope => "unauth",
        Code::FrameTooLarge => "oversize",
        Code::Saturated => "saturated",
        Code::Integrity => "integrity",
        Code::Duplicate => "duplicate",
        Code::LeaseLost | Code::Receipt => "lease",
        Code::Timeout => "timeout",
        _ => "unavailable",
    }
}
