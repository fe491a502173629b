//! The port on PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use oncebox_core::limits::{check_call, check_work};
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Clock, Counts, Error, Extended, Extension, IdSource,
    Interest, Kind, NewMessage, Observed, Operated, Order, Page, Query, ReadyTopics, Ref, Scope, Settlement,
    Sighting, Snapshot, Store, Topic, Uid, Upkept, Usage, Wakeups, Worked,
};
use oncebox_system::SystemRng;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};

use crate::codes::{millis, moment, stamp};
use crate::desk::{Desk, TRIES, Trouble, Wanted};
use crate::ears::{Ears, Heard};
use crate::fault;
use crate::row::Cells;
use crate::sql::Sql;
use crate::{Address, Options};

/// A store in a PostgreSQL database, shared by as many processes as open it.
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    pub(crate) sql: Arc<Sql>,
    clock: Option<Arc<dyn Clock>>,
    ids: Mutex<SystemRng>,
    /// Locks of others are waited for.
    patient: bool,
    pub(crate) ears: Arc<Ears>,
}

impl PostgresStore {
    /// Opens the store at a URL like `postgres://user:password@host/database`; [`Address`] says what else may stand there.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let address = Address::parse(url, options)?;
        let (pool, options) = (address.connect().await?, address.options());
        if options.ensure {
            options.schema.ensure(&pool).await?;
        } else {
            options.schema.check(&pool).await?;
        }
        Ok(Self::new(pool, options))
    }

    /// A store on a pool of connections. The tables have to be there; see [`crate::Schema`].
    pub fn new(pool: PgPool, options: &Options) -> Self {
        Self {
            pool,
            sql: Arc::new(Sql::new(&options.schema.quoted(), options.pooler)),
            clock: options.clock.clone(),
            ids: Mutex::default(),
            patient: true,
            ears: Arc::default(),
        }
    }

    /// The same store, for those who speak for many: a call that a transaction of somebody else holds up fails within a
    /// moment with an error that [says so](Error::is_held_up), and nothing has happened that a repeat would not answer the same.
    #[must_use]
    pub fn hasty(&self) -> Self {
        self.with_patience(false)
    }

    /// The same store, which waits for locks of others or does not.
    pub(crate) fn with_patience(&self, patient: bool) -> Self {
        Self {
            pool: self.pool.clone(),
            sql: self.sql.clone(),
            clock: self.clock.clone(),
            ids: Mutex::default(),
            patient,
            ears: Arc::clone(&self.ears),
        }
    }

    /// Whether locks of others are waited for.
    pub(crate) fn is_patient(&self) -> bool {
        self.patient
    }

    pub(crate) async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        self.pool.acquire().await.map_err(fault::told)
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

    /// Locks, decides and writes, again if others did the same at the same time.
    pub(crate) async fn sit<T>(
        &self,
        connection: &mut PgConnection,
        wanted: &Wanted,
        heard: &mut Heard,
        decide: impl FnMut(&mut Machine, &mut Turn<'_>) -> T,
    ) -> Result<T, Error> {
        self.sit_at(&self.desk(), connection, wanted, heard, decide).await
    }

    /// The same, at this desk.
    pub(crate) async fn sit_at<T>(
        &self,
        desk: &Desk<'_>,
        connection: &mut PgConnection,
        wanted: &Wanted,
        heard: &mut Heard,
        mut decide: impl FnMut(&mut Machine, &mut Turn<'_>) -> T,
    ) -> Result<T, Error> {
        for _ in 1..TRIES {
            match desk.sit(connection, wanted, &mut decide).await {
                Ok(sitting) => return Ok(heard.add(sitting)),
                Err(Trouble::Collision) => {}
                Err(trouble) => return Err(trouble.told()),
            }
        }
        let sitting = desk.sit(connection, wanted, &mut decide).await.map_err(Trouble::told)?;
        Ok(heard.add(sitting))
    }

    /// The same, on a connection of its own.
    async fn decide<T>(
        &self,
        wanted: &Wanted,
        decide: impl FnMut(&mut Machine, &mut Turn<'_>) -> T,
    ) -> Result<T, Error> {
        let mut heard = Heard::default();
        let mut connection = self.connection().await?;
        let answer = self.sit(&mut connection, wanted, &mut heard, decide).await?;
        self.ears.hear(heard);
        Ok(answer)
    }

    pub(crate) fn desk(&self) -> Desk<'_> {
        Desk { sql: &self.sql, now: self.time(), patient: self.patient }
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
        let mut connection = self.connection().await?;
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
        let rows = rows.await.map_err(fault::told)?;
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

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for PostgresStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        (capabilities.durable, capabilities.shared) = (true, true);
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.ears.bell.listen(interest)
    }

    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error> {
        self.check_items(sightings.len())?;
        if sightings.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Wanted::default();
        for sighting in sightings {
            wanted.add_key(&sighting.key);
        }
        self.decide(&wanted, |machine, turn| {
            sightings.iter().map(|item| machine.observe(turn, item)).collect()
        })
        .await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.check_items(messages.len())?;
        let mut connection = self.connection().await?;
        let mut heard = Heard::default();
        let accepted = self.take_in(&mut connection, &self.sql.accept, messages, &mut heard).await?;
        self.ears.hear(heard);
        Ok(accepted)
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.check_items(begins.len())?;
        if begins.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Wanted::default();
        for begin in begins {
            wanted.add_key(&begin.key);
        }
        self.decide(&wanted, |machine, turn| begins.iter().map(|item| machine.begin(turn, item)).collect())
            .await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.check_open()?;
        check_work(settlements.len(), claims)?;
        self.work_on(settlements, claims).await
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
            extended.extend(self.extend_all(&rest).await?);
            rest = later;
        }
        Ok(extended)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.check_items(orders.len())?;
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Wanted::default();
        for order in orders {
            wanted.add(&order.target);
        }
        self.ears.room.forget();
        self.decide(&wanted, |machine, turn| orders.iter().map(|item| machine.operate(turn, item)).collect())
            .await
    }

    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.check_items(refs.len())?;
        if refs.is_empty() {
            return Ok(Vec::new());
        }
        self.find(refs).await
    }

    async fn page(&self, query: &Query) -> Result<Page, Error> {
        self.check_open()?;
        self.list(query).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.check_open()?;
        self.count(scope).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.check_open()?;
        self.topics_with_work(query).await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.check_open()?;
        Ok(Usage::default())
    }

    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error> {
        self.check_open()?;
        self.keep_up(budget).await
    }

    async fn close(&self) -> Result<(), Error> {
        self.ears.bell.close();
        self.pool.close().await;
        Ok(())
    }
}
