//! The server's own metrics. Labels are bounded: error codes, routes, and at most `metrics.topics_max` topics.

mod minute_counter;
pub mod names;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use oncebox::telemetry::names as library;
use oncebox::{
    health::Usage,
    maintenance::{Deaths, MaintenanceReport},
    message::{DeadReason, Namespace},
};
use oncebox_wire::ErrorCode;

use minute_counter::MinuteCounter;

/// Label of all topics that have no label of their own.
pub(crate) const OTHER: &str = "other";

/// Metric handles, resolved once.
pub(crate) struct ServerMetrics {
    pub(crate) enqueue: Histogram,
    pub(crate) dequeue: Histogram,
    pub(crate) ack: Histogram,
    pub(crate) connections: Gauge,
    redriven: [Counter; 2],
    rule_redriven: Counter,
    rule_failed: Counter,
    dlq_forgotten: Counter,
    rejected: HashMap<ErrorCode, Counter>,
    settled: [Counter; 6],
    topics_max: usize,
    topics: RwLock<BTreeMap<Box<str>, Arc<TopicMetrics>>>,
    other: Arc<TopicMetrics>,
    /// Last known usage of each bound of the store; there are only a few bounds.
    bounds: Mutex<BTreeMap<&'static str, f64>>,
}

/// Metrics of one route.
pub(crate) struct RouteMetrics {
    label: &'static str,
    seconds: Histogram,
    responses: RwLock<BTreeMap<(&'static str, u16), Counter>>,
}

impl RouteMetrics {
    pub(crate) fn new(route: &'static str) -> Self {
        let seconds = histogram!(names::REQUEST_SECONDS, "route" => route);
        Self { label: route, seconds, responses: RwLock::default() }
    }

    /// Records an answered request.
    pub(crate) fn record(&self, method: &'static str, status: u16, took: Duration) {
        self.seconds.record(took);
        if let Some(counter) =
            self.responses.read().unwrap_or_else(PoisonError::into_inner).get(&(method, status))
        {
            return counter.increment(1);
        }
        let labels =
            [("route", self.label.to_owned()), ("method", method.to_owned()), ("status", status.to_string())];
        let mut responses = self.responses.write().unwrap_or_else(PoisonError::into_inner);
        responses.entry((method, status)).or_insert_with(|| counter!(names::REQUESTS, &labels)).increment(1);
    }
}

/// Metrics of one topic.
pub(crate) struct TopicMetrics {
    label: Box<str>,
    enqueued: Counter,
    duplicates: Counter,
    delivered: Counter,
    redelivered: Counter,
    accepted_recently: MinuteCounter,
    delivered_recently: MinuteCounter,
}

/// Messages that a topic accepted and delivered in the last minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastMinute {
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
}

impl ServerMetrics {
    /// Creates the metrics. `named` topics always have a label of their own; other topics get one while there are fewer
    /// than `topics_max`.
    pub(crate) fn new<'a>(named: impl Iterator<Item = &'a String>, topics_max: usize) -> Self {
        let reason = |code: ErrorCode| counter!(names::REJECTED, "reason" => reason(code));
        let topics = named.map(|topic| (topic.as_str().into(), Arc::new(TopicMetrics::new(topic))));
        register_at_zero();
        Self {
            enqueue: histogram!(names::ENQUEUE_SECONDS),
            dequeue: histogram!(names::DEQUEUE_SECONDS),
            ack: histogram!(names::ACK_SECONDS),
            connections: gauge!(names::CONNECTIONS),
            redriven: [counter!(names::DLQ_REDRIVEN), counter!(names::DLQ_REPROCESSED)],
            rule_redriven: counter!(names::RULE_REDRIVEN),
            rule_failed: counter!(names::RULE_FAILED),
            dlq_forgotten: counter!(names::DLQ_FORGOTTEN),
            rejected: ErrorCode::ALL.into_iter().map(|(code, ..)| (code, reason(code))).collect(),
            settled: SETTLED_LABELS.map(|outcome| counter!(names::SETTLED, "outcome" => outcome)),
            topics_max,
            topics: RwLock::new(topics.collect()),
            other: Arc::new(TopicMetrics::new(OTHER)),
            bounds: Mutex::default(),
        }
    }

    pub(crate) fn rejected(&self, code: ErrorCode) {
        if let Some(counter) = self.rejected.get(&code) {
            counter.increment(1);
        }
    }

    /// Counts a connection that the server closed.
    pub(crate) fn connection_closed(reason: &'static str) {
        counter!(names::CONNECTIONS_CLOSED, "reason" => reason).increment(1);
    }

    pub(crate) fn settled(&self, label: SettledLabel) {
        self.settled[label as usize].increment(1);
    }

    /// Returns the metrics of a topic that accepted or delivered messages.
    pub(crate) fn topic(&self, topic: &str) -> Arc<TopicMetrics> {
        if let Some(metrics) = self.topics.read().unwrap_or_else(PoisonError::into_inner).get(topic) {
            return metrics.clone();
        }
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= self.topics_max {
            return self.other.clone();
        }
        topics.entry(topic.into()).or_insert_with(|| Arc::new(TopicMetrics::new(topic))).clone()
    }

    /// Counts redriven dead letters.
    pub(crate) fn redriven(&self, count: u64) {
        self.redriven.iter().for_each(|counter| counter.increment(count));
    }

    /// Counts dead letters redriven by a rule.
    pub(crate) fn redriven_by_rule(&self, count: u64) {
        self.rule_redriven.increment(count);
    }

    /// Counts a failed step of a redrive rule.
    pub(crate) fn rule_failed(&self) {
        self.rule_failed.increment(1);
    }

    /// Whether a topic has a label of its own: it is named in the settings, or has accepted or delivered messages.
    pub(crate) fn has_label(&self, topic: &str) -> bool {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).contains_key(topic)
    }

    /// The label of a topic, or `None` if the topic shares the label `other`.
    pub(crate) fn label(&self, topic: &str) -> Option<Box<str>> {
        let metrics = self.topic(topic);
        (!Arc::ptr_eq(&metrics, &self.other)).then(|| metrics.label.clone())
    }

    /// Counts the dead letters that maintenance created or removed.
    pub(crate) fn record_maintenance(&self, report: &MaintenanceReport) {
        report.died.iter().for_each(|deaths| self.died(deaths));
        self.dlq_forgotten.increment(report.dead_letters_forgotten);
    }

    fn died(&self, deaths: &Deaths) {
        if deaths.namespace == Namespace::Mailbox {
            let topic = deaths.topic.as_ref();
            let metrics = topic.map_or_else(|| self.other.clone(), |topic| self.topic(topic.as_str()));
            metrics.died(deaths.reason.as_str(), deaths.count);
        }
    }

    /// Returns the counts of a topic for the last minute, or `None` if the topic shares the label `other`.
    pub(crate) fn last_minute(&self, topic: &str) -> Option<LastMinute> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let Some(metrics) = topics.get(topic) else {
            // A message in this topic would have given it a label.
            let counted = topics.len() < self.topics_max;
            return counted.then_some(LastMinute { accepted: 0, delivered: 0 });
        };
        let (accepted, delivered) = (metrics.accepted_recently.count(), metrics.delivered_recently.count());
        Some(LastMinute { accepted, delivered })
    }

    /// The used share of each bound. Bounds that are known from earlier are `NaN` if `usage` does not include them.
    pub(crate) fn bounds(&self, usage: Option<&Usage>) -> BTreeMap<&'static str, f64> {
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.values_mut().for_each(|share| *share = f64::NAN);
        bounds.extend(usage.iter().flat_map(|usage| &usage.bounds).map(|bound| (bound.name, bound.share())));
        bounds.clone()
    }

    /// Returns the topics that have a label of their own.
    pub(crate) fn topics(&self) -> Vec<Box<str>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl TopicMetrics {
    fn new(topic: &str) -> Self {
        let counter = |name: &'static str| counter!(name, "topic" => topic.to_owned());
        Self {
            label: topic.into(),
            enqueued: counter(names::ENQUEUED),
            duplicates: counter(names::DUPLICATES),
            delivered: counter(names::DELIVERED),
            redelivered: counter(names::REDELIVERED),
            accepted_recently: MinuteCounter::default(),
            delivered_recently: MinuteCounter::default(),
        }
    }

    /// Counts a sent message.
    pub(crate) fn accepted(&self, duplicate: bool) {
        if duplicate {
            return self.duplicates.increment(1);
        }
        self.enqueued.increment(1);
        self.accepted_recently.add(1);
    }

    /// Counts delivered messages, of which `redelivered` were delivered before.
    pub(crate) fn delivered(&self, messages: u64, redelivered: u64) {
        self.delivered.increment(messages);
        self.redelivered.increment(redelivered);
        self.delivered_recently.add(messages);
    }

    /// Counts messages that became dead letters.
    pub(crate) fn died(&self, reason: &'static str, count: u64) {
        counter!(names::DLQ, "topic" => self.label.to_string(), "reason" => reason).increment(count);
    }
}

/// Registers counters that may stay at zero for long, so that they can be monitored from the start.
fn register_at_zero() {
    for reason in CLOSE_REASONS {
        counter!(names::CONNECTIONS_CLOSED, "reason" => reason).increment(0);
    }
    for reason in DeadReason::ALL {
        counter!(library::DIED, "reason" => reason.as_str()).increment(0);
    }
    for name in [library::DIVERGED, library::LAPSED, library::EXPIRED, library::FORGOTTEN] {
        counter!(name).increment(0);
    }
    counter!(library::CALLS_FAILED, "call" => "maintain").increment(0);
}

/// Values of the label `reason` of closed connections.
const CLOSE_REASONS: [&str; 4] = ["idle", "header", "write", "limit"];

/// Values of the label `outcome` of settled deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettledLabel {
    Ack,
    Nack,
    Extend,
    Dead,
    Lost,
    Receipt,
}

const SETTLED_LABELS: [&str; 6] = ["ack", "nack", "extend", "dead", "lost", "receipt"];

/// The value of the label `reason` for an error code.
fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Schema | ErrorCode::Method | ErrorCode::NotFound => "schema",
        ErrorCode::CapAuth | ErrorCode::CapScope => "unauth",
        ErrorCode::FrameTooLarge => "oversize",
        ErrorCode::Saturated => "saturated",
        ErrorCode::Integrity => "integrity",
        ErrorCode::Duplicate => "duplicate",
        ErrorCode::LeaseLost | ErrorCode::Receipt => "lease",
        ErrorCode::Timeout => "timeout",
        _ => "unavailable",
    }
}
