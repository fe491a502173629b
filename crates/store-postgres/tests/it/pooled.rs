//! Every case again, behind PgBouncer in transaction mode.

use std::sync::{Arc, OnceLock};

use oncebox_core::ErrorKind;
use oncebox_store_postgres::{Address, PostgresOptions, PostgresStore};
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

/// A pool behind the pooler, and a separate schema.
pub(crate) async fn fresh() -> (PgPool, PostgresOptions) {
    let url = format!("{}?pooler=transaction&connections=6", pooler().url_for("postgres"));
    let address = Address::parse(&url, PostgresOptions::default()).expect("a valid URL");
    let pool = address.connect().await.expect("the pooler answers");
    let mut options = address.options().clone();
    // Directly on the server: what is tested behind the pooler are the calls of the case.
    let direct = crate::pool().await;
    options.schema = crate::fresh(&direct).await.schema;
    direct.close().await;
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

/// A missing `pooler` setting is reported when the store is opened, not by statements that fail occasionally.
#[tokio::test]
async fn an_undeclared_pooler_is_detected() -> TestResult {
    let error = PostgresStore::open(&pooler().url_for("postgres"), PostgresOptions::default()).await;
    let error = error.err().ok_or("the store opened")?;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("set `pooler=transaction`"), "{error}");
    Ok(())
}
