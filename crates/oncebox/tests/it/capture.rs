//! Captures log output for assertions.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Captured log output: one line per event or new span, with its level, target and fields.
#[derive(Clone, Default)]
pub(crate) struct Capture(Arc<Mutex<Vec<(Level, String)>>>);

impl Capture {
    /// Captures what this thread logs until the guard is dropped.
    pub(crate) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let capture = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(capture.clone()));
        (capture, guard)
    }

    pub(crate) fn lines(&self) -> Vec<(Level, String)> {
        self.0.lock().unwrap().clone()
    }

    /// The lines of a level that contain all of these texts.
    pub(crate) fn find(&self, level: Level, texts: &[&str]) -> Vec<String> {
        let lines = self.lines().into_iter().filter(|(of, _)| *of == level).map(|(_, line)| line);
        lines.filter(|line| texts.iter().all(|text| line.contains(text))).collect()
    }

    fn push(&self, metadata: &tracing::Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", metadata.target(), metadata.name()));
        record(&mut line);
        self.0.lock().unwrap().push((*metadata.level(), line.0));
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.push(attributes.metadata(), |line| attributes.record(line));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.push(event.metadata(), |line| {
            event.record(line);
            if let Some(span) = context.event_span(event) {
                let _ = write!(line.0, " in={}", span.name());
            }
        });
    }
}
