//! An open store: what its calls share.

use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::{Clock, Error, ErrorKind, IdSource, Uid, check_call};
use oncebox_system::SystemRng;
use sqlx::PgPool;

use crate::address::Address;
use crate::availability::{Availability, TrackedConnection};
use crate::codes::timestamp_ms;
use crate::db_error;
use crate::hints::Hints;
use crate::options::PostgresOptions;
use crate::reserve::Reserve;
use crate::restart::Restart;
use crate::schema::Schema;
use crate::sql::Sql;
use oncebox_store_rows::LockWait;

/// A store in a PostgreSQL database, shared by all processes that open it.
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) availability: Arc<Availability>,
    /// The address without the user.
    pub(crate) name: Arc<str>,
    pub(crate) sql: Arc<Sql>,
    clock: Option<Arc<dyn Clock>>,
    ids: Arc<Mutex<SystemRng>>,
    /// How long calls wait for locks of other transactions.
    pub(crate) lock_wait: LockWait,
    pub(crate) hints: Arc<Hints>,
    /// The quoted name of the message table, for statistics.
    pub(crate) message_table: Arc<str>,
    pub(crate) keys_max: u64,
    pub(crate) restart: Arc<Restart>,
}

impl PostgresStore {
    /// Opens the store at a URL like `postgres://user:password@host/database`; see [`Address`] for the settings that
    /// it may contain.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, Error> {
        let address = Address::parse(url, options)?;
        let (pool, options) = (address.connect_beside_reserve().await?, address.options());
        if options.ensure {
            options.schema.ensure(&pool).await?;
        } else {
            options.schema.check(&pool).await?;
        }
        Ok(Self::with_reserve(pool, Reserve::new(address.reserves()), options))
    }

    /// Creates a store on a connection pool. The tables must exist; see [`crate::Schema`].
    ///
    /// In addition to the pool's connections, the store opens up to two of its own with the pool's settings: one for
    /// heartbeats, and one for settlements while the pool is exhausted. While calls get no answer, it opens one more
    /// for some seconds to find out whether the database is down. If the database is down, the store closes the
    /// pool's idle connections.
    pub fn new(pool: PgPool, options: &PostgresOptions) -> Self {
        Self::with_reserve(pool, Reserve::new(true), options)
    }

    fn with_reserve(pool: PgPool, reserve: Reserve, options: &PostgresOptions) -> Self {
        let (name, reserve): (Arc<str>, _) = (name_of(&pool, options).into(), Arc::new(reserve));
        Self {
            availability: Arc::new(Availability::new(name.clone(), pool.clone(), reserve.clone())),
            name,
            pool,
            reserve,
            sql: Arc::new(Sql::new(&options.schema.quoted(), options.pooler)),
            clock: options.clock.clone(),
            ids: Arc::default(),
            lock_wait: LockWait::Block,
            hints: Arc::default(),
            message_table: format!("{}.message", options.schema.quoted()).into(),
            keys_max: options.keys_max,
            restart: Arc::default(),
        }
    }

    /// Identifies the store in logs: `postgres://HOST:PORT/DATABASE`, and the schema if it is not the default.
    /// Contains no password and no settings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle to the same store whose calls wait at most 50 ms for locks of other transactions, for callers
    /// that combine many requests into one call. A blocked call fails with an error for which [`Error::is_blocked`]
    /// is true; nothing has changed that a retry would not report the same way.
    #[must_use]
    pub fn with_lock_timeout(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            reserve: Arc::clone(&self.reserve),
            availability: Arc::clone(&self.availability),
            name: Arc::clone(&self.name),
            sql: Arc::clone(&self.sql),
            clock: self.clock.clone(),
            ids: Arc::clone(&self.ids),
            lock_wait: LockWait::FailFast,
            hints: Arc::clone(&self.hints),
            message_table: Arc::clone(&self.message_table),
            keys_max: self.keys_max,
            restart: Arc::clone(&self.restart),
        }
    }

    pub(crate) async fn connection(&self) -> Result<TrackedConnection, Error> {
        self.pool
            .acquire()
            .await
            .map(|connection| self.availability.track(connection))
            .map_err(db_error::into_error)
    }

    /// Releases a connection after a call. If its server is read-only, the connection is closed.
    pub(crate) fn release<T>(
        mut connection: TrackedConnection,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        match &outcome {
            Err(error) if db_error::is_read_only(error) => connection.close_on_drop(),
            _ => connection.mark_clean(),
        }
        outcome
    }

    /// The time, if it is not the server's.
    pub(crate) fn time(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| timestamp_ms(clock.now()))
    }

    pub(crate) fn next_uid(&self) -> Uid {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.as_ref().map_or_else(oncebox_system::wall, |clock| clock.now());
        ids.next_uid(now)
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.pool.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the store is closed: open it again"));
        }
        Ok(())
    }

    pub(crate) fn check_items(&self, items: usize) -> Result<(), Error> {
        self.check_open()?;
        check_call(items)
    }
}

/// The address of the tables.
fn name_of(pool: &PgPool, options: &PostgresOptions) -> String {
    let server = pool.connect_options();
    let host = match server.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => server.get_host().to_owned(),
    };
    // The server uses the user's name if no database is named.
    let database = server.get_database().unwrap_or(server.get_username());
    let name = format!("postgres://{host}:{}/{database}", server.get_port());
    if options.schema == Schema::default() {
        name
    } else {
        format!("{name}?schema={}", options.schema.name())
    }
}
