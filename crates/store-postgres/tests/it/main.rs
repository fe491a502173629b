//! The PostgreSQL store against the conformance suite, the faulty cases and the random comparison, on a real server.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod cancelled;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod demoted;
#[cfg(test)]
mod handles;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod pooled;
#[cfg(test)]
mod privileges;
#[cfg(test)]
mod races;
#[cfg(test)]
mod record_locks;
#[cfg(test)]
mod reserve;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod schema;
#[cfg(test)]
mod server_clock;
#[cfg(test)]
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use oncebox_store_postgres::{PostgresOptions, PostgresStore, Schema};
use oncebox_testkit::servers::Postgres;
use oncebox_testkit::{Fixture, ManualClock};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// A pool on the server that all cases of this run share.
async fn pool() -> PgPool {
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    PgPoolOptions::new().max_connections(6).connect(&server.url()).await.expect("the server answers")
}

/// A separate schema with its tables.
async fn fresh(pool: &PgPool) -> PostgresOptions {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut options = PostgresOptions::default();
    let name = format!("case \"{}\"", NEXT.fetch_add(1, Ordering::Relaxed));
    options.schema = Schema::new(name).expect("a short name");
    options.schema.ensure(pool).await.expect("the tables are created");
    options
}

async fn open() -> Fixture {
    let pool = pool().await;
    let mut options = fresh(&pool).await;
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    Fixture { store: Arc::new(PostgresStore::new(pool, &options)), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open, 12);
