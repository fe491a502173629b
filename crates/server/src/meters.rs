//! The server's own metrics. Labels are bounded: codes, routes, and topics up to a number.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use oncebox::{Deaths, Namespace, Upkept};
use oncebox_wire::Code;

/// The names of metrics.
pub mod names {
    /// Requests, by `route`, `method` and `status`.
    pub const REQUESTS: &str = "http_requests_total";
    /// Seconds from a request's head to its answer's, by `route`. Waiting for messages counts.
    pub const REQUEST_SECONDS: &str = "request_latency_seconds";
    /// Open connections.
    pub const CONNECTIONS: &str = "http_connections";
    /// Connections that the server closed, by `reason`: `idle`, `header`, `write` (time-outs), `limit` (for a new one).
    pub const CONNECTIONS_CLOSED: &str = "http_connections_closed_total";
    /// Requests and items that were refused, by `reason`.
    pub const REJECTED: &str = "rejected_total";
    /// Seconds to take a message in, or a batch.
    pub const ENQUEUE_SECONDS: &str = "enqueue_latency_seconds";
    /// Seconds to give messages out; waiting for them does not count.
    pub const DEQUEUE_SECONDS: &str = "dequeue_latency_seconds";
    /// Seconds to settle deliveries.
    pub const ACK_SECONDS: &str = "ack_latency_seconds";
    /// Messages taken in, by `topic`; duplicates do not count.
    pub const ENQUEUED: &str = "mailbox_enqueued_total";
    /// Messages that came before, by `topic`.
    pub const DUPLICATES: &str = "mailbox_duplicates_total";
    /// Messages given out, by `topic`.
    pub const DELIVERED: &str = "mailbox_delivered_total";
    /// Messages given out for the second time or more, by `topic`.
    pub const REDELIVERED: &str = "mailbox_redelivered_total";
    /// Deliveries that were settled, by `outcome`: `ack`, `nack`, `extend`, `dead`, `lost`, `receipt`.
    pub const SETTLED: &str = "mailbox_settled_total";
    /// Messages that are ready or waiting, by `topic` and `shard`.
    pub const QUEUE_DEPTH: &str = "queue_depth";
    /// Messages that receivers hold, by `topic` and `shard`.
    pub const IN_FLIGHT: &str = "inflight";
    /// How full a shard is, 0 to 1, by `topic` and `shard`.
    pub const SATURATION: &str = "saturation";
    /// Dead letters, by `topic`.
    pub const DLQ_DEPTH: &str = "mailbox_dlq_depth";
    /// Messages that became dead letters, by `topic` and `reason`.
    pub const DLQ: &str = "dlq_total";
    /// Dead letters that were over the retention of their topic, and are gone.
    pub const DLQ_FORGOTTEN: &str = "mailbox_dlq_forgotten_total";
    /// How long a message may be in a `stage` (`ready`, `inflight`, `dlq`), by `topic`; the empty topic is any without settings of its own.
    pub const RETENTION_SECONDS: &str = "mailbox_retention_seconds";
    /// How many messages may be in a `stage`, by `topic`, likewise.
    pub const RETENTION_MESSAGES: &str = "mailbox_retention_messages";
    /// Dead letters that were given another chance.
    pub const DLQ_REPROCESSED: &str = "mailbox_dlq_reprocess_total";
    /// 1, with the label `dlq_profile`: `durable` or `ephemeral`.
    pub const PROFILE: &str = "mailbox_profile_info";
    /// How much of a bound of the store is used, 0 to 1, by `bound`.
    pub const BOUND: &str = "store_bound_used_ratio";
    /// The most messages that a shard of any topic gave out past its oldest delivery from before a restart, since the server was
    /// started, by `shard`; `other` is those beyond the number of shards.
    pub const REORDER_DEPTH: &str = "reorder_depth_max";
}

/// The label of topics beyond the number that have their own.
pub(crate) const OTHER: &str = "other";

/// Handles that are looked up once.
pub(crate) struct Meters {
    pub(crate) enqueue: Histogram,
    pub(crate) dequeue: Histogram,
    pub(crate) ack: Histogram,
    pub(crate) connections: Gauge,
    pub(crate) reprocessed: Counter,
    dlq_forgotten: Counter,
    refused: HashMap<Code, Counter>,
    endings: [Counter; 6],
    routes: RwLock<HashMap<Box<str>, Arc<RouteMeters>>>,
    topics_max: usize,
    topics: RwLock<BTreeMap<Box<str>, Arc<TopicMeters>>>,
    other: Arc<TopicMeters>,
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
    pub(crate) delivered: Counter,
    pub(crate) redelivered: Counter,
}

impl Meters {
    /// `named` topics have a label of their own whatever comes; others as long as there are fewer than `topics_max`.
    pub(crate) fn new<'a>(named: impl Iterator<Item = &'a String>, topics_max: usize) -> Self {
        let reason = |code: Code| counter!(names::REJECTED, "reason" => reason(code));
        let topics = named.map(|topic| (topic.as_str().into(), Arc::new(TopicMeters::new(topic))));
        Self {
            enqueue: histogram!(names::ENQUEUE_SECONDS),
            dequeue: histogram!(names::DEQUEUE_SECONDS),
            ack: histogram!(names::ACK_SECONDS),
            connections: gauge!(names::CONNECTIONS),
            reprocessed: counter!(names::DLQ_REPROCESSED),
            dlq_forgotten: counter!(names::DLQ_FORGOTTEN),
            refused: Code::ALL.into_iter().map(|(code, ..)| (code, reason(code))).collect(),
            endings: ENDINGS.map(|outcome| counter!(names::SETTLED, "outcome" => outcome)),
            routes: RwLock::default(),
            topics_max,
            topics: RwLock::new(topics.collect()),
            other: Arc::new(TopicMeters::new(OTHER)),
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
        }
    }

    /// A message was taken in, now or before.
    pub(crate) fn taken_in(&self, duplicate: bool) {
        if duplicate { &self.duplicates } else { &self.enqueued }.increment(1);
    }

    /// Messages became dead letters.
    pub(crate) fn died(&self, reason: &'static str, count: u64) {
        counter!(names::DLQ, "topic" => self.label.to_string(), "reason" => reason).increment(count);
    }
}

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
