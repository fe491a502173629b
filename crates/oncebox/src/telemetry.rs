//! Telemetry: metric names, spans, and trace propagation with messages.
//!
//! Events and spans use `tracing`, metrics use `metrics`; this crate installs neither a subscriber nor a recorder.
//! Install yours before workers start: they look up their metrics once. Telemetry never contains payloads or attribute
//! values, labels contain no ids, and the label `topic` only names topics that have a handler in the program.

pub mod names;

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use oncebox_core::{Accepted, Attributes, Delivery};
use tracing::{Span, info_span};

/// Declares metric names. The doc comment of a name is also the description that `describe` registers with the
/// recorder.
#[doc(hidden)]
#[macro_export]
macro_rules! metric_names {
    ($($(#[doc = $text:literal])+ $kind:ident $name:ident = $metric:literal;)+) => {
        $($(#[doc = $text])+ pub const $name: &str = $metric;)+

        /// Registers the descriptions of these metrics with the recorder of this process. Call it after installing the
        /// recorder.
        pub fn describe() {
            $($crate::metric_names!(@$kind $name, concat!($($text),+).trim_start());)+
        }
    };
    (@counter $name:ident, $text:expr) => { metrics::describe_counter!($name, $text) };
    (@gauge $name:ident, $text:expr) => { metrics::describe_gauge!($name, $text) };
    (@histogram $name:ident, $text:expr) => { metrics::describe_histogram!($name, $text) };
}

/// The attribute that contains the sender's trace, as in W3C Trace Context.
pub const TRACE_PARENT: &str = "traceparent";

/// Connects spans to traces of other processes. Implement it for the tracing system that the program uses.
pub trait TraceContext: Send + Sync {
    /// The `traceparent` of the current span, to attach to a message.
    fn current(&self) -> Option<String>;

    /// Makes `span` a child of the trace. Called for the first delivery of a message.
    fn child_of(&self, span: &Span, trace_parent: &str);

    /// Makes `span` a root span that links to the trace. Called for later deliveries, which may happen days later.
    fn link_to(&self, span: &Span, trace_parent: &str);
}

/// The span that a handler runs in.
pub(crate) fn handler_span(store: &str, delivery: &Delivery, context: Option<&dyn TraceContext>) -> Span {
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

/// Counts an attempt to enqueue a message.
pub(crate) fn enqueued(accepted: &Accepted) {
    let outcome = match accepted {
        Accepted::New { .. } => "accepted",
        Accepted::Duplicate { .. } => "duplicate",
        Accepted::Replaced(_) => "replaced",
        Accepted::Conflict(_) => "conflict",
        _ => "saturated",
    };
    counter!(names::ENQUEUED, "outcome" => outcome).increment(1);
}

/// Counts an attempt to schedule a command.
pub(crate) fn scheduled(accepted: &Accepted) {
    let outcome = match accepted {
        Accepted::New { .. } => "accepted",
        Accepted::Duplicate { .. } | Accepted::Replaced(_) => "already_accepted",
        Accepted::Conflict(_) => "conflict",
        _ => "refused",
    };
    counter!(names::SCHEDULED, "outcome" => outcome).increment(1);
}

pub(crate) fn diverged() {
    counter!(names::DIVERGED).increment(1);
}

pub(crate) fn call_failed(call: &'static str) {
    counter!(names::CALLS_FAILED, "call" => call).increment(1);
}

pub(crate) fn maintenance_done(report: &oncebox_core::MaintenanceReport) {
    counter!(names::LAPSED).increment(report.lapsed);
    counter!(names::EXPIRED).increment(report.expired);
    for deaths in &report.died {
        counter!(names::DIED, "reason" => deaths.reason.as_str()).increment(deaths.count);
    }
    counter!(names::FORGOTTEN).increment(report.forgotten);
}

/// How a delivery ended; the values of the label `outcome`, in the order of [`TopicMetrics::outcomes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    Done,
    Retrying,
    Dead,
    Released,
    Superseded,
    Lost,
}

/// The metrics of one topic; each is looked up once.
pub(crate) struct TopicMetrics {
    outcomes: [Counter; 6],
    handler: Histogram,
    waited: Histogram,
}

impl TopicMetrics {
    pub(crate) fn new(topic: &str) -> Self {
        let settled = |outcome: &'static str| counter!(names::SETTLED, "topic" => topic.to_owned(), "outcome" => outcome);
        Self {
            outcomes: ["done", "retrying", "dead", "released", "superseded", "lost"].map(settled),
            handler: histogram!(names::HANDLER_SECONDS, "topic" => topic.to_owned()),
            waited: histogram!(names::WAITED_SECONDS, "topic" => topic.to_owned()),
        }
    }

    pub(crate) fn delivery_ended(&self, outcome: DeliveryOutcome) {
        self.outcomes[outcome as usize].increment(1);
    }

    pub(crate) fn handler_ran(&self, time: Duration) {
        self.handler.record(time);
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.waited.record(time);
    }
}
