//! The connection pooler, which decides how statements are sent.

/// The connection pooler between a store and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pooler {
    /// No pooler that shares sessions between clients.
    #[default]
    None,
    /// A pooler in transaction mode, such as PgBouncer: each transaction may use a different session.
    Transaction,
}
