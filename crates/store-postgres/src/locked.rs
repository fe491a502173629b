//! The slow path on the tables: locks and loads what a call is about, and writes what was decided, in one transaction.
//!
//! Locks are taken in one order, messages by uid and then their leases, here and in every statement.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{Action, Error, Key, Kind, Order, Ref, Snapshot, State, Uid};
use oncebox_system::SystemRng;
use sqlx::postgres::PgRow;
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::codes::{counted, key_hash, moment};
use crate::fast::count_lanes;
use crate::fault;
use crate::hints::{LaneOf, lane_of_snapshot};
use crate::rows::{Cells, LeaseArrays, LeaseRow, Message, MessageArrays, Row, lease_row, push_message};
use crate::slow::{self, Body, Decision, Events, Loaded, Rewrite, Room, Write};
use crate::sql::Sql;

/// How often something is tried again that failed because others did the same at the same time.
pub(crate) const TRIES: u32 = 8;

/// Which messages a call is about.
#[derive(Default, Clone)]
pub(crate) struct Targets {
    pub(crate) uids: Vec<Uuid>,
    pub(crate) hashes: Vec<Uuid>,
    /// The highest bound on the lanes that Dead ones come back to.
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

    pub(crate) fn add(&mut self, target: &Ref) {
        match target {
            Ref::Uid(uid) => self.add_uid(*uid),
            Ref::Key(key) => self.add_key(key),
        }
    }
}

/// How long a call waits for rows that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// 50 ms: the caller speaks for many.
    Brief,
    /// As long as the session lets it.
    Patient,
}

/// What becomes of messages that are due and that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    PassOver,
    WaitFor,
}

/// Why nothing was decided.
pub(crate) enum Failure {
    /// Others did the same at the same time: try again.
    Collision,
    /// Another transaction has locked what is needed, for longer than may be waited. Nothing happened.
    Locked,
    Failed(Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        if fault::is_locked(&error) {
            Self::Locked
        } else if fault::is_collision(&error) {
            Self::Collision
        } else {
            Self::Failed(fault::told(error))
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Failure> for Error {
    /// After the last try.
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(error) => error,
            Failure::Locked => fault::held_up(),
            Failure::Collision => Self::new(
                Kind::Unavailable,
                "too many others change the same messages at once: repeat the call",
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
    pub(crate) wait: LockWait,
    pub(crate) room: Room,
}

impl SlowPath<'_> {
    /// Locks and loads what a call is about, decides, and writes what changed, in one transaction; again if others did the same at the
    /// same time.
    pub(crate) async fn decide<T>(
        &self,
        connection: &mut PgConnection,
        targets: &Targets,
        mut decide: impl FnMut(&mut Machine<Body>, &mut Turn<'_, Body>) -> T,
    ) -> Result<(T, Events), Error> {
        for _ in 1..TRIES {
            match self.try_once(connection, targets, &mut decide).await {
                Ok(decided) => return Ok(decided),
                Err(Failure::Collision) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(self.try_once(connection, targets, &mut decide).await?)
    }

    async fn try_once<T>(
        &self,
        connection: &mut PgConnection,
        targets: &Targets,
        decide: impl FnOnce(&mut Machine<Body>, &mut Turn<'_, Body>) -> T,
    ) -> Result<(T, Events), Failure> {
        let mut transaction = connection.begin().await?;
        let lock = match self.wait {
            LockWait::Brief => &self.sql.lock,
            LockWait::Patient => &self.sql.lock_patiently,
        };
        let rows = lock.query().bind(&targets.uids).bind(&targets.hashes).fetch_all(&mut transaction).await?;
        let mut loaded = self.load(&mut transaction, rows).await?;
        if let Some(most) = targets.lane_max {
            loaded.elsewhere = self.count_elsewhere(&mut transaction, &loaded.messages, most).await?;
        }
        let decision = slow::decide(&loaded, Rewrite::Changed, &mut SystemRng::default(), decide)?;
        self.write(&mut transaction, &loaded, &decision).await?;
        transaction.commit().await?;
        Ok((decision.answer, decision.events))
    }

    /// Locks and loads messages that time has something in store for, lets it happen, and writes them. Answers how many there were.
    pub(crate) async fn let_time_pass(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: Locked,
    ) -> Result<(usize, Events), Failure> {
        let mut transaction = connection.begin().await?;
        let due = match locked {
            Locked::PassOver => &self.sql.due,
            Locked::WaitFor => &self.sql.due_wait,
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
        let (now, ticket) = (moment(cells.next()?), cells.next()?);
        Ok(Loaded { messages, now, floor: counted(ticket)?, room: self.room, elsewhere: Vec::new() })
    }

    /// How many unfinished messages the lanes of Dead ones have, beside those that were loaded; counted up to `most`.
    async fn count_elsewhere(
        &self,
        connection: &mut PgConnection,
        messages: &[Snapshot<Body>],
        most: NonZeroU32,
    ) -> Result<Vec<(LaneOf, u64)>, Failure> {
        let mut lanes: BTreeMap<LaneOf, u64> = BTreeMap::new();
        let in_state = |state| messages.iter().filter(move |message| message.state == state);
        lanes.extend(in_state(State::Dead).filter_map(lane_of_snapshot).map(|lane| (lane, 0)));
        for lane in in_state(State::Processing).filter_map(lane_of_snapshot) {
            lanes.entry(lane).and_modify(|loaded| *loaded += 1);
        }
        let demands: Vec<_> =
            lanes.into_iter().map(|(lane, loaded)| (lane, u64::from(most.get()) + loaded, loaded)).collect();
        let counted =
            count_lanes(self.sql, connection, demands.iter().map(|(lane, most, _)| (lane, *most))).await?;
        let beside = demands.into_iter().zip(counted);
        Ok(beside.map(|((lane, _, loaded), counted)| (lane, counted.saturating_sub(loaded))).collect())
    }

    /// Writes what was decided.
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
            let unkey = self.sql.unkey.query().bind(&added.kept.key_hash).bind(known);
            unkey.execute(&mut *connection).await?;
            let inserted = added.bind(self.sql.insert.query()).execute(&mut *connection).await?;
            if inserted.rows_affected() != added.len() as u64 {
                return Err(Failure::Collision);
            }
        }
        if !unleased.is_empty() {
            self.sql.lease_drop.query().bind(unleased).execute(&mut *connection).await?;
        }
        if !leases.uid.is_empty() {
            leases.bind(self.sql.lease_put.query()).execute(&mut *connection).await?;
        }
        if !removed.is_empty() {
            self.sql.message_drop.query().bind(removed).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// What is written, by statement.
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
