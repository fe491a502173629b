//! The private PostgreSQL server that all sides share. Each row gets its own schema and connections.

use std::cell::Cell;
use std::sync::Arc;

use oncebox::layers::{Coalesced, coalesce};
use oncebox_core::Store;
use oncebox_store_postgres::{PostgresOptions, PostgresStore, Schema};
use oncebox_testkit::servers::Postgres;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::raw::{Ack, Raw};
use crate::drive::{Bench, Load};
use crate::ours::Ours;

/// A small production server. Durability settings keep their defaults.
pub(super) const SETTINGS: [(&str, &str); 3] =
    [("shared_buffers", "1GB"), ("max_wal_size", "8GB"), ("checkpoint_timeout", "15min")];

/// Connection settings of both sides: those that our store uses for connections opened from a URL.
const PLANS: [(&str, &str); 2] = [("plan_cache_mode", "force_generic_plan"), ("jit", "off")];

/// Maximum number of connections of one side, a usual pool size. Additional callers wait for a connection.
pub(super) const CONNECTIONS_MAX: u32 = 16;

pub(super) struct Server {
    postgres: Postgres,
    schemas: Cell<u32>,
}

/// The schema and connections of one side.
pub(super) struct Tables {
    pub(super) schema: String,
    pub(super) pool: PgPool,
}

impl Server {
    pub(super) fn start() -> Result<Self, String> {
        Ok(Self { postgres: Postgres::with(&SETTINGS)?, schemas: Cell::default() })
    }

    pub(super) fn url(&self) -> String {
        self.postgres.url()
    }

    /// Creates a new database for a library that creates its own tables.
    pub(super) fn fresh_database(&self) -> Result<String, String> {
        self.postgres.fresh_database()
    }

    /// Runs SQL and returns its rows as lines.
    pub(super) fn psql(&self, sql: &str) -> Result<String, String> {
        self.postgres.psql(sql)
    }

    /// Creates a new schema and its own connections: all are opened immediately, and none is tested before use.
    pub(super) fn fresh(&self, bench: &Bench, load: Load) -> Result<Tables, String> {
        let schema = format!("line_{}", self.schemas.replace(self.schemas.get() + 1));
        self.psql(&format!("create schema {schema}"))?;
        let connections = u32::try_from(load.callers).unwrap_or(u32::MAX).min(CONNECTIONS_MAX);
        let options = PgPoolOptions::new().min_connections(connections).max_connections(connections);
        let pool = options.test_before_acquire(false).idle_timeout(None).max_lifetime(None);
        let connect: PgConnectOptions =
            self.url().parse().map_err(|error| format!("invalid address: {error}"))?;
        let pool = bench.runtime.block_on(pool.connect_with(connect.options(PLANS)));
        Ok(Tables { schema, pool: pool.map_err(|error| format!("cannot connect: {error}"))? })
    }

    /// Creates our side on new tables.
    pub(super) fn ours(&self, bench: &Bench, load: Load) -> Result<(Tables, Arc<Ours>), String> {
        let tables = self.fresh(bench, load)?;
        let schema = Schema::new(tables.schema.as_str()).map_err(|error| error.to_string())?;
        let ensured = bench.runtime.block_on(schema.ensure(&tables.pool));
        ensured.map_err(|error| format!("cannot create the tables: {error}"))?;
        let mut options = PostgresOptions::default();
        options.schema = schema;
        let ours = Ours::new(bench, store(tables.pool.clone(), &options), load);
        Ok((tables, ours))
    }

    /// Creates the hand-written queue on a new table.
    pub(super) fn raw(&self, bench: &Bench, load: Load, ack: Ack) -> Result<(Tables, Arc<Raw>), String> {
        let tables = self.fresh(bench, load)?;
        let raw = bench.runtime.block_on(Raw::open(tables.pool.clone(), &tables.schema, ack));
        Ok((tables, Arc::new(raw.map_err(|error| format!("cannot create the table: {error}"))?)))
    }

    /// Closes the connections, then drops the schema, so that vacuum does not disturb later measurements.
    pub(super) fn retire(&self, bench: &Bench, tables: &Tables) -> Result<(), String> {
        bench.runtime.block_on(tables.pool.close());
        self.psql(&format!("set client_min_messages = warning; drop schema {} cascade", tables.schema))
            .map(drop)
    }

    /// WAL bytes written so far.
    pub(super) fn wal_bytes(&self) -> Result<f64, String> {
        let bytes = self.psql("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?;
        bytes.parse().map_err(|_| format!("'{bytes}' is not a number of bytes"))
    }
}

/// The store as an application opens it.
fn store(pool: PgPool, options: &PostgresOptions) -> Arc<dyn Store> {
    let store = Arc::new(PostgresStore::new(pool, options));
    Arc::new(Coalesced::with(Arc::new(store.with_lock_timeout()), store, coalesce::CoalesceOptions::DEFAULT))
}
