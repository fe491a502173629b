//! How a store is set up.

use std::sync::Arc;

use oncebox_core::Clock;

use crate::Schema;

/// How a PostgreSQL store is set up.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where its tables are.
    pub schema: Schema,
    /// Connections at most, if the store makes them: 8 if not set. Calls that find none free wait for one.
    pub connections: u32,
    /// Whether a store that is opened by its URL makes its tables, or brings them to this version. If not, they have to be
    /// there.
    pub ensure: bool,
    /// What stands between the store and the server.
    pub pooler: Pooler,
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
    /// The schema `oncebox` that is there already, 8 connections to the server itself, and its clock.
    fn default() -> Self {
        Self {
            schema: Schema::default(),
            connections: 8,
            ensure: false,
            pooler: Pooler::default(),
            clock: None,
        }
    }
}
