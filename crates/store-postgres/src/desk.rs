//! The desk: where everything is decided that one statement cannot decide.
//!
//! Messages and their leases are locked and laid before the machine of the core, which decides as it does in every other
//! store; what it changed is written back in the same transaction. So there is one set of rules, not a second one in SQL.
//! Locks are taken in one order, messages by uid and then their leases, here and in every statement.

use std::collections::{BTreeSet, HashMap, HashSet};

use oncebox_core::machine::{Capacity, Journal, Machine, Record, Resume, Turn};
use oncebox_core::{
    Budget, Error, Fence, Kind, Namespace, Number, PayloadHandle, Ref, Snapshot, Timestamp, Topic, Uid,
    Upkept,
};
use oncebox_system::SystemRng;
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::codes::{counted, key_hash, moment};
use crate::fault;
use crate::image::{Leases, Messages};
use crate::row::{Cells, LeaseRow, Message};
use crate::sql::Sql;

/// How often something is tried again that failed because others did the same at the same time.
pub(crate) const TRIES: u32 = 8;

/// A machine without bounds: the database has its own.
pub(crate) const UNBOUNDED: Capacity =
    Capacity { messages_max: u64::MAX, keys_max: u64::MAX, live_bytes_max: u64::MAX };

/// Which messages a call is about.
#[derive(Default, Clone)]
pub(crate) struct Wanted {
    pub(crate) uids: Vec<Uuid>,
    pub(crate) hashes: Vec<Uuid>,
}

impl Wanted {
    pub(crate) fn add_key(&mut self, key: &oncebox_core::Key) {
        self.hashes.push(key_hash(key));
    }

    pub(crate) fn add_uid(&mut self, uid: Uid) {
        self.uids.push(Uuid::from_u128(uid.as_u128()));
    }

    pub(crate) fn add(&mut self, target: &Ref) {
        match target {
            Ref::Uid(uid) => self.add_uid(*uid),
            Ref::Key(key) => self.add_key(key),
        }
    }
}

/// Notes which messages changed, in order of their first change.
#[derive(Default)]
struct Changes {
    order: Vec<Uid>,
    known: HashSet<Uid>,
}

impl<P> Journal<P> for Changes {
    fn record(&mut self, record: Record<'_, P>) {
        if self.known.insert(record.uid) {
            self.order.push(record.uid);
        }
    }
}

/// What is laid before the machine.
pub(crate) struct Loaded {
    messages: Vec<Snapshot>,
    now: Timestamp,
    ticket: i64,
    /// All of it is written back, changed or not: time was to have a look at it.
    due: bool,
}

/// What a sitting brought about.
pub(crate) struct Sitting<T> {
    pub(crate) answer: T,
    pub(crate) woken: BTreeSet<(Namespace, Topic)>,
    /// Something of a partition changed, so others of it may be free now, wherever they are.
    pub(crate) freed: bool,
    /// What time ended, and who died.
    pub(crate) upkept: Upkept,
}

/// A machine that holds exactly these messages.
pub(crate) fn machine<P: PayloadHandle>(
    messages: &[Snapshot<P>],
    now: Timestamp,
    ticket: i64,
) -> Result<Machine<P>, Error> {
    let mut machine = Machine::new(UNBOUNDED);
    for message in messages {
        machine.recall(message);
    }
    let floor = counted(ticket)?.max(1);
    let (number_floor, fence_floor) = (Number(floor), Fence::new(floor)?);
    machine.resume(Resume { now, number_floor, fence_floor, held_until: Timestamp::EPOCH });
    machine.number_from(number_floor);
    Ok(machine)
}

/// What becomes of messages that somebody else has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    PassOver,
    WaitFor,
}

/// Who sits at the desk: a transaction, the statements, a clock that tests may have set.
pub(crate) struct Desk<'a> {
    pub(crate) sql: &'a Sql,
    /// The time, if it is not the server's.
    pub(crate) now: Option<i64>,
    /// Locks of others are waited for.
    pub(crate) patient: bool,
}

/// Why a sitting came to nothing.
pub(crate) enum Trouble {
    /// Others did the same at the same time: try again.
    Collision,
    /// Somebody has locked what is needed, for longer than may be waited. Nothing happened.
    Locked,
    Failed(Error),
}

impl From<sqlx::Error> for Trouble {
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

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Trouble {
    /// What is said after the last try.
    pub(crate) fn told(self) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Locked => fault::held_up(),
            Self::Collision => Error::new(
                Kind::Unavailable,
                "too many others change the same messages at once: repeat the call",
            ),
        }
    }
}

impl Desk<'_> {
    /// Locks and loads what is wanted, decides, and writes back what changed, all in one transaction.
    pub(crate) async fn sit<T>(
        &self,
        connection: &mut PgConnection,
        wanted: &Wanted,
        decide: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T,
    ) -> Result<Sitting<T>, Trouble> {
        let mut transaction = connection.begin().await?;
        let loaded = self.lock(&mut transaction, wanted).await?;
        let (sitting, written) = self::decide(&loaded, decide)?;
        self.write(&mut transaction, &written).await?;
        transaction.commit().await?;
        Ok(sitting)
    }

    /// Locks and loads what time has something in store for, lets it happen, and writes it back. Answers how many there were.
    pub(crate) async fn tick(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: Locked,
    ) -> Result<Sitting<usize>, Trouble> {
        let mut transaction = connection.begin().await?;
        let due = match locked {
            Locked::PassOver => &self.sql.due,
            Locked::WaitFor => &self.sql.due_wait,
        };
        let rows = due.query().bind(self.now).bind(i64::from(items_max)).fetch_all(&mut transaction).await?;
        let mut loaded = self.load(&mut transaction, rows).await?;
        loaded.due = true;
        let count = loaded.messages.len();
        let (sitting, written) = decide(&loaded, |_, _| count)?;
        self.write(&mut transaction, &written).await?;
        transaction.commit().await?;
        Ok(sitting)
    }

    async fn lock(&self, connection: &mut PgConnection, wanted: &Wanted) -> Result<Loaded, Trouble> {
        let lock = if self.patient { &self.sql.lock_patiently } else { &self.sql.lock };
        let rows = lock.query().bind(&wanted.uids).bind(&wanted.hashes).fetch_all(&mut *connection);
        let rows = rows.await?;
        self.load(connection, rows).await
    }

    /// Reads the leases of locked messages, then the time.
    async fn load(
        &self,
        connection: &mut PgConnection,
        rows: Vec<sqlx::postgres::PgRow>,
    ) -> Result<Loaded, Trouble> {
        let messages: Vec<Message<_>> =
            rows.iter().map(|row| Message::read(&mut Cells::new(row))).collect::<Result<_, _>>()?;
        let mut leases = HashMap::new();
        if !messages.is_empty() {
            let uids: Vec<_> =
                messages.iter().map(|message| Uuid::from_u128(message.uid().as_u128())).collect();
            for row in self.sql.lock_leases.query().bind(&uids).fetch_all(&mut *connection).await? {
                let mut cells = Cells::new(&row);
                let uid: Uuid = cells.next()?;
                leases.extend(LeaseRow::read(&mut cells)?.map(|lease| (uid.as_u128(), lease)));
            }
        }
        let messages = messages.into_iter().map(|message| {
            let lease = leases.remove(&message.uid().as_u128());
            message.with(lease)
        });
        let messages = messages.collect();
        let row = self.sql.clock.query().bind(self.now).fetch_one(connection).await?;
        let mut cells = Cells::new(&row);
        let (now, ticket) = (moment(cells.next()?), cells.next()?);
        Ok(Loaded { messages, now, ticket, due: false })
    }

    /// Writes what was decided.
    async fn write(&self, connection: &mut PgConnection, written: &Written) -> Result<(), Trouble> {
        let Written { known, old, new, leases, unleased, gone } = written;
        if old.len() > 0 {
            old.bind(self.sql.update.query()).execute(&mut *connection).await?;
        }
        if new.len() > 0 {
            let unkey = self.sql.unkey.query().bind(new.key_hashes()).bind(known);
            unkey.execute(&mut *connection).await?;
            let inserted = new.bind(self.sql.insert.query()).execute(&mut *connection).await?;
            if inserted.rows_affected() != new.len() as u64 {
                return Err(Trouble::Collision);
            }
        }
        if !unleased.is_empty() {
            self.sql.lease_drop.query().bind(unleased).execute(&mut *connection).await?;
        }
        if !leases.is_empty() {
            leases.bind(self.sql.lease_put.query()).execute(&mut *connection).await?;
        }
        if !gone.is_empty() {
            self.sql.message_drop.query().bind(gone).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// What is to be written.
#[derive(Default)]
struct Written {
    /// What is locked.
    known: Vec<Uuid>,
    old: Messages,
    new: Messages,
    leases: Leases,
    unleased: Vec<Uuid>,
    gone: Vec<Uuid>,
}

impl Written {
    fn add(&mut self, machine: &Machine, uid: Uid, was_known: bool) {
        let row = Uuid::from_u128(uid.as_u128());
        let Some(message) = machine.peek(uid) else {
            if was_known {
                self.gone.push(row);
                self.unleased.push(row);
            }
            return;
        };
        if was_known { &mut self.old } else { &mut self.new }.push(&message, machine.now());
        match message.grant.as_ref().filter(|grant| grant.end.is_none()) {
            Some(grant) => self.leases.push(&message, grant),
            None if was_known => self.unleased.push(row),
            None => {}
        }
    }
}

/// Lays messages before the machine, and notes what it changed.
fn decide<T>(
    loaded: &Loaded,
    decide: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T,
) -> Result<(Sitting<T>, Written), Error> {
    let Loaded { messages, now, ticket, due } = loaded;
    let mut machine = machine(messages, *now, *ticket)?;
    let mut changes = Changes::default();
    let mut ids = SystemRng::default();
    let mut turn = Turn { now: *now, ids: &mut ids, journal: &mut changes };
    let answer = decide(&mut machine, &mut turn);
    // Time may have brought something also where nobody asked.
    machine.catch_up(&mut turn, u32::MAX);
    let upkept = machine.upkeep(&mut turn, Budget::new(0));
    let mut woken = BTreeSet::new();
    machine.take_woken(|namespace, topic| {
        woken.insert((namespace, topic.clone()));
    });
    let known: HashSet<Uid> = messages.iter().map(|message| message.uid).collect();
    let looked_at =
        messages.iter().map(|message| message.uid).filter(|uid| *due && !changes.known.contains(uid));
    let freed = messages.iter().any(|message| has_partition(message) && changes.known.contains(&message.uid));
    let mut written = Written::default();
    written.known.extend(known.iter().map(|uid| Uuid::from_u128(uid.as_u128())));
    for uid in changes.order.iter().copied().chain(looked_at) {
        written.add(&machine, uid, known.contains(&uid));
    }
    Ok((Sitting { answer, woken, freed, upkept }, written))
}

fn has_partition(message: &Snapshot) -> bool {
    let busy = message.grant.as_ref().and_then(|grant| grant.partition.as_ref());
    busy.or(message.content.as_ref().and_then(|content| content.partition.as_ref())).is_some()
}
