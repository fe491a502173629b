//! The expected catalog is fresh, and steps are taken one after another.

use std::path::Path;

use oncebox_core::Kind;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::PgPool;

use super::steps::Steps;
use super::{EXPECTED, Schema};

/// Three versions of tables that have nothing to do with ours.
const STEPS: [&str; 3] = [
    "create table {schema}.meta (name text primary key, value text); create table {schema}.fruit (name text);",
    "alter table {schema}.fruit add column colour text;",
    "insert into {schema}.fruit values ('apple', 'red'); create table {schema}.fruit ();",
];

#[tokio::test]
async fn the_expected_catalog_is_fresh() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = PgPool::connect(database.url()).await?;
    let schema = Schema::default();
    schema.ensure(&pool).await?;
    let found = schema.facts(&mut *pool.begin().await?).await?.write();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema/expected.txt");
    if std::env::var_os("ONCEBOX_BLESS").is_some() {
        std::fs::write(path, found)?;
        return Ok(());
    }
    let stale =
        "expected.txt is stale: run ONCEBOX_BLESS=1 cargo test -p oncebox-store-postgres expected_catalog";
    assert!(EXPECTED == found, "{stale}");
    Ok(())
}

/// Holds: CMD-09.
#[tokio::test]
async fn an_upgrade_takes_the_missing_steps_or_none() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = PgPool::connect(database.url()).await?;
    let schema = Schema::new("shop")?;
    let first = schema.bring_to(&pool, &Steps(&STEPS[..1])).await?;
    assert_eq!((first.before, first.now), (None, 1));
    psql(database.url(), "insert into shop.fruit values ('pear')")?;
    let second = schema.bring_to(&pool, &Steps(&STEPS[..2])).await?;
    assert_eq!((second.before, second.now), (Some(1), 2));
    assert_eq!(psql(database.url(), "select name, colour from shop.fruit")?, "pear|");

    let failed = schema.bring_to(&pool, &Steps(&STEPS)).await.unwrap_err();
    assert_eq!(failed.kind(), Kind::Invalid, "{failed}");
    assert_eq!(psql(database.url(), "select name, colour from shop.fruit")?, "pear|");
    assert_eq!(schema.version(&pool).await?, Some(2));

    let newer = schema.bring_to(&pool, &Steps(&STEPS[..1])).await.unwrap_err();
    assert_eq!(newer.kind(), Kind::Unsupported);
    assert_eq!(
        newer.to_string(),
        "the tables in the schema `shop` are of version 2, and this program knows up to 1: use a newer oncebox"
    );
    Ok(())
}
