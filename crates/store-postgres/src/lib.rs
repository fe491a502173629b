//! The store for many processes and many machines, on PostgreSQL.
//!
//! Two tables: `message` has every message and every key that is remembered, `lease` has who holds what. The frequent and
//! simple things (taking in what is new, acknowledging, claiming, extending) are one statement each; everything else is
//! decided by the machine of the core, on rows that are locked meanwhile. Time is the server's.

mod address;
mod availability;
mod codes;
mod fast;
mod fault;
mod hints;
mod letters;
mod locked;
mod options;
mod query;
mod read;
mod reserve;
mod restart;
mod rows;
mod schema;
mod slow;
mod sql;
mod store;
mod topics;
mod transaction;
mod upkeep;

pub use address::Address;
pub use options::{Options, Pooler};
pub use schema::{Ensured, Schema};
pub use store::PostgresStore;
pub use transaction::PgTransaction;
