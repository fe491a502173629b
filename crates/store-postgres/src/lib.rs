//! The store on PostgreSQL, shared by many processes and machines.
//!
//! There are two main tables: `message` holds every message and every remembered key, `lease` holds the current
//! leases. Each frequent simple operation (accepting new messages, acknowledging, claiming, extending) is one
//! statement; `oncebox-store-rows` decides everything else on locked rows, with the core's state machine. Time is the server's.

mod address;
mod availability;
mod capacity;
mod codes;
mod db_error;
mod dead_letters;
mod fast;
mod hints;
mod maintenance;
mod options;
mod pooler;
mod port;
mod query;
mod read;
mod records;
mod reserve;
mod restart;
mod row_transaction;
mod rows;
mod schema;
mod slow;
mod sql;
mod store;
mod topics;
mod transaction;

pub use address::Address;
pub use options::PostgresOptions;
pub use pooler::Pooler;
pub use schema::{Ensured, Schema};
pub use store::PostgresStore;
pub use transaction::PgTransaction;
