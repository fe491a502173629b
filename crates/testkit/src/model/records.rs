//! Records.

use oncebox_core::limits::RECORD_KIND_BYTES_MAX;
use oncebox_core::{
    Bound, Direction, Record, RecordKind, RecordOp, RecordOutcome, RecordVersion, Timestamp, WhenFull,
    record_bytes,
};

use super::Model;

/// A record, with the name of its kind.
pub(super) type KindRecord = (&'static str, Record);

impl Model {
    /// Executes one operation on records.
    pub fn record(&mut self, op: &RecordOp) -> RecordOutcome {
        let now = self.now;
        self.records.retain(|(_, record)| now < record.expires_at);
        match op {
            RecordOp::Put { kind, id, value, condition, keep } => {
                let current = self.record_with(*kind, |record| record.id == *id);
                if !condition.allows(current.map(|record| record.version)) {
                    return RecordOutcome::Conflict(current.cloned());
                }
                if let Some(bound) = self.make_record_space(*kind, id, record_bytes(id, value)) {
                    return RecordOutcome::Full(bound);
                }
                let version = self.next_record_version(*kind);
                let expires_at = keep.map_or(Timestamp::NEVER, |keep| now.after(keep.get()));
                let record =
                    Record { id: id.clone(), version, value: value.clone(), written_at: now, expires_at };
                self.records.retain(|(name, record)| (*name, &record.id) != (kind.name(), id));
                self.records.push((kind.name(), record));
                RecordOutcome::Written(version)
            }
            RecordOp::Get { kind, id } => {
                RecordOutcome::Found(self.record_with(*kind, |record| record.id == *id).cloned())
            }
            RecordOp::List { kind, direction, after, size } => {
                let mut records: Vec<Record> = self.records_of(*kind).cloned().collect();
                records.sort_by(|one, other| one.id.cmp(&other.id));
                if *direction == Direction::NewestFirst {
                    records.reverse();
                }
                if let Some(after) = after {
                    records.retain(|record| match direction {
                        Direction::OldestFirst => record.id > *after,
                        Direction::NewestFirst => record.id < *after,
                    });
                }
                records.truncate(size.get() as usize);
                RecordOutcome::Listed(records)
            }
            RecordOp::Delete { kind, id, version } => {
                let current = self.record_with(*kind, |record| record.id == *id);
                match current {
                    Some(record) if version.is_some_and(|version| version != record.version) => {
                        RecordOutcome::Conflict(Some(record.clone()))
                    }
                    _ => {
                        let found = current.is_some();
                        self.records.retain(|(name, record)| (*name, &record.id) != (kind.name(), id));
                        RecordOutcome::Deleted(found)
                    }
                }
            }
            other => unreachable!("the model does not know {other:?}"),
        }
    }

    fn records_of(&self, kind: RecordKind) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |(name, _)| *name == kind.name()).map(|(_, record)| record)
    }

    fn record_with(&self, kind: RecordKind, is: impl Fn(&Record) -> bool) -> Option<&Record> {
        self.records_of(kind).find(|record| is(record))
    }

    /// Makes space for a record with this id; returns the bound that is reached if there is none.
    fn make_record_space(
        &mut self,
        kind: RecordKind,
        id: &oncebox_core::RecordId,
        bytes: u64,
    ) -> Option<Bound> {
        loop {
            let others: Vec<&Record> = self.records_of(kind).filter(|record| record.id != *id).collect();
            let (count, used) =
                (others.len() as u64, others.iter().map(|record| record.bytes()).sum::<u64>());
            let (limit, bytes_limit) = (u64::from(kind.records_max()), RECORD_KIND_BYTES_MAX);
            if count < limit && used + bytes <= bytes_limit {
                return None;
            }
            let oldest = others.iter().map(|record| record.version).min();
            match (kind.when_full(), oldest) {
                (WhenFull::DropOldest, Some(oldest)) => {
                    self.records.retain(|(name, record)| (*name, record.version) != (kind.name(), oldest));
                }
                _ if count >= limit => return Some(Bound::new(Bound::RECORDS, count, limit)),
                _ => return Some(Bound::new(Bound::RECORD_BYTES, used, bytes_limit)),
            }
        }
    }

    fn next_record_version(&mut self, kind: RecordKind) -> RecordVersion {
        let last = self.record_versions.entry(kind.name()).or_default();
        *last += 1;
        RecordVersion(*last)
    }
}
