//! Real servers for tests: on the loopback interface, unprivileged, and terminated with the test process.
//!
//! They need the Debian packages `postgresql` and `pgbouncer`, which `cargo xtask test` installs. If a server cannot be
//! started, the error says why, and a test that needs it fails: it is never skipped.
//!
//! ```no_run
//! use oncebox_testkit::servers::{Postgres, psql};
//!
//! let database = Postgres::shared()?.lend_database()?;
//! psql(database.url(), "create table fruit (name text)")?;
//! # Ok::<(), String>(())
//! ```

mod database;
mod directory;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod programs;
mod psql;
mod replica;
mod template;

pub use database::Database;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use psql::psql;
pub use replica::Replica;
