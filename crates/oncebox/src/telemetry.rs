//! What the library tells: the names of its metrics, its spans, and how a trace travels with a message.
//!
//! Events and spans go through `tracing`, numbers through `metrics`; this crate installs neither a subscriber nor a
//! recorder. Install yours before workers start: they look their metrics up once. Nothing here ever carries a payload or an
//! attribute's value; labels carry no ids, and the label `topic` only names topics that have a handler in the program.

pub mod names;

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use oncebox_core::{Attributes, Delivery, Error};
use tracing::{Span, info_span};

use crate::commands;
use crate::inbox::Outcome;
use crate::message::Message;

/// Declares the names of metrics. What documents a name is also what `describe` tells the recorder about it.
#[doc(hidden)]
#[macro_export]
macro_rules! metric_names {
    ($($(#[doc = $text:literal])+ $kind:ident $name:ident = $metric:literal;)+) => {
        $($(#[doc = $text])+ pub const $name: &str = $metric;)+

        /// Tells the recorder of this process what each of these metrics is. Call it once the recorder is installed.
        pub fn describe() {
            $($crate::metric_names!(@$kind $name, concat!($($text),+).trim_start());)+
        }
    };
    (@counter $name:ident, $text:expr) => { metrics::describe_counter!($name, $text) };
    (@gauge $name:ident, $text:expr) => { metrics::describe_gauge!($name, $text) };
    (@histogram $name:ident, $text:expr) => { metrics::describe_histogram!($name, $text) };
}

/// The attribute that carries the sender's trace, as in W3C Trace Context.
pub const TRACE_PARENT: &str = "traceparent";

/// Ties spans to traces that came from elsewhere; implemented on whatever tracing system the program uses.
pub trait TraceContext: Send + Sync {
    /// The `traceparent` of the present span, which the message shall carry.
    fn current(&self) -> Option<String>;

    /// Makes `span` a child of the trace: it handles a message for the first time.
    fn child_of(&self, span: &Span, trace_parent: &str);

    /// Makes `span` a root that links to the trace: it handles the message again, perhaps days later.
    fn link_to(&self, span: &Span, trace_parent: &str);
}

/// Lets the message carry the present trace, unless its sender gave it one.
pub(crate) fn inject(context: &dyn TraceContext, message: Message) -> Message {
    if message.attributes().get(TRACE_PARENT).is_some() {
        return message;
    }
    match context.current() {
        // A message that has no room for it goes without.
        Some(trace_parent) => message.try_attribute(TRACE_PARENT, &trace_parent),
        None => message,
    }
}

/// The span that a handler runs in.
pub(crate) fn handling(store: &str, delivery: &Delivery, context: Option<&dyn TraceContext>) -> Span {
    let span = info_span!(
        parent: None,
        "oncebox.handle",
        store,
        topic = %delivery.content.topic,
        source = %delivery.key.source,
        id = %delivery.key.id,
        uid = %delivery.uid,
        attempt = delivery.attempts,
        delivery = delivery.deliveries,
    );
    if let (Some(context), Some(trace_parent)) = (context, trace_parent(&delivery.content.attributes)) {
        match delivery.deliveries {
            0 | 1 => context.child_of(&span, trace_parent),
            _ => context.link_to(&span, trace_parent),
        }
    }
    span
}

fn trace_parent(attributes: &Attributes) -> Option<&str> {
    attributes.get(TRACE_PARENT)
}

/// Counts an enqueued message; none means that the store was full.
pub(crate) fn enqueued(outcome: Option<Outcome>) {
    let outcome = match outcome {
        Some(Outcome::Accepted) => "accepted",
        Some(Outcome::Duplicate) => "duplicate",
        Some(Outcome::Replaced) => "replaced",
        Some(Outcome::Conflict) => "conflict",
        None => "saturated",
    };
    counter!(names::ENQUEUED, "outcome" => outcome).increment(1);
}

/// Counts a command that was scheduled, or not.
pub(crate) fn scheduled(receipt: Result<&commands::Receipt, &Error>) {
    let outcome = match receipt.map(|receipt| receipt.outcome) {
        Ok(commands::Outcome::Accepted) => "accepted",
        Ok(commands::Outcome::AlreadyAccepted) => "already_accepted",
        Ok(commands::Outcome::Conflict) => "conflict",
        Err(_) => "refused",
    };
    counter!(names::SCHEDULED, "outcome" => outcome).increment(1);
}

pub(crate) fn diverged() {
    counter!(names::DIVERGED).increment(1);
}

pub(crate) fn call_failed(call: &'static str) {
    counter!(names::CALLS_FAILED, "call" => call).increment(1);
}

pub(crate) fn upkept(upkept: &oncebox_core::Upkept) {
    counter!(names::LAPSED).increment(upkept.lapsed);
    counter!(names::EXPIRED).increment(upkept.expired);
    for deaths in &upkept.died {
        counter!(names::DIED, "reason" => deaths.reason.as_str()).increment(deaths.count);
    }
    counter!(names::FORGOTTEN).increment(upkept.forgotten);
}

/// How a delivery ended, as the label `outcome` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Retrying,
    Dead,
    Released,
    Superseded,
    Lost,
}

/// The metrics of one topic, looked up once.
pub(crate) struct TopicMetrics {
    endings: [Counter; 6],
    handler: Histogram,
    waited: Histogram,
}

impl TopicMetrics {
    pub(crate) fn new(topic: &str) -> Self {
        let ending = |outcome: &'static str| counter!(names::SETTLED, "topic" => topic.to_owned(), "outcome" => outcome);
        Self {
            endings: ["done", "retrying", "dead", "released", "superseded", "lost"].map(ending),
            handler: histogram!(names::HANDLER_SECONDS, "topic" => topic.to_owned()),
            waited: histogram!(names::WAITED_SECONDS, "topic" => topic.to_owned()),
        }
    }

    pub(crate) fn ended(&self, ending: Ending) {
        self.endings[ending as usize].increment(1);
    }

    pub(crate) fn ran(&self, time: Duration) {
        self.handler.record(time);
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.waited.record(time);
    }
}
