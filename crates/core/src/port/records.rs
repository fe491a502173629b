//! Reading and changing records.

use crate::bound::Bound;
use crate::port::{Direction, PageSize};
use crate::record::{Record, RecordKind, RecordValue, RecordVersion};
use crate::text::RecordId;
use crate::time::Span;

/// When a record may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCondition {
    /// In any case.
    Always,
    /// If there is no record with this id.
    Absent,
    /// If the record has this version.
    Version(RecordVersion),
}

impl WriteCondition {
    /// Whether a write may replace the current record, of which this is the version.
    pub fn allows(self, current: Option<RecordVersion>) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => current.is_none(),
            Self::Version(version) => current == Some(version),
        }
    }
}

/// An operation on the records of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordOp {
    /// Writes a record.
    Put {
        /// The kind.
        kind: RecordKind,
        /// The id.
        id: RecordId,
        /// The new content.
        value: RecordValue,
        /// When to write.
        condition: WriteCondition,
        /// How long the record is kept; none for ever.
        keep: Option<Span>,
    },
    /// Reads a record.
    Get {
        /// The kind.
        kind: RecordKind,
        /// The id.
        id: RecordId,
    },
    /// Reads a page of records, ordered by id.
    List {
        /// The kind.
        kind: RecordKind,
        /// The order: oldest first means the lowest id first.
        direction: Direction,
        /// Continues after this id.
        after: Option<RecordId>,
        /// The maximum number of records.
        size: PageSize,
    },
    /// Removes a record.
    Delete {
        /// The kind.
        kind: RecordKind,
        /// The id.
        id: RecordId,
        /// Removes the record only if it has this version.
        version: Option<RecordVersion>,
    },
}

/// The outcome of a [`RecordOp`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordOutcome {
    /// The record was written, and has this version.
    Written(RecordVersion),
    /// The condition is not met, and nothing was changed; this is the current record.
    Conflict(Option<Record>),
    /// The kind is full; nothing was written.
    Full(Bound),
    /// The record that was read.
    Found(Option<Record>),
    /// The records that were read. The listing ends when there are fewer than requested.
    Listed(Vec<Record>),
    /// The record is gone; false if there was none.
    Deleted(bool),
}
