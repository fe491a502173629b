//! The port on PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::limits::{check_call, check_work};
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Clock, Counts, Error, Extended, Extension, IdSource,
    Interest, Key, Kind, NewMessage, Observed, Omitted, Operated, Order, Page, PageSize, Query, ReadyTopics,
    Ref, Scope, Settlement, Sighting, Snapshot, Store, Topic, TopicPage, TopicQuery, Uid, Upkept, Usage,
    Wakeups, Worked,
};
use oncebox_system::SystemRng;
use sqlx::{PgConnection, PgPool};
use tokio::time::timeout;

use crate::availability::{Availability, Lent};
use crate::codes::{millis, moment, stamp};
use crate::fault;
use crate::hints::{Effects, Hints};
use crate::locked::{LockWait, SlowPath, Targets};
use crate::reserve::Reserve;
use crate::restart::Restart;
use crate::rows::Cells;
use crate::slow::{Body, Room, STEP_ITEMS_MAX};
use crate::sql::Sql;
use crate::{Address, Options, Schema};

/// How long closing waits for transactions that are still open.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// A store in a PostgreSQL database, shared by as many processes as open it.
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    pub(crate) reserve: Arc<Reserve>,
    pub(crate) availability: Arc<Availability>,
    /// Where it is, without who asks.
    name: Arc<str>,
    pub(crate) sql: Arc<Sql>,
    clock: Option<Arc<dyn Clock>>,
    ids: Arc<Mutex<SystemRng>>,
    /// How long calls wait for locks of others.
    pub(crate) wait: LockWait,
    pub(crate) hints: Arc<Hints>,
    /// The table of messages, as statistics name it.
    pub(crate) message_table: Arc<str>,
    pub(crate) keys_max: u64,
    pub(crate) restart: Arc<Restart>,
}

impl PostgresStore {
    /// Opens the store at a URL like `postgres://user:password@host/database`; [`Address`] says what else may stand there.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let address = Address::parse(url, options)?;
        let (pool, options) = (address.connect_beside_reserve().await?, address.options());
        if options.ensure {
            options.schema.ensure(&pool).await?;
        } else {
            options.schema.check(&pool).await?;
        }
        Ok(Self::on(pool, Reserve::new(address.reserves()), options))
    }

    /// A store on a pool of connections. The tables have to be there; see [`crate::Schema`].
    ///
    /// Beside the pool's connections it opens up to two of its own, with the pool's settings: one for heartbeats, and one for
    /// settlements while the pool has none to give; and another one for some seconds while calls are not answered, to find out whether the
    /// database is down. Then it closes those of the pool that nobody uses.
    pub fn new(pool: PgPool, options: &Options) -> Self {
        Self::on(pool, Reserve::new(true), options)
    }

    fn on(pool: PgPool, reserve: Reserve, options: &Options) -> Self {
        let (name, reserve): (Arc<str>, _) = (name_of(&pool, options).into(), Arc::new(reserve));
        Self {
            availability: Arc::new(Availability::new(name.clone(), pool.clone(), reserve.clone())),
            name,
            pool,
            reserve,
            sql: Arc::new(Sql::new(&options.schema.quoted(), options.pooler)),
            clock: options.clock.clone(),
            ids: Arc::default(),
            wait: LockWait::Patient,
            hints: Arc::default(),
            message_table: format!("{}.message", options.schema.quoted()).into(),
            keys_max: options.keys_max,
            restart: Arc::default(),
        }
    }

    /// Tells it from other stores in logs: `postgres://HOST:PORT/DATABASE` and its schema, if that has another name than usual. No
    /// password, no settings.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same store, for a caller who speaks for many: a call that another transaction holds up fails within a moment with an error
    /// that [says so](Error::is_held_up), and nothing has happened that a repeat would not answer the same.
    #[must_use]
    pub fn hasty(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            reserve: Arc::clone(&self.reserve),
            availability: Arc::clone(&self.availability),
            name: Arc::clone(&self.name),
            sql: Arc::clone(&self.sql),
            clock: self.clock.clone(),
            ids: Arc::clone(&self.ids),
            wait: LockWait::Brief,
            hints: Arc::clone(&self.hints),
            message_table: Arc::clone(&self.message_table),
            keys_max: self.keys_max,
            restart: Arc::clone(&self.restart),
        }
    }

    pub(crate) async fn connection(&self) -> Result<Lent, Error> {
        self.pool.acquire().await.map(|connection| self.availability.lend(connection)).map_err(fault::told)
    }

    /// Gives a connection back after a call, unless its server only reads: then it is closed.
    pub(crate) fn give_back<T>(mut connection: Lent, outcome: Result<T, Error>) -> Result<T, Error> {
        match &outcome {
            Err(error) if fault::is_read_only(error) => connection.close_on_drop(),
            _ => connection.is_done(),
        }
        outcome
    }

    /// The time, if it is not the server's.
    pub(crate) fn time(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| stamp(clock.now()))
    }

    pub(crate) fn next_uid(&self) -> Uid {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.as_ref().map_or_else(oncebox_system::wall, |clock| clock.now());
        ids.next_uid(now)
    }

    /// Decides about each item of a call on the slow path, in order and in bounded steps.
    pub(crate) async fn decide_each<I, T>(
        &self,
        connection: &mut PgConnection,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
        mut each: impl FnMut(&mut Machine<Body>, &mut Turn<'_, Body>, &I) -> T,
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
                // What has expired takes no space in a lane.
                self.catch_up(connection).await?;
            }
            // Once something of the call has happened, it has to go on to its end.
            let wait = if outcomes.is_empty() { self.wait } else { LockWait::Patient };
            let decide = |machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>| {
                step.iter().map(|item| each(machine, turn, item)).collect::<Vec<_>>()
            };
            let (answers, events) = self.slow(wait).decide(connection, &targets, decide).await?;
            effects.add(events);
            outcomes.extend(answers);
        }
        Ok(outcomes)
    }

    /// The same, on a connection of its own.
    async fn decide<I, T>(
        &self,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
        each: impl FnMut(&mut Machine<Body>, &mut Turn<'_, Body>, &I) -> T,
    ) -> Result<Vec<T>, Error> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let call = async {
            let mut connection = self.connection().await?;
            let mut effects = Effects::default();
            let decided = self.decide_each(&mut connection, items, target, each, &mut effects).await;
            self.hints.note(effects);
            Self::give_back(connection, decided)
        };
        self.availability.guard(call).await
    }

    pub(crate) fn slow(&self, wait: LockWait) -> SlowPath<'_> {
        let room = if self.keys_are_full() { Room::Full } else { Room::Enough };
        SlowPath { sql: &self.sql, now: self.time(), wait, room }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.pool.is_closed() {
            return Err(Error::new(Kind::Closed, "the store is closed: open it again"));
        }
        Ok(())
    }

    pub(crate) fn check_items(&self, items: usize) -> Result<(), Error> {
        self.check_open()?;
        check_call(items)
    }

    /// Extends leases of different messages.
    async fn extend_all(&self, extensions: &[&Extension]) -> Result<Vec<Extended>, Error> {
        let uid = |extension: &&Extension| uuid::Uuid::from_u128(extension.uid.as_u128());
        let uids: Vec<_> = extensions.iter().map(uid).collect();
        let owners: Vec<_> =
            extensions.iter().map(|one| uuid::Uuid::from_u128(one.owner.as_u128())).collect();
        let fences: Vec<_> = extensions.iter().map(|one| crate::codes::count(one.fence.get())).collect();
        let leases: Vec<_> = extensions.iter().map(|one| millis(one.lease.get())).collect();
        let connection = self.reserve.for_heartbeats(&self.pool).await?;
        let mut connection = self.availability.lend(connection);
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
        let rows = rows.await.map_err(fault::told);
        let rows = Self::give_back(connection, rows)?;
        let mut until = std::collections::HashMap::new();
        for row in &rows {
            let mut cells = Cells::new(row);
            until.insert(cells.next::<uuid::Uuid>()?, moment(cells.next()?));
        }
        Ok(uids
            .iter()
            .map(|uid| until.get(uid).map_or(Extended::LeaseLost, |at| Extended::Until(*at)))
            .collect())
    }
}

/// Where the tables are.
fn name_of(pool: &PgPool, options: &Options) -> String {
    let server = pool.connect_options();
    let host = match server.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => server.get_host().to_owned(),
    };
    // A server takes the user's name for a database that is not named.
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
        self.hints.bell.listen(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        self.check_items(sightings.len())?;
        let target = |targets: &mut Targets, sighting: &Sighting| targets.add_key(&sighting.key);
        self.decide(sightings, target, |machine, turn, item| match machine.observe(turn, item) {
            Observed::Saturated { retry_after, bound } => {
                Observed::Saturated { retry_after, bound: self.named(bound) }
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
            let accepted = self.take_in(&mut connection, &self.sql.accept, messages, &mut effects).await;
            // What was taken in before a failure is to be found, too.
            self.hints.note(effects);
            Self::give_back(connection, accepted)
        };
        self.availability.guard(call).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.check_items(begins.len())?;
        let target = |targets: &mut Targets, begin: &Begin| targets.add_key(&begin.key);
        self.decide(begins, target, |machine, turn, item| match machine.begin(turn, item) {
            Begun::Saturated { retry_after, bound } => {
                Begun::Saturated { retry_after, bound: self.named(bound) }
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
        // Large, and carried by every caller otherwise.
        self.availability.guard(Box::pin(self.work_on(settlements, claims))).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.check_items(extensions.len())?;
        let mut extended = Vec::with_capacity(extensions.len());
        let mut rest: Vec<&Extension> = extensions.iter().collect();
        // Each message once per statement; the order of a message's own items stays.
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
        self.hints.fullness.forget();
        self.decide(orders, Targets::add_order, |machine, turn, item| match machine.operate(turn, item) {
            Operated::Saturated { retry_after, bound } => {
                Operated::Saturated { retry_after, bound: self.named(bound) }
            }
            other => other,
        })
        .await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
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

    async fn page(&self, query: &Query) -> Result<Page, Error> {
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
        self.availability.guard(self.bounds_used()).await
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.check_open()?;
        self.availability.guard(self.keep_up(budget)).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.hints.bell.close();
        let closing = async {
            let closed = async { tokio::join!(self.pool.close(), self.reserve.close()) };
            if timeout(CLOSE_TIMEOUT, closed).await.is_err() {
                tracing::warn!(store = %self.name, "transactions are still open: their connections are closed when they end");
            }
            Ok(())
        };
        // Where nobody answers, connections end without a farewell: nothing is lost by that.
        let _ = self.availability.attend(std::pin::pin!(closing)).await;
        self.availability.end();
        Ok(())
    }
}
