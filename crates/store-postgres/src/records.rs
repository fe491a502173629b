//! Records. A write locks its kind, decides, and writes, in one transaction; a read takes no lock.

use oncebox_core::limits::RECORD_KIND_BYTES_MAX;
use oncebox_core::machine::REMOVALS_MAX;
use oncebox_core::{
    Bound, Direction, Error, Record, RecordId, RecordKind, RecordOp, RecordOutcome, RecordValue,
    RecordVersion, Span, Timestamp, WhenFull, WriteCondition, record_bytes,
};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection};

use crate::codes::{bigint, from_bigint, timestamp_ms};
use crate::db_error;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// Sorts after every id: longer than any id may be, and made of the highest character.
const HIGHEST_ID_CHARS: usize = oncebox_core::limits::TEXT_BYTES_MAX / 4 + 1;

/// A kind whose row is locked, and what its records use.
struct LockedKind {
    name: String,
    last_version: u64,
    records: u64,
    bytes: u64,
    /// The time at which the lock was acquired.
    now: Timestamp,
}

/// A record to write.
struct Put<'a> {
    kind: RecordKind,
    id: &'a RecordId,
    value: &'a RecordValue,
    condition: WriteCondition,
    keep: Option<Span>,
}

impl PostgresStore {
    /// Executes operations one after another, each in a transaction of its own.
    pub(crate) async fn run_record_ops(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        let reads = |op: &RecordOp| matches!(op, RecordOp::Get { .. } | RecordOp::List { .. });
        // Claims depend on records that were read, so reads are not kept waiting by transactions of handlers.
        let mut connection = if ops.iter().all(reads) {
            self.availability.track(self.reserve.for_work(&self.pool).await?)
        } else {
            self.connection().await?
        };
        let mut outcomes = Vec::with_capacity(ops.len());
        for op in ops {
            match self.run_record_op(&mut connection, op).await {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => return Self::release(connection, Err(error)),
            }
        }
        Self::release(connection, Ok(outcomes))
    }

    async fn run_record_op(
        &self,
        connection: &mut PgConnection,
        op: &RecordOp,
    ) -> Result<RecordOutcome, Error> {
        match op {
            RecordOp::Put { kind, id, value, condition, keep } => {
                let put = Put { kind: *kind, id, value, condition: *condition, keep: *keep };
                self.put_record(connection, &put).await
            }
            RecordOp::Delete { kind, id, version } => {
                self.delete_record(connection, *kind, id, *version).await
            }
            RecordOp::Get { kind, id } => {
                let read = self.sql.record_read.query().bind(self.time()).bind(kind.name());
                let rows = read.bind(id.as_str().to_owned()).fetch_all(connection).await;
                let mut records = read_records(&rows.map_err(db_error::into_error)?)?;
                Ok(RecordOutcome::Found(records.pop()))
            }
            RecordOp::List { kind, direction, after, size } => {
                let (list, bound) = match direction {
                    Direction::OldestFirst => (&self.sql.record_list_up, String::new()),
                    Direction::NewestFirst => {
                        (&self.sql.record_list_down, "\u{10FFFF}".repeat(HIGHEST_ID_CHARS))
                    }
                };
                let after = after.as_ref().map_or(bound, |after| after.as_str().to_owned());
                let list = list.query().bind(self.time()).bind(kind.name()).bind(after);
                let rows = list.bind(i64::from(size.get())).fetch_all(connection).await;
                read_records(&rows.map_err(db_error::into_error)?).map(RecordOutcome::Listed)
            }
            other => Err(Error::new(
                oncebox_core::ErrorKind::Unsupported,
                format!("this store does not know the operation {other:?}"),
            )),
        }
    }

    async fn put_record(&self, connection: &mut PgConnection, put: &Put<'_>) -> Result<RecordOutcome, Error> {
        let mut transaction = connection.begin().await.map_err(db_error::into_error)?;
        let mut kind = self.lock_kind(&mut transaction, put.kind).await?;
        let found = self.stored_record(&mut transaction, put.kind, put.id).await?;
        let current = found.as_ref().filter(|record| record.is_current(kind.now));
        if !put.condition.allows(current.map(|record| record.version)) {
            return Ok(RecordOutcome::Conflict(current.cloned()));
        }
        // The record that is replaced, expired or not, makes space first.
        let replaced = found.as_ref().map(Record::bytes);
        if let Some(size) = replaced {
            kind.records = kind.records.saturating_sub(1);
            kind.bytes = kind.bytes.saturating_sub(size);
        }
        let (bytes, before) = (record_bytes(put.id, put.value), kind.records);
        if let Some(bound) = self.make_record_space(&mut transaction, &mut kind, put, bytes).await? {
            // What was removed stays removed: if the limit was lowered by far, further writes remove the rest.
            if kind.records < before {
                kind.records += u64::from(replaced.is_some());
                kind.bytes += replaced.unwrap_or_default();
                self.set_use(&mut transaction, &kind).await?;
                transaction.commit().await.map_err(db_error::into_error)?;
            }
            return Ok(RecordOutcome::Full(bound));
        }
        let version = kind.last_version + 1;
        let expires_at = put.keep.map_or(Timestamp::NEVER, |keep| kind.now.after(keep.get()));
        let write = self.sql.record_write.query().bind(put.kind.name()).bind(put.id.as_str().to_owned());
        let write = write.bind(bigint(version)).bind(timestamp_ms(kind.now)).bind(timestamp_ms(expires_at));
        let write = write.bind(i32::try_from(bytes).unwrap_or(i32::MAX)).bind(put.value.as_bytes().to_vec());
        write.execute(&mut transaction).await.map_err(db_error::into_error)?;
        (kind.last_version, kind.records, kind.bytes) = (version, kind.records + 1, kind.bytes + bytes);
        self.set_use(&mut transaction, &kind).await?;
        transaction.commit().await.map_err(db_error::into_error)?;
        Ok(RecordOutcome::Written(RecordVersion(version)))
    }

    async fn delete_record(
        &self,
        connection: &mut PgConnection,
        kind: RecordKind,
        id: &RecordId,
        expected: Option<RecordVersion>,
    ) -> Result<RecordOutcome, Error> {
        let mut transaction = connection.begin().await.map_err(db_error::into_error)?;
        let mut locked = self.lock_kind(&mut transaction, kind).await?;
        let found = self.stored_record(&mut transaction, kind, id).await?;
        let Some(record) = found.filter(|record| record.is_current(locked.now)) else {
            return Ok(RecordOutcome::Deleted(false));
        };
        if expected.is_some_and(|expected| expected != record.version) {
            return Ok(RecordOutcome::Conflict(Some(record)));
        }
        self.remove_records(&mut transaction, &mut locked, &[(record.version.0, record.bytes())]).await?;
        self.set_use(&mut transaction, &locked).await?;
        transaction.commit().await.map_err(db_error::into_error)?;
        Ok(RecordOutcome::Deleted(true))
    }

    /// Deletes at most `items_max` expired records. Kinds that another process has locked are not waited for long.
    pub(crate) async fn delete_expired_records(
        &self,
        connection: &mut PgConnection,
        items_max: u64,
    ) -> Result<(), Error> {
        let due = self.sql.record_kinds_due.query().bind(self.time()).fetch_all(&mut *connection).await;
        let mut left = items_max;
        for row in &due.map_err(db_error::into_error)? {
            if left == 0 {
                break;
            }
            let name: String = Cells::new(row).next()?;
            let mut transaction = connection.begin().await.map_err(db_error::into_error)?;
            let mut kind = match self.lock_kind_named(&mut transaction, name).await {
                Ok(kind) => kind,
                // The next run deletes them. Everything else that is due does not wait for it.
                Err(error) if error.is_blocked() => {
                    transaction.rollback().await.map_err(db_error::into_error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let expired = self.expired_records(&mut transaction, &kind, None, left).await?;
            left -= expired.len() as u64;
            self.remove_records(&mut transaction, &mut kind, &expired).await?;
            self.set_use(&mut transaction, &kind).await?;
            transaction.commit().await.map_err(db_error::into_error)?;
        }
        Ok(())
    }

    /// Makes space for the record; returns the bound that is reached if there is none.
    async fn make_record_space(
        &self,
        transaction: &mut PgConnection,
        kind: &mut LockedKind,
        put: &Put<'_>,
        bytes: u64,
    ) -> Result<Option<Bound>, Error> {
        let fits = |kind: &LockedKind| !put.kind.is_exceeded(kind.records + 1, kind.bytes + bytes);
        if fits(kind) {
            return Ok(None);
        }
        let expired = self.expired_records(transaction, kind, Some(put.id), u64::from(REMOVALS_MAX)).await?;
        self.remove_records(transaction, kind, &expired).await?;
        if !fits(kind) && put.kind.when_full() == WhenFull::DropOldest {
            let oldest = self.sql.record_oldest.query().bind(kind.name.clone());
            let oldest = oldest.bind(put.id.as_str().to_owned()).bind(i64::from(REMOVALS_MAX));
            let rows = oldest.fetch_all(&mut *transaction).await.map_err(db_error::into_error)?;
            let mut dropped = Vec::new();
            let (mut records, mut used) = (kind.records, kind.bytes);
            for (version, size) in versions(&rows)? {
                if !put.kind.is_exceeded(records + 1, used + bytes) {
                    break;
                }
                dropped.push((version, size));
                (records, used) = (records.saturating_sub(1), used.saturating_sub(size));
            }
            self.remove_records(transaction, kind, &dropped).await?;
        }
        if fits(kind) {
            return Ok(None);
        }
        let limit = u64::from(put.kind.records_max());
        Ok(Some(if kind.records >= limit {
            Bound::new(Bound::RECORDS, kind.records, limit)
        } else {
            Bound::new(Bound::RECORD_BYTES, kind.bytes, RECORD_KIND_BYTES_MAX)
        }))
    }

    async fn lock_kind(&self, transaction: &mut PgConnection, kind: RecordKind) -> Result<LockedKind, Error> {
        self.lock_kind_named(transaction, kind.name().to_owned()).await
    }

    async fn lock_kind_named(
        &self,
        transaction: &mut PgConnection,
        name: String,
    ) -> Result<LockedKind, Error> {
        let lock = self.sql.record_lock.query().bind(self.time()).bind(name.clone());
        let row = lock.fetch_one(transaction).await.map_err(db_error::into_error)?;
        let mut cells = Cells::new(&row);
        let mut number = || cells.next().and_then(from_bigint);
        let (last_version, records, bytes) = (number()?, number()?, number()?);
        Ok(LockedKind { name, last_version, records, bytes, now: cells.timestamp()? })
    }

    async fn stored_record(
        &self,
        transaction: &mut PgConnection,
        kind: RecordKind,
        id: &RecordId,
    ) -> Result<Option<Record>, Error> {
        let get = self.sql.record_get.query().bind(kind.name()).bind(id.as_str().to_owned());
        let rows = get.fetch_all(transaction).await.map_err(db_error::into_error)?;
        let read = |row| {
            let mut cells = Cells::new(row);
            read_record(cells.next()?, &mut cells)
        };
        rows.first().map(read).transpose()
    }

    async fn expired_records(
        &self,
        transaction: &mut PgConnection,
        kind: &LockedKind,
        except: Option<&RecordId>,
        items_max: u64,
    ) -> Result<Vec<(u64, u64)>, Error> {
        let expired = self.sql.record_expired.query().bind(kind.name.clone()).bind(timestamp_ms(kind.now));
        let expired = expired.bind(except.map(|id| id.as_str().to_owned()));
        let rows = expired.bind(bigint(items_max)).fetch_all(transaction).await;
        versions(&rows.map_err(db_error::into_error)?)
    }

    /// Removes records by their versions and sizes.
    async fn remove_records(
        &self,
        transaction: &mut PgConnection,
        kind: &mut LockedKind,
        removed: &[(u64, u64)],
    ) -> Result<(), Error> {
        if removed.is_empty() {
            return Ok(());
        }
        let list: Vec<i64> = removed.iter().map(|(version, _)| bigint(*version)).collect();
        let delete = self.sql.record_delete.query().bind(kind.name.clone()).bind(list);
        delete.execute(transaction).await.map_err(db_error::into_error)?;
        kind.records = kind.records.saturating_sub(removed.len() as u64);
        kind.bytes = kind.bytes.saturating_sub(removed.iter().map(|(_, size)| size).sum());
        Ok(())
    }

    async fn set_use(&self, transaction: &mut PgConnection, kind: &LockedKind) -> Result<(), Error> {
        let set = self.sql.record_use.query().bind(kind.name.clone()).bind(bigint(kind.last_version));
        let set = set.bind(bigint(kind.records)).bind(bigint(kind.bytes));
        set.execute(transaction).await.map(drop).map_err(db_error::into_error)
    }
}

/// Versions and sizes.
fn versions(rows: &[PgRow]) -> Result<Vec<(u64, u64)>, Error> {
    let read = |row| {
        let mut cells = Cells::new(row);
        let version = from_bigint(cells.next()?)?;
        Ok((version, u64::try_from(cells.next::<i32>()?).unwrap_or_default()))
    };
    rows.iter().map(read).collect()
}

/// The records of a reading statement: after the mark that the server is read-only, each row has a record or nothing.
fn read_records(rows: &[PgRow]) -> Result<Vec<Record>, Error> {
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cells = Cells::new(row);
        cells.check_writable()?;
        if let Some(id) = cells.next::<Option<String>>()? {
            records.push(read_record(id, &mut cells)?);
        }
    }
    Ok(records)
}

/// A record, without its id.
fn read_record(id: String, cells: &mut Cells<'_>) -> Result<Record, Error> {
    Ok(Record {
        id: RecordId::new(id)?,
        version: RecordVersion(from_bigint(cells.next()?)?),
        written_at: cells.timestamp()?,
        expires_at: cells.timestamp()?,
        value: RecordValue::new(cells.next::<Vec<u8>>()?)?,
    })
}
