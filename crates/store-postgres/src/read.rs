//! Reads: messages, listings, counts.

use oncebox_core::machine::CallContext;
use oncebox_core::{
    Counts, Cursor, Direction, Error, Key, MessagePage, MessageQuery, MessageRef, MessageState, Number,
    Omitted, PageSize, Scope, Shard, Snapshot, Timestamp,
};
use sqlx::postgres::PgRow;
use sqlx::{Acquire, PgConnection, Postgres, Transaction};

use crate::codes::{REASONS, STATES, bigint, code, from_bigint, key_hash, namespace, timestamp};
use crate::db_error;
use crate::row_transaction::target_columns;
use crate::rows::{Cells, LeaseRow, Message, ReadContent};
use crate::store::PostgresStore;
use oncebox_store_rows::{Admission, Targets, machine};

/// Maximum number of messages per state that one page scans: a listing with a selective filter must not run forever.
const PAGE_SCAN_MAX: i64 = 10_000;
/// Minimum number of messages per state that a filtered page scans.
const PAGE_SCAN_MIN: i64 = 1_000;
/// A cell is counted up to this number and estimated beyond it.
pub(crate) const COUNT_MAX: i64 = 10_000;

/// Reads a message with its lease, as joined by a statement.
fn snapshot<P: ReadContent>(cells: &mut Cells<'_>) -> Result<Snapshot<P>, Error> {
    let message = Message::read(cells)?;
    message.with(LeaseRow::read_if_any(cells)?)
}

impl PostgresStore {
    pub(crate) async fn find(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        let mut targets = Targets::default();
        for target in refs {
            targets.add(target);
        }
        let mut connection = self.connection().await?;
        let read = self.read_targets(&mut connection, &targets).await;
        let (now, messages) = Self::release(connection, read)?;
        // Reads reflect due timers, whether or not they have been written.
        let mut machine = machine(&messages, now, 1, Admission::Open)?;
        let mut ids = oncebox_system::SystemRng::default();
        let mut context = CallContext { now, ids: &mut ids, journal: &mut () };
        Ok(refs.iter().map(|target| machine.get(&mut context, target)).collect())
    }

    /// Messages as they are stored, and the time.
    async fn read_targets(
        &self,
        connection: &mut PgConnection,
        targets: &Targets<'_>,
    ) -> Result<(Timestamp, Vec<Snapshot>), Error> {
        let (uids, hashes) = target_columns(targets);
        let rows = self.sql.get.query().bind(self.time()).bind(uids).bind(hashes).fetch_all(connection);
        joined(&rows.await.map_err(db_error::into_error)?)
    }

    pub(crate) async fn find_by_key(
        &self,
        key: &Key,
        limit: PageSize,
    ) -> Result<Vec<Snapshot<Omitted>>, Error> {
        let mut connection = self.connection().await?;
        let read = self.read_by_key(&mut connection, key, limit).await;
        let (now, messages) = Self::release(connection, read)?;
        let mut machine = machine(&messages, now, 1, Admission::Open)?;
        let mut ids = oncebox_system::SystemRng::default();
        let mut context = CallContext { now, ids: &mut ids, journal: &mut () };
        Ok(machine.with_key(&mut context, key, limit))
    }

    async fn read_by_key(
        &self,
        connection: &mut PgConnection,
        key: &Key,
        limit: PageSize,
    ) -> Result<(Timestamp, Vec<Snapshot<Omitted>>), Error> {
        let rows = self
            .sql
            .with_key
            .query()
            .bind(self.time())
            .bind(key_hash(key))
            .bind(i64::from(limit.get()))
            .fetch_all(connection);
        joined(&rows.await.map_err(db_error::into_error)?)
    }

    pub(crate) async fn list(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        let mut connection = self.connection().await?;
        let page = self.list_on(&mut connection, query).await;
        Self::release(connection, page)
    }

    async fn list_on(
        &self,
        connection: &mut PgConnection,
        query: &MessageQuery,
    ) -> Result<MessagePage, Error> {
        let upwards = query.direction == Direction::OldestFirst;
        let statement = if upwards { &self.sql.page_up } else { &self.sql.page_down };
        let start = if upwards { 0 } else { i64::MAX };
        let wanted = match (query.state, query.dead) {
            (Some(state), _) => vec![code(&STATES, state)],
            (None, Some(_)) => vec![code(&STATES, MessageState::Dead)],
            (None, None) => STATES.iter().map(|state| code(&STATES, *state)).collect(),
        };
        self.catch_up(connection).await?;
        let mut transaction = self.begin_read(connection).await?;
        let rows = statement
            .query()
            .bind(self.time())
            .bind(namespace(query.namespace))
            .bind(&wanted)
            .bind(query.after.map_or(start, |Cursor(number)| bigint(number.0)))
            .bind(i64::from(query.size.get()))
            .bind(query.dead.map(|dead| code(&REASONS, dead)))
            .bind(query.topic.as_ref().map(|topic| topic.as_str().to_owned()))
            .bind(query.source.as_ref().map(|source| source.as_str().to_owned()))
            .bind(scan_max(query))
            .fetch_all(&mut transaction);
        let rows = rows.await.map_err(db_error::into_error)?;
        let mut page = MessagePage::default();
        let mut edge = None;
        let mut now = Timestamp::EPOCH;
        let mut messages: Vec<Snapshot<Omitted>> = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut cells = Cells::new(row);
            let stopped: i64 = cells.next()?;
            edge = (stopped != if upwards { i64::MAX } else { 0 }).then_some(stopped);
            now = timestamp(cells.next()?);
            if !cells.is_empty() {
                messages.push(snapshot(&mut cells)?);
            }
        }
        let full = messages.len() == query.size.get() as usize;
        page.next = match messages.last().filter(|_| full) {
            Some(last) => Some(Cursor(last.number)),
            None => edge.map(|edge| Ok::<_, Error>(Cursor(Number(from_bigint(edge)?)))).transpose()?,
        };
        let uids: Vec<_> = messages.iter().map(|message| MessageRef::Uid(message.uid)).collect();
        let mut machine = machine(&messages, now, 1, Admission::Open)?;
        let mut ids = oncebox_system::SystemRng::default();
        let mut context = CallContext { now, ids: &mut ids, journal: &mut () };
        let seen = uids.iter().filter_map(|uid| machine.get(&mut context, uid));
        page.messages = seen.filter(|message| query.matches(message)).collect();
        Ok(page)
    }

    /// Begins a transaction for statements that read much: they get the plan that they are written for, on a server
    /// that is not read-only.
    pub(crate) async fn begin_read<'c>(
        &self,
        connection: &'c mut PgConnection,
    ) -> Result<Transaction<'c, Postgres>, Error> {
        let mut transaction = connection.begin().await.map_err(db_error::into_error)?;
        let row =
            self.sql.read_settings.query().fetch_one(&mut transaction).await.map_err(db_error::into_error)?;
        Cells::new(&row).check_writable()?;
        Ok(transaction)
    }

    pub(crate) async fn count(&self, scope: &Scope) -> Result<Counts, Error> {
        let mut connection = self.connection().await?;
        let counts = self.count_on(&mut connection, scope).await;
        Self::release(connection, counts)
    }

    async fn count_on(&self, connection: &mut PgConnection, scope: &Scope) -> Result<Counts, Error> {
        self.catch_up(connection).await?;
        let mut transaction = self.begin_read(connection).await?;
        let (now, in_namespace) = (self.time(), namespace(scope.namespace));
        let query = match &scope.topic {
            None => self.sql.counts.query().bind(now).bind(in_namespace),
            Some(topic) => {
                let all = (0, i32::from(u16::MAX));
                let (first, last) = scope.shard.map_or(all, |Shard(shard)| (shard.into(), shard.into()));
                let query = self.sql.counts_topic.query().bind(now).bind(in_namespace);
                query.bind(topic.as_str().to_owned()).bind(first).bind(last)
            }
        };
        let row =
            query.bind(COUNT_MAX + 1).fetch_one(&mut transaction).await.map_err(db_error::into_error)?;
        let mut cells = Cells::new(&row);
        let mut estimated = false;
        let mut next = || {
            let counted: i64 = cells.next()?;
            estimated |= counted > COUNT_MAX;
            Ok::<_, Error>(u64::try_from(counted).unwrap_or_default())
        };
        let (seen, processing, done, dead) = (next()?, next()?, next()?, next()?);
        let (ready, leased) = (next()?, next()?);
        let mut counts = Counts::default();
        (counts.seen, counts.done, counts.dead) = (seen, done, dead);
        (counts.ready, counts.leased) = (ready, leased);
        counts.waiting = processing.saturating_sub(ready + leased);
        counts.estimated = estimated;
        Ok(counts)
    }
}

/// How many messages a page scans: as many as it shows, or five times as many with a filter.
fn scan_max(query: &MessageQuery) -> i64 {
    let size = i64::from(query.size.get());
    let filters = query.topic.is_some() || query.source.is_some() || query.dead.is_some();
    if filters { (size * 5).clamp(PAGE_SCAN_MIN, PAGE_SCAN_MAX) } else { size }
}

/// Reads rows of `get.sql` and `with_key.sql`: whether the server is read-only, the time, and messages with their
/// leases.
fn joined<P: ReadContent>(rows: &[PgRow]) -> Result<(Timestamp, Vec<Snapshot<P>>), Error> {
    let mut now = Timestamp::EPOCH;
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cells = Cells::new(row);
        cells.check_writable()?;
        now = timestamp(cells.next()?);
        if !cells.is_empty() {
            messages.push(snapshot(&mut cells)?);
        }
    }
    Ok((now, messages))
}
