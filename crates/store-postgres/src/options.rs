//! How a store is set up.

use std::sync::Arc;

use oncebox_core::Clock;

use crate::Schema;

/// Messages and keys at most, unless told otherwise.
const KEYS_MAX_DEFAULT: u64 = 1_000_000_000;

/// How a PostgreSQL store is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where its tables are.
    pub schema: Schema,
    /// Connections at most, if the store makes them: 8 if not set. Calls that find none free wait for one. While calls are not answered
    /// there may be one more for some seconds, to find out whether the database is down.
    pub connections: u32,
    /// Whether a store that is opened by its URL makes its tables, or brings them to this version. If not, they have to be
    /// there.
    pub ensure: bool,
    /// What stands between the store and the server.
    pub pooler: Pooler,
    /// Messages and keys at most, finished ones included: then what would add one is answered Saturated. Counted by the server's
    /// statistics, so it is passed by what all processes take in while these are behind, which is a second or two.
    pub keys_max: u64,
    /// Another clock than the server's: for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

/// What stands between a store and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pooler {
    /// Nothing that gives a session to somebody else in between.
    #[default]
    None,
    /// A pooler in transaction mode, as PgBouncer has it: each transaction may have another session.
    Transaction,
}

impl Default for Options {
    /// The schema `oncebox` that is there already, 8 connections to the server itself, a billion keys at most, and the server's clock.
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
