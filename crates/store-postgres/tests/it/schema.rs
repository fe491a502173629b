//! The schema on a real server: created concurrently, compared, dumped, with unusual names.

use oncebox_core::ErrorKind;
use oncebox_store_postgres::Schema;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

/// A separate pool, as in another process.
async fn connect(url: &str) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(1).connect(url).await
}

/// Holds: IBX-114, IBX-116, IBX-117, CMD-09.
#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_create_two_schemas_concurrently() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let mut starts = JoinSet::new();
    let names = ["one", "two"];
    for index in 0..20 {
        let pool = connect(database.url()).await?;
        starts.spawn(async move { Schema::new(names[index % 2])?.ensure(&pool).await });
    }
    let ensured = starts.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let created = ensured.iter().filter(|ensured| ensured.before.is_none()).count();
    assert_eq!(created, 2, "{ensured:?}");
    let pool = connect(database.url()).await?;
    for name in names {
        let schema = Schema::new(name)?;
        assert_eq!(schema.validate(&pool).await?, [""; 0]);
        assert_eq!(schema.version(&pool).await?, Some(Schema::VERSION));
        let again = schema.ensure(&pool).await?;
        assert_eq!((again.before, again.now), (Some(Schema::VERSION), Schema::VERSION));
    }
    Ok(())
}

/// Changes to the tables, applied one after another, and the differences after each.
const CHANGES: &[(&str, &[&str])] = &[
    ("alter table oncebox.message alter due type integer", &["column `message.due` is integer, not bigint"]),
    ("alter table oncebox.message alter due type bigint", &[]),
    ("drop index oncebox.message_lane", &["index `message_lane` is missing"]),
    (
        "create unique index message_lane on oncebox.message (namespace, topic) where not ready",
        &[
            "index `message_lane` is btree (namespace, topic) WHERE NOT ready, not \
                 (namespace, topic, shard, number) WHERE ready",
            "index `message_lane` is unique, not plain",
        ],
    ),
    (
        "drop index oncebox.message_lane; \
             create index message_lane on oncebox.message (namespace, topic, shard, number) where ready",
        &[],
    ),
    (
        "alter table oncebox.message alter attempts drop default",
        &["column `message.attempts` has no default, not the default 0"],
    ),
    ("alter table oncebox.message alter attempts set default 0", &[]),
    (
        "alter table oncebox.message alter uid set default gen_random_uuid()",
        &["column `message.uid` has the default gen_random_uuid(), not no default"],
    ),
    (
        "alter table oncebox.message alter uid drop default, alter id drop not null",
        &["column `message.id` is nullable, not required"],
    ),
    (
        "alter table oncebox.message alter id set not null, alter id type text collate \"POSIX\"",
        &["column `message.id` has the collation \"POSIX\", not \"C\""],
    ),
    (
        "alter table oncebox.message alter id type text collate \"C\", drop column tenant",
        &["column `message.tenant` is missing"],
    ),
    (
        "alter table oncebox.message add tenant text collate \"C\"; alter sequence oncebox.id_block as integer",
        &[
            "sequence `id_block` counts by 1 up to 2147483647, not 1 up to 9223372036854775807",
            "sequence `id_block` is integer, not bigint",
        ],
    ),
    (
        "alter sequence oncebox.id_block as bigint; alter function oncebox.next_id_block() security invoker",
        &["function `next_id_block()` is plpgsql volatile security invoker, not definer"],
    ),
    (
        "alter function oncebox.next_id_block() security definer; alter table oncebox.lease drop constraint lease_pkey",
        &["constraint `lease.lease_pkey` is missing"],
    ),
    (
        "alter table oncebox.lease add primary key (uid); alter table oncebox.lease set unlogged",
        &["table `lease` is an unlogged table, not a table"],
    ),
    (
        "drop table oncebox.lease; drop function oncebox.next_id_block()",
        &["function `next_id_block()` is missing", "table `lease` is missing"],
    ),
];

/// Holds: CMD-09.
#[tokio::test]
async fn every_difference_is_described() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::default());
    assert_eq!(schema.validate(&pool).await?, ["the schema `oncebox` has no oncebox tables"]);
    schema.ensure(&pool).await?;
    for (change, differences) in CHANGES {
        psql(database.url(), change)?;
        assert_eq!(schema.validate(&pool).await?, *differences, "{change}");
    }
    Ok(())
}

#[tokio::test]
async fn additions_are_reported_only_if_they_may_reject_writes() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::default());
    schema.ensure(&pool).await?;
    psql(
        database.url(),
        "create index my_index on oncebox.message (tenant); create table oncebox.mine (id int primary key); \
         alter table oncebox.message add note text, set (fillfactor = 70)",
    )?;
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    psql(
        database.url(),
        "create unique index other on oncebox.message (source, id); \
         alter table oncebox.message add constraint small check (octet_length(payload) < 10), add needed int not null; \
         alter table oncebox.message enable row level security",
    )?;
    assert_eq!(
        schema.validate(&pool).await?,
        [
            "table `message` has row security enabled, not disabled",
            "column `message.needed` does not belong to oncebox, is required and has no default: nothing can be written",
            "constraint `message.small` does not belong to oncebox: it may reject writes",
            "index `other` does not belong to oncebox and is unique: it may reject writes",
        ]
    );
    Ok(())
}

/// Holds: CMD-08, CMD-09.
#[tokio::test]
async fn a_schema_may_have_any_name() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = connect(database.url()).await?;
    let longest = "ä".repeat(31) + "x";
    let names = [
        "s",
        "select",
        "Upper Case",
        "it's",
        "\"; drop table x; --",
        "$$",
        "{schema}",
        "収件箱 📬",
        &longest,
    ];
    for name in names {
        let schema = Schema::new(name)?;
        schema.ensure(&pool).await?;
        assert_eq!(schema.validate(&pool).await?, [""; 0], "{name}");
        // The tables and the function really exist.
        let tables = sqlx::query(
            "select from pg_tables where schemaname = $1 and tablename in ('message', 'lease', 'meta')",
        );
        assert_eq!(tables.bind(name).fetch_all(&pool).await?.len(), 3, "{name}");
        let next_id_block =
            sqlx::AssertSqlSafe(format!("select \"{}\".next_id_block()", name.replace('"', "\"\"")));
        sqlx::query(next_id_block).execute(&pool).await?;
    }
    for (name, text) in [
        ("", "the schema name is empty: choose one"),
        ("a\0b", "the schema name contains a null character: remove it"),
        ("a$oncebox$b", "the schema name contains $oncebox$ or $sequence$: choose another one"),
        (
            "pg_x",
            "the schema name `pg_x` is reserved by the server: choose a name that does not begin with `pg_`",
        ),
        (
            &(longest.clone() + "y"),
            "the schema name has 64 bytes, and PostgreSQL allows at most 63: choose a shorter one",
        ),
    ] {
        let error = Schema::new(name).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, text));
    }
    Ok(())
}

/// Holds: CMD-09.
#[tokio::test]
async fn the_dump_creates_the_same_tables() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::new("it's \"mine\"")?);
    psql(database.url(), &schema.dump())?;
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    assert_eq!(schema.ensure(&pool).await?.before, Some(Schema::VERSION));
    Ok(())
}

#[tokio::test]
async fn a_foreign_schema_is_left_alone() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = connect(database.url()).await?;
    psql(
        database.url(),
        "create schema a; create table a.message (id int); create schema b; create table b.meta (x int)",
    )?;
    for name in ["a", "b"] {
        let error = Schema::new(name)?.ensure(&pool).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("does not belong to oncebox"), "{error}");
    }
    assert_eq!(psql(database.url(), "select count(*) from pg_tables where schemaname in ('a', 'b')")?, "2");
    psql(
        database.url(),
        "create schema c; create table c.meta (name text, value text); insert into c.meta values ('version', 'x')",
    )?;
    assert_eq!(Schema::new("c")?.ensure(&pool).await.unwrap_err().kind(), ErrorKind::Corrupt);
    Ok(())
}

/// Holds: CMD-09.
#[tokio::test]
async fn tables_of_another_version_are_detected() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::default());
    schema.ensure(&pool).await?;
    let ours = Schema::VERSION;
    psql(database.url(), "update oncebox.meta set value = '1000' where name = 'version'")?;
    let newer = format!(
        "the tables in the schema `oncebox` have version 1000, and this program supports up to {ours}: use a newer oncebox"
    );
    let error = schema.ensure(&pool).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Unsupported, newer.clone()));
    assert_eq!(schema.validate(&pool).await?, [newer]);
    psql(database.url(), "update oncebox.meta set value = '0' where name = 'version'")?;
    let older = format!("the tables in the schema `oncebox` have version 0, not {ours}");
    assert_eq!(schema.validate(&pool).await?, [older]);
    Ok(())
}
