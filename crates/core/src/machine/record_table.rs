//! The records of a store in memory, and what each operation does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use super::{CallContext, Machine};
use crate::bound::Bound;
use crate::limits::RECORD_KIND_BYTES_MAX;
use crate::payload::PayloadHandle;
use crate::port::{Direction, RecordOp, RecordOutcome};
use crate::record::{Record, RecordKind, RecordVersion, WhenFull, record_bytes};
use crate::text::RecordId;
use crate::time::Timestamp;

/// Maximum number of records that one write removes to make space. Enough for the largest record, unless the limit of
/// its kind was lowered: then further writes remove the rest.
pub const REMOVALS_MAX: u32 = 1_000;

/// One change of the records of one kind, with enough detail to apply it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordChange<'a> {
    /// The record was written; it replaces the one with the same id.
    Written(&'a Record),
    /// The record with this version was removed.
    Removed(RecordVersion),
}

/// Receives every change, in order, before it is applied.
pub trait RecordJournal {
    /// Records one change of the records of a kind.
    fn record_change(&mut self, kind: &str, change: RecordChange<'_>);
}

/// Discards all changes: for stores that keep everything in memory.
impl RecordJournal for () {
    fn record_change(&mut self, _: &str, _: RecordChange<'_>) {}
}

/// The records of a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RecordTable {
    kinds: BTreeMap<Arc<str>, KindTable>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct KindTable {
    by_id: BTreeMap<RecordId, Record>,
    /// In the order of their last writes.
    by_version: BTreeMap<RecordVersion, RecordId>,
    /// Records that expire, by that time.
    expiring: BTreeSet<(Timestamp, RecordVersion)>,
    /// The version of the last write.
    last_version: u64,
    bytes: u64,
}

impl RecordTable {
    /// Executes one operation at this time.
    pub fn run(&mut self, now: Timestamp, op: &RecordOp, journal: &mut dyn RecordJournal) -> RecordOutcome {
        match op {
            RecordOp::Put { kind, id, value, condition, keep } => {
                let current = self.current(now, *kind, id);
                if !condition.allows(current.map(|record| record.version)) {
                    return RecordOutcome::Conflict(current.cloned());
                }
                if let Some(bound) = self.make_space(now, *kind, id, record_bytes(id, value), journal) {
                    return RecordOutcome::Full(bound);
                }
                let version = RecordVersion(self.table(kind.name()).last_version + 1);
                let expires_at = keep.map_or(Timestamp::NEVER, |keep| now.after(keep.get()));
                let record =
                    Record { id: id.clone(), version, value: value.clone(), written_at: now, expires_at };
                self.commit(kind.name(), RecordChange::Written(&record), journal);
                RecordOutcome::Written(version)
            }
            RecordOp::Get { kind, id } => RecordOutcome::Found(self.current(now, *kind, id).cloned()),
            RecordOp::List { kind, direction, after, size } => {
                let records = self.list(now, *kind, *direction, after.as_ref());
                RecordOutcome::Listed(records.take(size.get() as usize).cloned().collect())
            }
            RecordOp::Delete { kind, id, version } => self.delete(now, *kind, id, *version, journal),
        }
    }

    /// Removes at most `items_max` records that have expired. Returns how many it removed.
    pub fn remove_expired(&mut self, now: Timestamp, items_max: u32, journal: &mut dyn RecordJournal) -> u32 {
        let expired = |kind: &KindTable| kind.first_expired(now);
        let mut removed = 0;
        while removed < items_max {
            let next = self.kinds.iter().find_map(|(name, kind)| Some((name.clone(), expired(kind)?)));
            let Some((kind, version)) = next else { break };
            self.commit(&kind, RecordChange::Removed(version), journal);
            removed += 1;
        }
        removed
    }

    /// Applies a recorded change again. A change of a record that is gone does nothing.
    pub fn replay(&mut self, kind: &str, change: RecordChange<'_>) {
        self.table_mut(kind).apply(change);
    }

    /// The version of the last write in each kind. A store whose journal is compacted must keep them, so that no version
    /// is used twice.
    pub fn last_versions(&self) -> impl Iterator<Item = (&str, RecordVersion)> {
        self.kinds.iter().map(|(name, kind)| (&**name, RecordVersion(kind.last_version)))
    }

    /// Restores the version of the last write in a kind, unless a later one is known.
    pub fn restore_last_version(&mut self, kind: &str, version: RecordVersion) {
        let table = self.table_mut(kind);
        table.last_version = table.last_version.max(version.0);
    }

    /// The record of a kind with this version; none once it was written again or removed.
    pub fn with_version(&self, kind: &str, version: RecordVersion) -> Option<&Record> {
        let table = self.kinds.get(kind)?;
        table.by_id.get(table.by_version.get(&version)?)
    }

    /// All records, expired or not, with their kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Record)> {
        self.kinds.iter().flat_map(|(name, kind)| kind.by_id.values().map(|record| (&**name, record)))
    }

    /// The size of all records together.
    pub fn bytes(&self) -> u64 {
        self.kinds.values().map(|kind| kind.bytes).sum()
    }

    fn delete(
        &mut self,
        now: Timestamp,
        kind: RecordKind,
        id: &RecordId,
        expected: Option<RecordVersion>,
        journal: &mut dyn RecordJournal,
    ) -> RecordOutcome {
        let Some(current) = self.current(now, kind, id) else { return RecordOutcome::Deleted(false) };
        if expected.is_some_and(|expected| expected != current.version) {
            return RecordOutcome::Conflict(Some(current.clone()));
        }
        let version = current.version;
        self.commit(kind.name(), RecordChange::Removed(version), journal);
        RecordOutcome::Deleted(true)
    }

    fn list(
        &self,
        now: Timestamp,
        kind: RecordKind,
        direction: Direction,
        after: Option<&RecordId>,
    ) -> Box<dyn Iterator<Item = &Record> + '_> {
        let Some(table) = self.kinds.get(kind.name()) else { return Box::new(std::iter::empty()) };
        let range = match (direction, after) {
            (_, None) => (Unbounded, Unbounded),
            (Direction::OldestFirst, Some(id)) => (Excluded(id.clone()), Unbounded),
            (Direction::NewestFirst, Some(id)) => (Unbounded, Excluded(id.clone())),
        };
        let records = table.by_id.range(range).map(|(_, record)| record);
        let current = move |record: &&Record| record.is_current(now);
        match direction {
            Direction::OldestFirst => Box::new(records.filter(current)),
            Direction::NewestFirst => Box::new(records.rev().filter(current)),
        }
    }

    /// Makes space for a record of this size, which will replace the one with the same id. Returns the bound that is
    /// reached if there is none.
    fn make_space(
        &mut self,
        now: Timestamp,
        kind: RecordKind,
        id: &RecordId,
        bytes: u64,
        journal: &mut dyn RecordJournal,
    ) -> Option<Bound> {
        let mut removals = 0;
        loop {
            let table = self.table(kind.name());
            let replaced = table.by_id.get(id);
            let records = table.by_id.len() as u64 - u64::from(replaced.is_some());
            let used = table.bytes - replaced.map_or(0, Record::bytes);
            if !kind.is_exceeded(records + 1, used + bytes) {
                return None;
            }
            let replaced = replaced.map(|record| record.version);
            let oldest = || table.by_version.keys().copied().find(|version| Some(*version) != replaced);
            let removed = match kind.when_full() {
                WhenFull::Refuse => table.first_expired(now),
                WhenFull::DropOldest => table.first_expired(now).or_else(oldest),
            };
            let Some(version) = removed.filter(|_| removals < REMOVALS_MAX) else {
                let full = records + 1 > u64::from(kind.records_max());
                return Some(if full {
                    Bound::new(Bound::RECORDS, records, u64::from(kind.records_max()))
                } else {
                    Bound::new(Bound::RECORD_BYTES, used, RECORD_KIND_BYTES_MAX)
                });
            };
            self.commit(kind.name(), RecordChange::Removed(version), journal);
            removals += 1;
        }
    }

    fn current(&self, now: Timestamp, kind: RecordKind, id: &RecordId) -> Option<&Record> {
        self.kinds.get(kind.name())?.by_id.get(id).filter(|record| record.is_current(now))
    }

    fn commit(&mut self, kind: &str, change: RecordChange<'_>, journal: &mut dyn RecordJournal) {
        journal.record_change(kind, change);
        self.table_mut(kind).apply(change);
    }

    fn table(&self, kind: &str) -> &KindTable {
        static EMPTY: KindTable = KindTable {
            by_id: BTreeMap::new(),
            by_version: BTreeMap::new(),
            expiring: BTreeSet::new(),
            last_version: 0,
            bytes: 0,
        };
        self.kinds.get(kind).unwrap_or(&EMPTY)
    }

    fn table_mut(&mut self, kind: &str) -> &mut KindTable {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.into(), KindTable::default());
        }
        self.kinds.get_mut(kind).expect("it was just inserted")
    }
}

impl<P: PayloadHandle> Machine<P> {
    /// Executes one operation on records.
    pub fn run_record_op(&mut self, context: &mut CallContext<'_, P>, op: &RecordOp) -> RecordOutcome {
        self.advance(context);
        self.records.run(self.now, op, context.journal)
    }

    /// Removes at most `items_max` records that have expired.
    pub(super) fn remove_expired_records(&mut self, context: &mut CallContext<'_, P>, items_max: u32) {
        self.records.remove_expired(self.now, items_max, context.journal);
    }

    /// The records.
    pub fn records(&self) -> &RecordTable {
        &self.records
    }

    /// The records, to replay a journal.
    pub fn records_mut(&mut self) -> &mut RecordTable {
        &mut self.records
    }
}

impl KindTable {
    fn first_expired(&self, now: Timestamp) -> Option<RecordVersion> {
        self.expiring.first().filter(|(at, _)| *at <= now).map(|(_, version)| *version)
    }

    fn apply(&mut self, change: RecordChange<'_>) {
        match change {
            RecordChange::Written(record) => {
                self.last_version = self.last_version.max(record.version.0);
                let replaced = self.by_id.get(&record.id).map(|record| record.version);
                replaced.inspect(|version| self.remove(*version));
                self.bytes += record.bytes();
                self.by_version.insert(record.version, record.id.clone());
                if record.expires_at < Timestamp::NEVER {
                    self.expiring.insert((record.expires_at, record.version));
                }
                self.by_id.insert(record.id.clone(), record.clone());
            }
            RecordChange::Removed(version) => self.remove(version),
        }
    }

    fn remove(&mut self, version: RecordVersion) {
        let Some(id) = self.by_version.remove(&version) else { return };
        let record = self.by_id.remove(&id).expect("both indexes have the same records");
        self.bytes -= record.bytes();
        self.expiring.remove(&(record.expires_at, version));
    }
}

#[cfg(test)]
mod tests;
