//! The options of a store.

use std::sync::Arc;

use oncebox_core::Clock;

use crate::pooler::Pooler;
use crate::schema::Schema;

/// The default of `keys_max`.
const KEYS_MAX_DEFAULT: u64 = 1_000_000_000;

/// The options of a PostgreSQL store.
#[derive(Clone)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// The schema that contains the tables.
    pub schema: Schema,
    /// Maximum number of connections, if the store opens them; 8 by default. A call that finds none free waits for
    /// one. While calls get no answer there may be one more for some seconds, to find out whether the database is
    /// down.
    pub connections: u32,
    /// Whether opening the store by URL creates its tables or migrates them to this version. Otherwise they must
    /// exist.
    pub ensure: bool,
    /// The connection pooler between the store and the server.
    pub pooler: Pooler,
    /// Maximum number of messages and keys, including finished messages; beyond it, the outcome of an operation that
    /// would add one is `Saturated`. Counted by the server's statistics, so the processes can exceed it by what they
    /// accept while the statistics lag behind, which is a second or two.
    pub keys_max: u64,
    /// A clock to use instead of the server's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    /// The existing schema `oncebox`, 8 connections without a pooler, at most a billion keys, and the server's clock.
    fn default() -> Self {
        Self {
            schema: Schema::default(),
            connections: 8,
            ensure: false,
            pooler: Pooler::default(),
            keys_max: KEYS_MAX_DEFAULT,
            clock: None,
        }
    }
}
