//! Implements the store port on PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Clock, Counts, Error, ErrorKind, Extended,
    Extension, IdSource, Interest, Key, MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage,
    Observation, Observed, Omitted, Operated, Order, PageSize, ReadyTopics, Scope, Settlement, Snapshot,
    Store, Topic, TopicPage, TopicQuery, Uid, Usage, Wakeups, Worked, check_call, check_work,
};
use oncebox_system::SystemRng;
use sqlx::{PgConnection, PgPool};
use tokio::time::timeout;

use crate::address::Address;
use crate::availability::{Availability, TrackedConnection};
use crate::codes::{millis, timestamp, timestamp_ms};
use crate::db_error;
use crate::hints::{Effects, Hints};
use crate::options::PostgresOptions;
use crate::reserve::Reserve;
use crate::restart::Restart;
use crate::row_transaction::{LockWait, SlowPath, Targets};
use crate::rows::Cells;
use crate::schema::Schema;
use crate::slow::{Admission, Body, STEP_ITEMS_MAX};
use crate::sql::Sql;

/// How long `close` waits for open transactions.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// A store in a PostgreSQL database, shared by all processes that open it.
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) availability: Arc<Availability>,
    /// The address without the user.
    name: Arc<str>,
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

    /// Decides each item of a call on the slow path, in order and in bounded steps.
    pub(crate) async fn decide_each<I, T>(
        &self,
        connection: &mut PgConnection,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
        mut each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
        effects: &mut Effects,
    ) -> Result<Vec<T>, Error> {
        self.refresh_keys(connection).await?;
        let mut outcomes = Vec::with_capacity(items.len());
        for step in items.chunks(STEP_ITEMS_MAX) {
            let mut targets = Targets::default();
            for item in step {
                target(&mut targets, item);
            }
            if targets.lane_max.is_some() {
                // Expired messages do not count towards the lane's limit.
                self.catch_up(connection).await?;
            }
            // Once part of the call has been committed, the call must run to completion.
            let lock_wait = if outcomes.is_empty() { self.lock_wait } else { LockWait::Block };
            let decide = |machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>| {
                step.iter().map(|item| each(machine, context, item)).collect::<Vec<_>>()
            };
            let (answers, events) = self.slow_path(lock_wait).decide(connection, &targets, decide).await?;
            effects.add(events);
            outcomes.extend(answers);
        }
        Ok(outcomes)
    }

    /// Like `decide_each`, on a connection of its own.
    async fn decide<I, T>(
        &self,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
        each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
    ) -> Result<Vec<T>, Error> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let call = async {
            let mut connection = self.connection().await?;
            let mut effects = Effects::default();
            let decided = self.decide_each(&mut connection, items, target, each, &mut effects).await;
            self.hints.apply(effects);
            Self::release(connection, decided)
        };
        self.availability.guard(call).await
    }

    pub(crate) fn slow_path(&self, lock_wait: LockWait) -> SlowPath<'_> {
        let admission = if self.keys_are_full() { Admission::Full } else { Admission::Open };
        SlowPath { sql: &self.sql, now: self.time(), lock_wait, admission }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.pool.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the store is closed: open it again"));
        }
        Ok(())
    }

    pub(crate) fn check_items(&self, items: usize) -> Result<(), Error> {
        self.check_open()?;
        check_call(items)
    }

    /// Extends leases of distinct messages.
    async fn extend_all(&self, extensions: &[&Extension]) -> Result<Vec<Extended>, Error> {
        let uid = |extension: &&Extension| uuid::Uuid::from_u128(extension.uid.as_u128());
        let uids: Vec<_> = extensions.iter().map(uid).collect();
        let owners: Vec<_> =
            extensions.iter().map(|one| uuid::Uuid::from_u128(one.owner.as_u128())).collect();
        let fences: Vec<_> = extensions.iter().map(|one| crate::codes::bigint(one.fence.get())).collect();
        let leases: Vec<_> = extensions.iter().map(|one| millis(one.lease.get())).collect();
        let connection = self.reserve.for_heartbeats(&self.pool).await?;
        let mut connection = self.availability.track(connection);
        let rows = self
            .sql
            .extend
            .query()
            .bind(self.time())
            .bind(&uids)
            .bind(&owners)
            .bind(&fences)
            .bind(&leases)
            .fetch_all(&mut connection);
        let rows = rows.await.map_err(db_error::into_error);
        let rows = Self::release(connection, rows)?;
        let mut until = std::collections::HashMap::new();
        for row in &rows {
            let mut cells = Cells::new(row);
            until.insert(cells.next::<uuid::Uuid>()?, timestamp(cells.next()?));
        }
        Ok(uids
            .iter()
            .map(|uid| until.get(uid).map_or(Extended::LeaseLost, |at| Extended::Until(*at)))
            .collect())
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

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        (capabilities.durable, capabilities.shared) = (true, true);
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.hints.notifier.listen(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.check_items(observations.len())?;
        let target = |targets: &mut Targets, observation: &Observation| targets.add_key(&observation.key);
        self.decide(observations, target, |machine, context, item| match machine.observe(context, item) {
            Observed::Saturated { retry_after, bound } => {
                Observed::Saturated { retry_after, bound: self.with_store_limit(bound) }
            }
            other => other,
        })
        .await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.check_items(messages.len())?;
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let call = async {
            let mut connection = self.connection().await?;
            let mut effects = Effects::default();
            let accepted = self.accept_on(&mut connection, &self.sql.accept, messages, &mut effects).await;
            // Messages that were accepted before a failure must be found, too.
            self.hints.apply(effects);
            Self::release(connection, accepted)
        };
        self.availability.guard(call).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.check_items(begins.len())?;
        let target = |targets: &mut Targets, begin: &Begin| targets.add_key(&begin.key);
        self.decide(begins, target, |machine, context, item| match machine.begin(context, item) {
            Begun::Saturated { retry_after, bound } => {
                Begun::Saturated { retry_after, bound: self.with_store_limit(bound) }
            }
            other => other,
        })
        .await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.check_open()?;
        check_work(settlements.len(), claims)?;
        if settlements.is_empty() && claims.is_empty() {
            return Ok(Worked { settled: Vec::new(), deliveries: Vec::new() });
        }
        // Boxed, because the future is large and every caller would carry it.
        self.availability.guard(Box::pin(self.settle_and_claim(settlements, claims))).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.check_items(extensions.len())?;
        let mut extended = Vec::with_capacity(extensions.len());
        let mut rest: Vec<&Extension> = extensions.iter().collect();
        // Each message once per statement; the order of the items of one message is kept.
        while !rest.is_empty() {
            let mut seen = std::collections::HashSet::new();
            let run = rest.iter().take_while(|item| seen.insert(item.uid)).count();
            let later = rest.split_off(run);
            extended.extend(self.availability.guard(self.extend_all(&rest)).await?);
            rest = later;
        }
        Ok(extended)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.check_items(orders.len())?;
        self.hints.depths.clear();
        self.decide(orders, Targets::add_order, |machine, context, item| {
            match machine.operate(context, item) {
                Operated::Saturated { retry_after, bound } => {
                    Operated::Saturated { retry_after, bound: self.with_store_limit(bound) }
                }
                other => other,
            }
        })
        .await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.check_items(refs.len())?;
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        self.availability.guard(self.find(refs)).await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.check_open()?;
        self.availability.guard(self.find_by_key(key, limit)).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.check_open()?;
        self.availability.guard(self.list(query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.check_open()?;
        self.availability.guard(self.count(scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.check_open()?;
        self.availability.guard(self.topics_with_work(query)).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.check_open()?;
        self.availability.guard(self.count_topics(query)).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.check_open()?;
        self.availability.guard(self.usage_now()).await
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.check_open()?;
        self.availability.guard(self.run_maintenance(budget)).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.hints.notifier.close();
        let closing = async {
            let closed = async { tokio::join!(self.pool.close(), self.reserve.close()) };
            if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                tracing::warn!(store = %self.name, "transactions still open at close: their connections are closed when they end");
            }
            Ok(())
        };
        // If the database does not answer, connections are dropped without a proper close, which loses nothing.
        let _ = self.availability.run_while_up(std::pin::pin!(closing)).await;
        self.availability.end();
        Ok(())
    }
}
