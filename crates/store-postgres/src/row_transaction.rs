//! The slow path on the tables: locks and loads the messages of a call, and writes the decision, in one transaction.
//!
//! Locks are acquired in one order, messages by uid and then their leases, here and in every statement.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{Action, Error, ErrorKind, Key, MessageRef, MessageState, Order, Snapshot, Uid};
use oncebox_system::SystemRng;
use sqlx::postgres::PgRow;
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::codes::{from_bigint, key_hash, timestamp};
use crate::db_error;
use crate::lanes;
use crate::rows::{Cells, LeaseArrays, LeaseRow, Message, MessageArrays, Row, lease_row, push_message};
use crate::slow::{
    self, Admission, Body, Decision, Events, LaneKey, Loaded, Rewrite, Write, lane_key_of_snapshot,
};
use crate::sql::Sql;

/// How often a transaction is attempted that conflicts with concurrent ones.
pub(crate) const ATTEMPTS_MAX: u32 = 8;

/// The messages that a call concerns.
#[derive(Default, Clone)]
pub(crate) struct Targets {
    pub(crate) uids: Vec<Uuid>,
    pub(crate) hashes: Vec<Uuid>,
    /// The highest limit on the lanes to which Dead messages return.
    pub(crate) lane_max: Option<NonZeroU32>,
}

impl Targets {
    pub(crate) fn of_keys<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Self {
        Self { hashes: keys.into_iter().map(key_hash).collect(), ..Self::default() }
    }

    pub(crate) fn add_key(&mut self, key: &Key) {
        self.hashes.push(key_hash(key));
    }

    pub(crate) fn add_uid(&mut self, uid: Uid) {
        self.uids.push(Uuid::from_u128(uid.as_u128()));
    }

    pub(crate) fn add_order(&mut self, order: &Order) {
        self.add(&order.target);
        if let Action::Redrive { lane_max, .. } = order.action {
            self.lane_max = self.lane_max.max(lane_max);
        }
    }

    pub(crate) fn add(&mut self, target: &MessageRef) {
        match target {
            MessageRef::Uid(uid) => self.add_uid(*uid),
            MessageRef::Key(key) => self.add_key(key),
        }
    }
}

/// How long a call waits for rows that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// 50 ms: the call carries the requests of many callers.
    FailFast,
    /// As long as the session allows.
    Block,
}

/// How to treat due messages that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockedRows {
    Skip,
    Wait,
}

/// Why nothing was decided.
pub(crate) enum Failure {
    /// A concurrent transaction made a conflicting change: retry.
    Conflict,
    /// Another transaction held a needed lock for longer than the call may wait. Nothing was changed.
    LockTimeout,
    Failed(Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        if db_error::is_lock_timeout(&error) {
            Self::LockTimeout
        } else if db_error::is_conflict(&error) {
            Self::Conflict
        } else {
            Self::Failed(db_error::into_error(error))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Failure> for Error {
    /// Converts the failure of the last attempt.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(error) => error,
            Failure::LockTimeout => db_error::blocked(),
            Failure::Conflict => Self::new(
                ErrorKind::Unavailable,
                "too many concurrent changes to the same messages: retry the call",
            ),
        }
    }
}

/// The slow path on a store's tables.
#[derive(Clone, Copy)]
pub(crate) struct SlowPath<'a> {
    pub(crate) sql: &'a Sql,
    /// The time, if it is not the server's.
    pub(crate) now: Option<i64>,
    pub(crate) lock_wait: LockWait,
    pub(crate) admission: Admission,
}

impl SlowPath<'_> {
    /// Locks and loads the targets, decides, and writes the changes, in one transaction; retries on conflicts with
    /// concurrent transactions.
    pub(crate) async fn decide<T>(
        &self,
        connection: &mut PgConnection,
        targets: &Targets,
        mut decide: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
    ) -> Result<(T, Events), Error> {
        for _ in 1..ATTEMPTS_MAX {
            match self.try_once(connection, targets, &mut decide).await {
                Ok(decided) => return Ok(decided),
                Err(Failure::Conflict) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(self.try_once(connection, targets, &mut decide).await?)
    }

    async fn try_once<T>(
        &self,
        connection: &mut PgConnection,
        targets: &Targets,
        decide: impl FnOnce(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
    ) -> Result<(T, Events), Failure> {
        let mut transaction = connection.begin().await?;
        let lock = match self.lock_wait {
            LockWait::FailFast => &self.sql.lock,
            LockWait::Block => &self.sql.lock_blocking,
        };
        let rows = lock.query().bind(&targets.uids).bind(&targets.hashes).fetch_all(&mut transaction).await?;
        let mut loaded = self.load(&mut transaction, rows).await?;
        if let Some(lane_max) = targets.lane_max {
            loaded.elsewhere = self.count_elsewhere(&mut transaction, &loaded.messages, lane_max).await?;
        }
        let decision = slow::decide(&loaded, Rewrite::Changed, &mut SystemRng::default(), decide)?;
        self.write(&mut transaction, &loaded, &decision).await?;
        transaction.commit().await?;
        Ok((decision.answer, decision.events))
    }

    /// Locks and loads messages with due timers, applies the timers, and writes the messages. Returns how many there
    /// were.
    pub(crate) async fn run_timers(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: LockedRows,
    ) -> Result<(usize, Events), Failure> {
        let mut transaction = connection.begin().await?;
        let due = match locked {
            LockedRows::Skip => &self.sql.due,
            LockedRows::Wait => &self.sql.due_wait,
        };
        let rows = due.query().bind(self.now).bind(i64::from(items_max)).fetch_all(&mut transaction).await?;
        let loaded = self.load(&mut transaction, rows).await?;
        let decision = slow::decide(&loaded, Rewrite::All, &mut SystemRng::default(), |_, _| ())?;
        self.write(&mut transaction, &loaded, &decision).await?;
        transaction.commit().await?;
        Ok((loaded.messages.len(), decision.events))
    }

    /// Reads the leases of locked messages, then the time.
    async fn load(&self, connection: &mut PgConnection, rows: Vec<PgRow>) -> Result<Loaded, Failure> {
        let messages: Vec<Message<Body>> =
            rows.iter().map(|row| Message::read(&mut Cells::new(row))).collect::<Result<_, _>>()?;
        let mut leases = HashMap::new();
        if !messages.is_empty() {
            let uids: Vec<_> =
                messages.iter().map(|message| Uuid::from_u128(message.uid().as_u128())).collect();
            for row in self.sql.lock_leases.query().bind(&uids).fetch_all(&mut *connection).await? {
                let lease = LeaseRow::read(&mut Cells::new(&row))?;
                leases.insert(lease.uid.as_u128(), lease);
            }
        }
        let messages = messages.into_iter().map(|message| {
            let lease = leases.remove(&message.uid().as_u128());
            message.with(lease)
        });
        let messages = messages.collect::<Result<_, Error>>()?;
        let row = self.sql.clock.query().bind(self.now).fetch_one(connection).await?;
        let mut cells = Cells::new(&row);
        let (now, id_block) = (timestamp(cells.next()?), cells.next()?);
        Ok(Loaded {
            messages,
            now,
            floor: from_bigint(id_block)?,
            admission: self.admission,
            elsewhere: Vec::new(),
        })
    }

    /// Counts the unfinished messages in the lanes of Dead ones, without the loaded messages; up to `lane_max`.
    async fn count_elsewhere(
        &self,
        connection: &mut PgConnection,
        messages: &[Snapshot<Body>],
        lane_max: NonZeroU32,
    ) -> Result<Vec<(LaneKey, u64)>, Failure> {
        let mut loaded_in: BTreeMap<LaneKey, u64> = BTreeMap::new();
        let in_state = |state| messages.iter().filter(move |message| message.state == state);
        loaded_in.extend(in_state(MessageState::Dead).filter_map(lane_key_of_snapshot).map(|lane| (lane, 0)));
        for lane in in_state(MessageState::Processing).filter_map(lane_key_of_snapshot) {
            loaded_in.entry(lane).and_modify(|loaded| *loaded += 1);
        }
        let demands: Vec<_> = loaded_in
            .into_iter()
            .map(|(lane, loaded)| (lane, u64::from(lane_max.get()) + loaded, loaded))
            .collect();
        let limits = demands.iter().map(|(lane, count_max, _)| (lane, *count_max));
        let counted = lanes::count_unfinished(self.sql, connection, limits).await?;
        let counts = demands.into_iter().zip(counted);
        Ok(counts.map(|((lane, _, loaded), counted)| (lane, counted.saturating_sub(loaded))).collect())
    }

    /// Writes the decision.
    async fn write<T>(
        &self,
        connection: &mut PgConnection,
        loaded: &Loaded,
        decision: &Decision<T>,
    ) -> Result<(), Failure> {
        let Rows { changed, added, leases, unleased, removed } = Rows::of(decision);
        if changed.len() > 0 {
            changed.bind(self.sql.update.query()).execute(&mut *connection).await?;
        }
        if added.len() > 0 {
            let known: Vec<_> =
                loaded.messages.iter().map(|message| Uuid::from_u128(message.uid.as_u128())).collect();
            let release_keys = self.sql.release_keys.query().bind(&added.internal.key_hash).bind(known);
            release_keys.execute(&mut *connection).await?;
            let inserted = added.bind(self.sql.insert.query()).execute(&mut *connection).await?;
            if inserted.rows_affected() != added.len() as u64 {
                return Err(Failure::Conflict);
            }
        }
        if !unleased.is_empty() {
            self.sql.lease_delete.query().bind(unleased).execute(&mut *connection).await?;
        }
        if !leases.uid.is_empty() {
            leases.bind(self.sql.lease_upsert.query()).execute(&mut *connection).await?;
        }
        if !removed.is_empty() {
            self.sql.message_delete.query().bind(removed).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// The rows to write, by statement.
#[derive(Default)]
struct Rows {
    changed: MessageArrays,
    added: MessageArrays,
    leases: LeaseArrays,
    unleased: Vec<Uuid>,
    removed: Vec<Uuid>,
}

impl Rows {
    fn of<T>(decision: &Decision<T>) -> Self {
        let mut rows = Self::default();
        for write in &decision.writes {
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
            push_message(arrays, message, decision.now);
            match message.grant.as_ref().filter(|grant| grant.end.is_none()) {
                Some(grant) => rows.leases.push(lease_row(message, grant)),
                None if was_loaded => rows.unleased.push(Uuid::from_u128(message.uid.as_u128())),
                None => {}
            }
        }
        rows
    }
}
