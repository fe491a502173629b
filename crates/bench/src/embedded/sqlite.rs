//! The rival: a plain queue on `SQLite` with one table and one connection, as an application would use. WAL,
//! synchronous=FULL.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::NewMessage;
use oncebox_system::uptime;
use rusqlite::{Connection, TransactionBehavior};

use crate::drive::{LifecycleTimes, Side};

const LEASE_SECONDS: i64 = 30;

pub(crate) struct Sqlite {
    connection: Mutex<Connection>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path) -> Arc<Self> {
        let connection = Connection::open(path.join("queue.db")).expect("SQLite opens");
        connection.pragma_update(None, "journal_mode", "WAL").expect("WAL");
        connection.pragma_update(None, "synchronous", "FULL").expect("synchronous=FULL");
        connection.execute(include_str!("sqlite/queue.sql"), ()).expect("the table");
        connection.execute(include_str!("sqlite/ready.sql"), ()).expect("the index");
        Arc::new(Self { connection: Mutex::new(connection) })
    }

    /// Runs one transaction, after yielding to the other waiting callers.
    async fn transaction<T>(&self, run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send) -> T {
        tokio::task::yield_now().await;
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.expect("a transaction begins");
        let answer = run(&transaction).expect("the statements run");
        transaction.commit().expect("the transaction commits");
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Side for Sqlite {
    async fn lifecycle(&self, caller: usize, messages: &[NewMessage]) -> LifecycleTimes {
        let start = uptime();
        let accepted = self.transaction(|connection| accept(connection, messages)).await;
        let between = uptime();
        assert_eq!(accepted, messages.len(), "every id is new");
        let owner = i64::try_from(caller).expect("few callers");
        let batch = i64::try_from(messages.len()).expect("small");
        let numbers = self.transaction(|connection| claim(connection, owner, batch)).await;
        let claim = uptime().saturating_sub(between);
        assert_eq!(numbers.len(), messages.len(), "every accepted message is ready");
        let settled = self.transaction(|connection| ack(connection, owner, &numbers)).await;
        assert_eq!(settled, messages.len(), "no lease is lost");
        LifecycleTimes { accept: between.saturating_sub(start), claim, messages: settled }
    }
}

fn accept(connection: &Connection, messages: &[NewMessage]) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(include_str!("sqlite/accept.sql"))?;
    let mut accepted = 0;
    for NewMessage { key, content, .. } in messages {
        let values =
            (key.source.as_str(), key.id.as_str(), content.topic.as_str(), content.payload.as_bytes());
        accepted += statement.execute(values)?;
    }
    Ok(accepted)
}

/// Also reads the payloads, as a worker would.
fn claim(connection: &Connection, owner: i64, batch: i64) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare_cached(include_str!("sqlite/claim.sql"))?;
    let until = i64::try_from(uptime().as_secs()).unwrap_or(i64::MAX) + LEASE_SECONDS;
    let rows = statement.query_map((owner, until, batch), |row| {
        std::hint::black_box(row.get::<_, Vec<u8>>(1)?);
        row.get(0)
    })?;
    rows.collect()
}

fn ack(connection: &Connection, owner: i64, numbers: &[i64]) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(include_str!("sqlite/ack.sql"))?;
    numbers.iter().map(|number| statement.execute((number, owner))).sum()
}
