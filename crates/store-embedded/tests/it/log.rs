//! Captures the log lines of stores for the tests.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};

use oncebox_store_embedded::disk::Disk;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::disk::SimDisk;

/// One log line: level, text and other fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: tracing::Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Line {
    pub(crate) fn text(&self) -> &str {
        &self.fields["message"]
    }

    /// A numeric field.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.fields[name].parse().unwrap()
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

static LINES: Mutex<Vec<Line>> = Mutex::new(Vec::new());

/// Captures what the store's own code logs, on any thread.
struct Capture;

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("oncebox_store_embedded")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { level: *event.metadata().level(), fields: BTreeMap::new() };
        event.record(&mut line);
        LINES.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Starts capturing log lines.
pub(crate) fn capture() {
    static CAPTURE: Once = Once::new();
    CAPTURE.call_once(|| tracing::subscriber::set_global_default(Capture).unwrap());
}

/// The lines about the store on a disk, in order.
pub(crate) fn about(disk: &SimDisk) -> Vec<Line> {
    let name = format!("embedded:{}", disk.location());
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|line| line.fields.get("store") == Some(&name)).cloned().collect()
}
