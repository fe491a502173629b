//! Behind PgBouncer in transaction mode: every case again.

use std::sync::{Arc, OnceLock};

use oncebox_core::Kind;
use oncebox_store_postgres::{Address, Options, PostgresStore};
use oncebox_testkit::servers::{PgBouncer, Postgres};
use oncebox_testkit::{Fixture, ManualClock, TestResult};
use sqlx::PgPool;

/// The pooler that all cases of this run share.
fn pooler() -> &'static PgBouncer {
    static SHARED: OnceLock<PgBouncer> = OnceLock::new();
    SHARED.get_or_init(|| {
        let server = Postgres::shared().expect("a private PostgreSQL starts");
        PgBouncer::start(server).expect("PgBouncer starts")
    })
}

/// A pool behind it, and tables of its own.
pub(crate) async fn fresh() -> (PgPool, Options) {
    let url = format!("{}?pooler=transaction&connections=6", pooler().url_for("postgres"));
    let address = Address::parse(&url, Options::default()).expect("a good URL");
    let pool = address.connect().await.expect("it answers");
    let mut options = address.options().clone();
    options.schema = crate::fresh(&pool).await.schema;
    (pool, options)
}

async fn open() -> Fixture {
    let (pool, mut options) = fresh().await;
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    Fixture { store: Arc::new(PostgresStore::new(pool, &options)), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::random_comparison!(open, 2);

/// Whoever forgets the setting is told at once, and not by statements that now and then fail.
#[tokio::test]
async fn a_pooler_that_was_not_told_of_is_noticed() -> TestResult {
    let refused = PostgresStore::open(&pooler().url_for("postgres"), Options::default()).await;
    let refused = refused.err().ok_or("it opened")?;
    assert_eq!(refused.kind(), Kind::Unavailable);
    assert!(refused.to_string().contains("set `pooler=transaction`"), "{refused}");
    Ok(())
}
