//! The schema on a real server: made by many at once, compared, written down, named in every way.

use oncebox_core::Kind;
use oncebox_store_postgres::Schema;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::{Postgres, psql};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

/// A pool of its own, as another process has it.
async fn connect(url: &str) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(1).connect(url).await
}

/// Holds: IBX-114, IBX-116, IBX-117, CMD-09.
#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_make_two_schemas_at_once() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let mut starts = JoinSet::new();
    let names = ["one", "two"];
    for place in 0..20 {
        let pool = connect(database.url()).await?;
        starts.spawn(async move { Schema::new(names[place % 2])?.ensure(&pool).await });
    }
    let ensured = starts.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let made = ensured.iter().filter(|ensured| ensured.before.is_none()).count();
    assert_eq!(made, 2, "{ensured:?}");
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

/// What is done to the tables one after another, and what differs then.
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
        "alter table oncebox.message add tenant text collate \"C\"; alter sequence oncebox.ticket as integer",
        &[
            "sequence `ticket` counts by 1 up to 2147483647, not 1 up to 9223372036854775807",
            "sequence `ticket` is integer, not bigint",
        ],
    ),
    (
        "alter sequence oncebox.ticket as bigint; alter function oncebox.next_ticket() security invoker",
        &["function `next_ticket()` is plpgsql volatile security invoker, not definer"],
    ),
    (
        "alter function oncebox.next_ticket() security definer; alter table oncebox.lease drop constraint lease_pkey",
        &["constraint `lease.lease_pkey` is missing"],
    ),
    (
        "alter table oncebox.lease add primary key (uid); alter table oncebox.lease set unlogged",
        &["table `lease` is an unlogged table, not a table"],
    ),
    (
        "drop table oncebox.lease; drop function oncebox.next_ticket()",
        &["function `next_ticket()` is missing", "table `lease` is missing"],
    ),
];

/// Holds: CMD-09.
#[tokio::test]
async fn every_difference_is_told_in_words() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::default());
    assert_eq!(schema.validate(&pool).await?, ["the schema `oncebox` has no tables of oncebox"]);
    schema.ensure(&pool).await?;
    for (change, told) in CHANGES {
        psql(database.url(), change)?;
        assert_eq!(schema.validate(&pool).await?, *told, "{change}");
    }
    Ok(())
}

#[tokio::test]
async fn what_was_added_is_told_only_if_it_may_refuse_something() -> TestResult {
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
            "table `message` has row security, not no row security",
            "column `message.needed` is not ours, required and without a default: nothing can be written",
            "constraint `message.small` is not ours: it may refuse what should be written",
            "index `other` is not ours and unique: it may refuse what should be written",
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
        // Everything is really there.
        let tables = sqlx::query(
            "select from pg_tables where schemaname = $1 and tablename in ('message', 'lease', 'meta')",
        );
        assert_eq!(tables.bind(name).fetch_all(&pool).await?.len(), 3, "{name}");
        let tickets = sqlx::AssertSqlSafe(format!("select \"{}\".next_ticket()", name.replace('"', "\"\"")));
        sqlx::query(tickets).execute(&pool).await?;
    }
    for (name, text) in [
        ("", "the schema's name is empty: give it one"),
        ("a\0b", "the schema's name has a null character: leave it out"),
        ("a$oncebox$b", "the schema's name has $oncebox$ or $ticket$ in it: choose another one"),
        ("pg_x", "the schema `pg_x` is the server's own: choose a name that does not begin with `pg_`"),
        (
            &(longest.clone() + "y"),
            "the schema's name has 64 bytes, and PostgreSQL knows names of up to 63: choose a shorter one",
        ),
    ] {
        let refused = Schema::new(name).unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (Kind::Invalid, text));
    }
    Ok(())
}

/// Holds: CMD-09.
#[tokio::test]
async fn what_is_dumped_makes_the_same_tables() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::new("it's \"mine\"")?);
    psql(database.url(), &schema.dump())?;
    assert_eq!(schema.validate(&pool).await?, [""; 0]);
    assert_eq!(schema.ensure(&pool).await?.before, Some(Schema::VERSION));
    Ok(())
}

#[tokio::test]
async fn a_schema_that_is_not_ours_is_left_alone() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let pool = connect(database.url()).await?;
    psql(
        database.url(),
        "create schema a; create table a.message (id int); create schema b; create table b.meta (x int)",
    )?;
    for name in ["a", "b"] {
        let refused = Schema::new(name)?.ensure(&pool).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid);
        assert!(refused.to_string().contains("is not ours"), "{refused}");
    }
    assert_eq!(psql(database.url(), "select count(*) from pg_tables where schemaname in ('a', 'b')")?, "2");
    psql(
        database.url(),
        "create schema c; create table c.meta (name text, value text); insert into c.meta values ('version', 'x')",
    )?;
    assert_eq!(Schema::new("c")?.ensure(&pool).await.unwrap_err().kind(), Kind::Corrupt);
    Ok(())
}

/// Holds: CMD-09.
#[tokio::test]
async fn tables_of_another_version_are_told_apart() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let (pool, schema) = (connect(database.url()).await?, Schema::default());
    schema.ensure(&pool).await?;
    let ours = Schema::VERSION;
    psql(database.url(), "update oncebox.meta set value = '1000' where name = 'version'")?;
    let newer = format!(
        "the tables in the schema `oncebox` are of version 1000, and this program knows up to {ours}: use a newer oncebox"
    );
    let refused = schema.ensure(&pool).await.unwrap_err();
    assert_eq!((refused.kind(), refused.to_string()), (Kind::Unsupported, newer.clone()));
    assert_eq!(schema.validate(&pool).await?, [newer]);
    psql(database.url(), "update oncebox.meta set value = '0' where name = 'version'")?;
    let older = format!("the tables in the schema `oncebox` are of version 0, not {ours}");
    assert_eq!(schema.validate(&pool).await?, [older]);
    Ok(())
}
