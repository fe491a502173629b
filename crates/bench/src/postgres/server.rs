//! The private server that all sides share, and what each line gets of it: a schema and connections of its own.

use std::cell::Cell;
use std::sync::Arc;

use oncebox::layers::{Coalesced, coalesce};
use oncebox_core::Store;
use oncebox_store_postgres::{Options, PostgresStore, Schema};
use oncebox_testkit::servers::Postgres;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::raw::{Ack, Raw};
use crate::drive::{Bench, Load};
use crate::ours::Ours;

/// A small server of production. What concerns durability is left as it is by default.
pub(super) const SETTINGS: [(&str, &str); 3] =
    [("shared_buffers", "1GB"), ("max_wal_size", "8GB"), ("checkpoint_timeout", "15min")];

/// How connections of both sides are set: as ours are if they come from a URL.
const PLANS: [(&str, &str); 2] = [("plan_cache_mode", "force_generic_plan"), ("jit", "off")];

/// Connections of one side, at most: as many as a pool usually has. More callers take turns.
pub(super) const CONNECTIONS_MAX: u32 = 16;

pub(super) struct Server {
    postgres: Postgres,
    schemas: Cell<u32>,
}

/// What a side works on.
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

    /// A new database for somebody who makes tables of their own.
    pub(super) fn fresh_database(&self) -> Result<String, String> {
        self.postgres.fresh_database()
    }

    /// Runs SQL and answers its rows as lines.
    pub(super) fn psql(&self, sql: &str) -> Result<String, String> {
        self.postgres.psql(sql)
    }

    /// A new schema, and connections that nobody else uses: all are made at once, and none is tested before each use.
    pub(super) fn fresh(&self, bench: &Bench, load: Load) -> Result<Tables, String> {
        let schema = format!("line_{}", self.schemas.replace(self.schemas.get() + 1));
        self.psql(&format!("create schema {schema}"))?;
        let connections = u32::try_from(load.callers).unwrap_or(u32::MAX).min(CONNECTIONS_MAX);
        let options = PgPoolOptions::new().min_connections(connections).max_connections(connections);
        let pool = options.test_before_acquire(false).idle_timeout(None).max_lifetime(None);
        let connect: PgConnectOptions = self.url().parse().map_err(|error| format!("no address: {error}"))?;
        let pool = bench.runtime.block_on(pool.connect_with(connect.options(PLANS)));
        Ok(Tables { schema, pool: pool.map_err(|error| format!("no connections: {error}"))? })
    }

    /// Our side on new tables.
    pub(super) fn ours(&self, bench: &Bench, load: Load) -> Result<(Tables, Arc<Ours>), String> {
        let tables = self.fresh(bench, load)?;
        let schema = Schema::new(tables.schema.as_str()).map_err(|error| error.to_string())?;
        let made = bench.runtime.block_on(schema.ensure(&tables.pool));
        made.map_err(|error| format!("no tables: {error}"))?;
        let mut options = Options::default();
        options.schema = schema;
        let ours = Ours::new(bench, store(tables.pool.clone(), &options), load);
        Ok((tables, ours))
    }

    /// The queue written by hand, on a new table.
    pub(super) fn raw(&self, bench: &Bench, load: Load, ack: Ack) -> Result<(Tables, Arc<Raw>), String> {
        let tables = self.fresh(bench, load)?;
        let raw = bench.runtime.block_on(Raw::open(tables.pool.clone(), &tables.schema, ack));
        Ok((tables, Arc::new(raw.map_err(|error| format!("no table: {error}"))?)))
    }

    /// Ends the connections, then drops what they worked on: vacuum shall have nothing to do where others are measured.
    pub(super) fn retire(&self, bench: &Bench, tables: &Tables) -> Result<(), String> {
        bench.runtime.block_on(tables.pool.close());
        self.psql(&format!("set client_min_messages = warning; drop schema {} cascade", tables.schema))
            .map(drop)
    }

    /// Bytes of write-ahead log so far.
    pub(super) fn wal_bytes(&self) -> Result<f64, String> {
        let bytes = self.psql("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")?;
        bytes.parse().map_err(|_| format!("'{bytes}' is no number of bytes"))
    }
}

/// The store as a program opens it.
fn store(pool: PgPool, options: &Options) -> Arc<dyn Store> {
    let store = Arc::new(PostgresStore::new(pool, options));
    Arc::new(Coalesced::with(Arc::new(store.hasty()), store, coalesce::Options::DEFAULT))
}
