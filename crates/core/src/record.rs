//! Records: small durable state beside messages, such as which topics are paused.

use std::fmt;

use bytes::Bytes;

use crate::error::Invalid;
use crate::limits::{RECORD_KIND_BYTES_MAX, RECORD_KIND_NAME_BYTES_MAX, RECORD_VALUE_BYTES_MAX};
use crate::text::RecordId;
use crate::time::Timestamp;

/// A kind of records, and how many of them a store keeps. Kinds are constants of the code that uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKind {
    name: &'static str,
    records_max: u32,
    when_full: WhenFull,
}

/// What happens when a kind has no space for another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// The new record is refused.
    Refuse,
    /// The records that were written first are removed: the kind is a log.
    DropOldest,
}

impl RecordKind {
    /// A kind with at most `records_max` records, which together have at most [`RECORD_KIND_BYTES_MAX`] bytes.
    ///
    /// # Panics
    /// If the name has other characters than `a` to `z` and `_`, or more than [`RECORD_KIND_NAME_BYTES_MAX`] of them, or
    /// if `records_max` is zero.
    pub const fn new(name: &'static str, records_max: u32, when_full: WhenFull) -> Self {
        let bytes = name.as_bytes();
        assert!(
            !bytes.is_empty() && bytes.len() <= RECORD_KIND_NAME_BYTES_MAX,
            "the name is empty or too long"
        );
        let mut index = 0;
        while index < bytes.len() {
            assert!(bytes[index].is_ascii_lowercase() || bytes[index] == b'_', "a name has letters and `_`");
            index += 1;
        }
        assert!(records_max > 0, "a kind without records is useless");
        Self { name, records_max, when_full }
    }

    /// The name, which identifies the kind.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The maximum number of records.
    pub const fn records_max(self) -> u32 {
        self.records_max
    }

    /// What happens when the kind is full.
    pub const fn when_full(self) -> WhenFull {
        self.when_full
    }

    /// Whether this many records of this total size are too many.
    pub fn is_exceeded(self, records: u64, bytes: u64) -> bool {
        records > u64::from(self.records_max) || bytes > RECORD_KIND_BYTES_MAX
    }
}

/// The content of a record. It never shows up in `Debug` output.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RecordValue(Bytes);

impl RecordValue {
    /// Accepts up to [`RECORD_VALUE_BYTES_MAX`] bytes, including none.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        if bytes.len() > RECORD_VALUE_BYTES_MAX {
            return Err(Invalid::too_long("record value", "bytes", RECORD_VALUE_BYTES_MAX, bytes.len()));
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RecordValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordValue({} bytes)", self.0.len())
    }
}

/// The version of a record. Every write of a record gets a higher one than any earlier write in the same kind, even after
/// the record was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordVersion(pub u64);

/// A stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its id, unique within its kind.
    pub id: RecordId,
    /// The version of its last write.
    pub version: RecordVersion,
    /// Its content.
    pub value: RecordValue,
    /// When it was written last.
    pub written_at: Timestamp,
    /// When it is forgotten; [`Timestamp::NEVER`] if it is kept.
    pub expires_at: Timestamp,
}

impl Record {
    /// What the record counts towards [`RECORD_KIND_BYTES_MAX`]: its id, its value and a fixed cost.
    pub fn bytes(&self) -> u64 {
        record_bytes(&self.id, &self.value)
    }

    /// Whether the record is there at this moment.
    pub fn is_current(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }
}

/// What a record with this id and value counts towards [`RECORD_KIND_BYTES_MAX`].
pub fn record_bytes(id: &RecordId, value: &RecordValue) -> u64 {
    const FIXED: usize = 128;
    (FIXED + id.as_str().len() + value.as_bytes().len()) as u64
}

#[cfg(test)]
mod tests {
    use super::{RecordKind, RecordValue, WhenFull};
    use crate::limits::{RECORD_KIND_BYTES_MAX, RECORD_VALUE_BYTES_MAX};

    #[test]
    fn a_kind_is_bounded_in_records_and_bytes() {
        let kind = RecordKind::new("paused_topic", 2, WhenFull::Refuse);
        assert!(!kind.is_exceeded(2, RECORD_KIND_BYTES_MAX));
        assert!(kind.is_exceeded(3, 1));
        assert!(kind.is_exceeded(1, RECORD_KIND_BYTES_MAX + 1));
    }

    #[test]
    fn a_value_is_bounded_and_not_shown() {
        let value = RecordValue::new("secret").unwrap();
        assert_eq!(format!("{value:?}"), "RecordValue(6 bytes)");
        assert!(RecordValue::new(vec![0; RECORD_VALUE_BYTES_MAX]).is_ok());
        assert_eq!(
            RecordValue::new(vec![0; RECORD_VALUE_BYTES_MAX + 1]).unwrap_err().to_string(),
            "record value is 65537 bytes long, the limit is 65536"
        );
    }

    #[test]
    #[should_panic(expected = "a name has letters")]
    fn a_kind_with_a_strange_name_is_refused() {
        RecordKind::new("Paused topic", 1, WhenFull::Refuse);
    }
}
