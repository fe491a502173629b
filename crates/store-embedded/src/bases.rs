//! What is whole in a segment: reclaiming writes it again before the segment is reused.

use std::sync::Arc;

use oncebox_core::{RecordVersion, Uid};

/// The message or record that an entry of the journal contains whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    Message(Uid),
    Record(Arc<str>, RecordVersion),
}

/// The bases in a segment or a group. Messages and records are apart, because there are millions of messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bases {
    messages: Vec<Uid>,
    records: Vec<(Arc<str>, RecordVersion)>,
}

impl Bases {
    pub(crate) fn push(&mut self, base: Base) {
        match base {
            Base::Message(uid) => self.messages.push(uid),
            Base::Record(kind, version) => self.records.push((kind, version)),
        }
    }

    /// Removes one, messages first.
    pub(crate) fn pop(&mut self) -> Option<Base> {
        let record = |(kind, version)| Base::Record(kind, version);
        self.messages.pop().map(Base::Message).or_else(|| self.records.pop().map(record))
    }

    /// Removes the one that was pushed last among those like `base`.
    pub(crate) fn undo_push(&mut self, base: &Base) {
        match base {
            Base::Message(_) => drop(self.messages.pop()),
            Base::Record(..) => drop(self.records.pop()),
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.messages.extend_from_slice(&other.messages);
        self.records.extend_from_slice(&other.records);
    }

    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.records.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.records.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Base> {
        let records = self.records.iter().map(|(kind, version)| Base::Record(Arc::clone(kind), *version));
        self.messages.iter().copied().map(Base::Message).chain(records)
    }
}
