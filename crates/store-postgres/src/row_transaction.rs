//! The tables as the engine uses them: a transaction that locks and loads messages, and writes what was decided.
//!
//! Locks are acquired in one order, messages by uid and then their leases, here and in every statement.

use std::collections::HashMap;

use oncebox_core::{Error, Snapshot};
use oncebox_store_rows::{
    Admission, Body, Changes, LaneKey, LockWait, LockedRows, Rows, StepFailure, Targets, Ticket, Wanted,
    Write,
};
use sqlx::PgConnection;
use sqlx::postgres::{PgRow, PgTransactionManager};
use sqlx_core::transaction::TransactionManager;
use uuid::Uuid;

use crate::capacity::count_unfinished;
use crate::codes::{from_bigint, key_hash, timestamp};
use crate::db_error::step_failure;
use crate::rows::{Cells, LeaseArrays, LeaseRow, Message, MessageArrays, Row, lease_row, push_message};
use crate::sql::Sql;
use crate::store::PostgresStore;

/// How often a transaction is attempted that conflicts with concurrent ones.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// The uids and the key hashes of the messages that a call names, as statements take them.
pub(crate) fn target_columns(targets: &Targets<'_>) -> (Vec<Uuid>, Vec<Uuid>) {
    let uids = targets.uids.iter().map(|uid| Uuid::from_u128(uid.as_u128())).collect();
    (uids, targets.keys.iter().map(|key| key_hash(key)).collect())
}

/// The tables of a store, on one connection. Inside the caller's transaction, a transaction of the engine is a savepoint.
pub(crate) struct TableRows<'a> {
    sql: &'a Sql,
    /// The time, if it is not the server's.
    now: Option<i64>,
    admission: Admission,
    connection: &'a mut PgConnection,
    lock_wait: LockWait,
    /// Whether a transaction has begun that is neither committed nor rolled back.
    open: bool,
}

impl<'a> TableRows<'a> {
    pub(crate) fn new(store: &'a PostgresStore, connection: &'a mut PgConnection) -> Self {
        let admission = if store.hints.keys_are_full() { Admission::Full } else { Admission::Open };
        let (sql, now) = (&store.sql, store.time());
        Self { sql, now, admission, connection, lock_wait: LockWait::Block, open: false }
    }

    /// Rolls back, before the connection sends anything else.
    fn roll_back(&mut self) {
        if std::mem::take(&mut self.open) {
            PgTransactionManager::start_rollback(self.connection);
        }
    }
}

impl Drop for TableRows<'_> {
    fn drop(&mut self) {
        self.roll_back();
    }
}

impl Rows for TableRows<'_> {
    const ATTEMPTS_MAX: u32 = ATTEMPTS_MAX;

    async fn begin(&mut self, lock_wait: LockWait) -> Result<(), StepFailure> {
        self.roll_back();
        PgTransactionManager::begin(self.connection, None).await.map_err(step_failure)?;
        (self.lock_wait, self.open) = (lock_wait, true);
        Ok(())
    }

    async fn load(&mut self, wanted: Wanted<'_>) -> Result<Vec<Snapshot<Body>>, StepFailure> {
        let query = match wanted {
            Wanted::Named(targets) => {
                let (uids, hashes) = target_columns(targets);
                let lock = match self.lock_wait {
                    LockWait::FailFast => &self.sql.lock,
                    LockWait::Block => &self.sql.lock_blocking,
                };
                lock.query().bind(uids).bind(hashes)
            }
            Wanted::Due { items_max, locked } => {
                let due = match locked {
                    LockedRows::Skip => &self.sql.due,
                    LockedRows::Wait => &self.sql.due_wait,
                };
                due.query().bind(self.now).bind(i64::from(items_max))
            }
        };
        let rows = query.fetch_all(self.connection).await.map_err(step_failure)?;
        self.with_leases(&rows).await
    }

    async fn ticket(&mut self) -> Result<Ticket, StepFailure> {
        let clock = self.sql.clock.query().bind(self.now).fetch_one(self.connection);
        let row = clock.await.map_err(step_failure)?;
        let mut cells = Cells::new(&row);
        let (now, floor) = (timestamp(cells.next()?), from_bigint(cells.next()?)?);
        Ok(Ticket { now, floor, admission: self.admission })
    }

    async fn count_unfinished(&mut self, lanes: &[(LaneKey, u64)]) -> Result<Vec<u64>, StepFailure> {
        let limits = lanes.iter().map(|(lane, count_max)| (lane, *count_max));
        Ok(count_unfinished(self.sql, self.connection, limits).await?)
    }

    async fn store(&mut self, changes: Changes<'_>) -> Result<(), StepFailure> {
        write(self.sql, self.connection, changes).await
    }

    async fn commit(&mut self) -> Result<(), StepFailure> {
        PgTransactionManager::commit(self.connection).await.map_err(step_failure)?;
        self.open = false;
        Ok(())
    }
}

impl TableRows<'_> {
    /// Reads locked messages, and locks and reads their leases.
    async fn with_leases(&mut self, rows: &[PgRow]) -> Result<Vec<Snapshot<Body>>, StepFailure> {
        let messages: Vec<Message<Body>> =
            rows.iter().map(|row| Message::read(&mut Cells::new(row))).collect::<Result<_, _>>()?;
        let mut leases = HashMap::new();
        if !messages.is_empty() {
            let uids: Vec<_> =
                messages.iter().map(|message| Uuid::from_u128(message.uid().as_u128())).collect();
            let lock = self.sql.lock_leases.query().bind(&uids).fetch_all(self.connection);
            for row in lock.await.map_err(step_failure)? {
                let lease = LeaseRow::read(&mut Cells::new(&row))?;
                leases.insert(lease.uid.as_u128(), lease);
            }
        }
        let messages = messages.into_iter().map(|message| {
            let lease = leases.remove(&message.uid().as_u128());
            message.with(lease)
        });
        Ok(messages.collect::<Result<_, Error>>()?)
    }
}

/// Writes a decision.
async fn write(sql: &Sql, connection: &mut PgConnection, changes: Changes<'_>) -> Result<(), StepFailure> {
    let ChangedRows { changed, added, leases, unleased, removed } = ChangedRows::of(changes);
    if changed.len() > 0 {
        changed.bind(sql.update.query()).execute(&mut *connection).await.map_err(step_failure)?;
    }
    if added.len() > 0 {
        let known: Vec<_> =
            changes.loaded.iter().map(|message| Uuid::from_u128(message.uid.as_u128())).collect();
        let release_keys = sql.release_keys.query().bind(&added.internal.key_hash).bind(known);
        release_keys.execute(&mut *connection).await.map_err(step_failure)?;
        let insert = added.bind(sql.insert.query()).execute(&mut *connection);
        if insert.await.map_err(step_failure)?.rows_affected() != added.len() as u64 {
            return Err(StepFailure::Conflict);
        }
    }
    if !unleased.is_empty() {
        let delete = sql.lease_delete.query().bind(unleased).execute(&mut *connection);
        delete.await.map_err(step_failure)?;
    }
    if !leases.uid.is_empty() {
        leases.bind(sql.lease_upsert.query()).execute(&mut *connection).await.map_err(step_failure)?;
    }
    if !removed.is_empty() {
        let delete = sql.message_delete.query().bind(removed).execute(&mut *connection);
        delete.await.map_err(step_failure)?;
    }
    Ok(())
}

/// The rows to write, by statement.
#[derive(Default)]
struct ChangedRows {
    changed: MessageArrays,
    added: MessageArrays,
    leases: LeaseArrays,
    unleased: Vec<Uuid>,
    removed: Vec<Uuid>,
}

impl ChangedRows {
    fn of(changes: Changes<'_>) -> Self {
        let mut rows = Self::default();
        for write in changes.writes {
            let (message, was_loaded) = match write {
                Write::Changed(message) => (message, true),
                Write::Added(message) => (message, false),
                Write::Removed(uid) => {
                    let uid = Uuid::from_u128(uid.as_u128());
                    rows.removed.push(uid);
                    rows.unleased.push(uid);
                    continue;
                }
            };
            let arrays = if was_loaded { &mut rows.changed } else { &mut rows.added };
            push_message(arrays, message, changes.now);
            match message.grant.as_ref().filter(|grant| grant.end.is_none()) {
                Some(grant) => rows.leases.push(lease_row(message, grant)),
                None if was_loaded => rows.unleased.push(Uuid::from_u128(message.uid.as_u128())),
                None => {}
            }
        }
        rows
    }
}
