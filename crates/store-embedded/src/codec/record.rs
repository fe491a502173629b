//! Entries about records.

use std::sync::Arc;

use oncebox_core::machine::{RecordChange, RecordTable};
use oncebox_core::{Record, RecordId, RecordValue, RecordVersion};

use super::{Damaged, Reader, Writer};

const WRITTEN: u8 = 33;
const REMOVED: u8 = 34;
const LAST_VERSION: u8 = 35;

/// A decoded entry about the records of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RecordEntry {
    kind: Arc<str>,
    content: Content,
}

#[derive(Debug, PartialEq, Eq)]
enum Content {
    Written(Record),
    Removed(RecordVersion),
    /// The version of the last write, which may have been removed since.
    LastVersion(RecordVersion),
}

impl RecordEntry {
    /// Whether an entry that begins with this byte is about records.
    pub(super) fn starts_with(tag: u8) -> bool {
        (WRITTEN..=LAST_VERSION).contains(&tag)
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let tag = reader.u8()?;
        let kind = reader.text()?.into();
        let version = RecordVersion(reader.u64()?);
        let content = match tag {
            WRITTEN => Content::Written(Record {
                id: RecordId::new(reader.text()?)?,
                version,
                value: RecordValue::new(reader.bytes()?.to_vec())?,
                written_at: reader.timestamp()?,
                expires_at: reader.timestamp()?,
            }),
            REMOVED => Content::Removed(version),
            LAST_VERSION => Content::LastVersion(version),
            _ => return Err(Damaged("an entry of an unknown kind")),
        };
        Ok(Self { kind, content })
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn encode(&self, writer: &mut Writer) {
        match &self.content {
            Content::Written(record) => encode_change(writer, &self.kind, RecordChange::Written(record)),
            Content::Removed(version) => encode_change(writer, &self.kind, RecordChange::Removed(*version)),
            Content::LastVersion(version) => encode_last_version(writer, &self.kind, *version),
        }
    }

    /// Repeats what the entry states.
    pub(crate) fn replay(&self, records: &mut RecordTable) {
        match &self.content {
            Content::Written(record) => records.replay(&self.kind, RecordChange::Written(record)),
            Content::Removed(version) => records.replay(&self.kind, RecordChange::Removed(*version)),
            Content::LastVersion(version) => records.restore_last_version(&self.kind, *version),
        }
    }

    /// Kind and version of the record if this entry contains it whole.
    pub(crate) fn base(&self) -> Option<(Arc<str>, RecordVersion)> {
        match &self.content {
            Content::Written(record) => Some((Arc::clone(&self.kind), record.version)),
            Content::Removed(_) | Content::LastVersion(_) => None,
        }
    }
}

/// Appends a change of a record.
pub(crate) fn encode_change(writer: &mut Writer, kind: &str, change: RecordChange<'_>) {
    match change {
        RecordChange::Written(record) => {
            start(writer, WRITTEN, kind, record.version);
            writer.text(record.id.as_str());
            writer.bytes(record.value.as_bytes());
            writer.timestamp(record.written_at);
            writer.timestamp(record.expires_at);
        }
        RecordChange::Removed(version) => start(writer, REMOVED, kind, version),
    }
}

/// Appends the version of the last write in a kind.
pub(crate) fn encode_last_version(writer: &mut Writer, kind: &str, version: RecordVersion) {
    start(writer, LAST_VERSION, kind, version);
}

fn start(writer: &mut Writer, tag: u8, kind: &str, version: RecordVersion) {
    writer.u8(tag);
    writer.text(kind);
    writer.u64(version.0);
}
