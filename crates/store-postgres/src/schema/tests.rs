//! The expected catalog is up to date, and migrations run one after another.

use std::path::Path;

use oncebox_core::ErrorKind;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::PgPool;

use super::migrations::Migrations;
use super::{EXPECTED, Schema};

/// Three versions of tables that are unrelated to the store's.
const MIGRATIONS: [&str; 3] = [
    "create table {schema}.meta (name text primary key, value text); create table {schema}.fruit (name text);",
    "alter table {schema}.fruit add column colour text;",
    "insert into {schema}.fruit values ('apple', 'red'); create table {schema}.fruit ();",
];

#[tokio::test]
async fn the_expected_catalog_is_up_to_date() -> TestResult {
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
async fn an_upgrade_runs_all_missing_migrations_or_none() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = PgPool::connect(database.url()).await?;
    let schema = Schema::new("shop")?;
    let first = schema.migrate(&pool, &Migrations(&MIGRATIONS[..1])).await?;
    assert_eq!((first.before, first.now), (None, 1));
    psql(database.url(), "insert into shop.fruit values ('pear')")?;
    let second = schema.migrate(&pool, &Migrations(&MIGRATIONS[..2])).await?;
    assert_eq!((second.before, second.now), (Some(1), 2));
    assert_eq!(psql(database.url(), "select name, colour from shop.fruit")?, "pear|");

    let failed = schema.migrate(&pool, &Migrations(&MIGRATIONS)).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid, "{failed}");
    assert_eq!(psql(database.url(), "select name, colour from shop.fruit")?, "pear|");
    assert_eq!(schema.version(&pool).await?, Some(2));

    let newer = schema.migrate(&pool, &Migrations(&MIGRATIONS[..1])).await.unwrap_err();
    assert_eq!(newer.kind(), ErrorKind::Unsupported);
    assert_eq!(
        newer.to_string(),
        "the tables in the schema `shop` have version 2, and this program supports up to 1: use a newer oncebox"
    );
    Ok(())
}
