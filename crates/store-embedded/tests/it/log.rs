//! What stores log, kept line by line for the tests to read.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};

use oncebox_store_embedded::disk::Disk;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::disk::SimDisk;

/// One line: its level, its text and its other fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) level: tracing::Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Line {
    pub(crate) fn text(&self) -> &str {
        &self.fields["message"]
    }

    /// A field that is a number.
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

/// Keeps what the store's own code logs, whichever thread logs it.
struct Keeper;

impl Subscriber for Keeper {
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

/// From now on lines are kept.
pub(crate) fn keep() {
    static KEEP: Once = Once::new();
    KEEP.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
}

/// The lines about the store on a disk, in order.
pub(crate) fn about(disk: &SimDisk) -> Vec<Line> {
    let place = format!("embedded:{}", disk.place());
    let lines = LINES.lock().unwrap();
    lines.iter().filter(|line| line.fields.get("store") == Some(&place)).cloned().collect()
}
