//! Connections reserved for heartbeats and settlements, however many transactions handlers have open.

use std::sync::OnceLock;
use std::time::Duration;

use oncebox_core::Error;
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};

use crate::db_error;

/// The number of reserved connections: one for heartbeats, one for settlements.
pub(crate) const RESERVED: u32 = 2;
/// How long a call that settles or claims waits for a connection of the pool before it also tries the reserved one.
const POOL_WAIT_MAX: Duration = Duration::from_millis(50);

/// The reserved connections of a store. They are opened when they are first needed, with the settings of the pool.
pub(crate) struct Reserve {
    /// Whether there are reserved connections at all.
    reserves: bool,
    heartbeats: OnceLock<PgPool>,
    settlements: OnceLock<PgPool>,
}

impl Reserve {
    pub(crate) fn new(reserves: bool) -> Self {
        Self { reserves, heartbeats: OnceLock::new(), settlements: OnceLock::new() }
    }

    /// How many transactions handlers may have open at once: one connection of the pool is left for all other calls.
    pub(crate) fn transactions_max(&self, pool: &PgPool) -> usize {
        let connections = pool.options().get_max_connections();
        if self.reserves { connections.saturating_sub(1).try_into().unwrap_or(usize::MAX) } else { 0 }
    }

    /// A connection for extending leases. No other call uses it, so no other call can delay a heartbeat.
    pub(crate) async fn for_heartbeats(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>, Error> {
        let pool = if self.reserves { self.heartbeats.get_or_init(|| single(pool)) } else { pool };
        pool.acquire().await.map_err(db_error::into_error)
    }

    /// A connection for settling, claiming and reading records: from the pool or, if the pool is exhausted, the reserved
    /// one.
    pub(crate) async fn for_work(&self, pool: &PgPool) -> Result<PoolConnection<Postgres>, Error> {
        if !self.reserves {
            return pool.acquire().await.map_err(db_error::into_error);
        }
        let exhausted = pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections();
        let reserved = async {
            if !exhausted {
                tokio::time::sleep(POOL_WAIT_MAX).await;
            }
            self.settlements.get_or_init(|| single(pool)).acquire().await
        };
        let acquired = tokio::select! {
            biased;
            connection = pool.acquire() => connection,
            connection = reserved => connection,
        };
        acquired.map_err(db_error::into_error)
    }

    /// The pools that were opened.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &PgPool> {
        [&self.heartbeats, &self.settlements].into_iter().filter_map(OnceLock::get)
    }

    pub(crate) async fn close(&self) {
        // All pools reject new calls before the first one is waited for.
        let closing: Vec<_> = self.pools().map(PgPool::close).collect();
        for closed in closing {
            closed.await;
        }
    }
}

/// A pool of one connection with the settings of another pool.
fn single(pool: &PgPool) -> PgPool {
    let options = pool.options().clone().min_connections(0).max_connections(1);
    options.connect_lazy_with(pool.connect_options().as_ref().clone())
}
