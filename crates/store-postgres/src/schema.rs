//! The tables: made, looked at, written down.

use oncebox_core::{Error, Kind};
use sqlx::{Connection, PgPool, Row};

use crate::fault;
use crate::sql::{quoted, render};

/// The version of the tables that this program works with.
const VERSION: i32 = 1;
/// The steps from one version to the next.
const STEPS: [&str; 1] = [include_str!("../sql/schema.sql")];

/// The tables of a store.
#[derive(Debug, Clone)]
pub struct Schema {
    name: String,
}

impl Schema {
    /// The tables in the schema of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Everything that makes the tables from nothing, for those who run it by hand.
    pub fn dump(&self) -> String {
        let schema = quoted(&self.name);
        let steps: String = STEPS.iter().map(|step| step.replace("{schema}", &schema)).collect();
        format!("create schema if not exists {schema};\n\n{steps}\n{}\n", self.note())
    }

    fn note(&self) -> String {
        let schema = quoted(&self.name);
        format!(
            "insert into {schema}.meta (name, value) values ('version', '{VERSION}') \
             on conflict (name) do update set value = excluded.value;"
        )
    }

    /// Makes the tables, or brings them to this version. Does nothing if they are as they should be; safe to be done by many
    /// processes at once.
    pub async fn ensure(&self, pool: &PgPool) -> Result<(), Error> {
        if self.version(pool).await? == Some(VERSION) {
            return Ok(());
        }
        let mut connection = pool.acquire().await.map_err(fault::told)?;
        let mut transaction = connection.begin().await.map_err(fault::told)?;
        // One at a time; those who waited find everything done.
        sqlx::query("select pg_advisory_xact_lock(hashtext($1))")
            .bind(format!("oncebox schema {}", self.name))
            .execute(&mut *transaction)
            .await
            .map_err(fault::told)?;
        let found = version(&mut transaction, &self.name).await?;
        if let Some(newer) = found.filter(|found| *found > VERSION) {
            let text = format!(
                "the tables are of version {newer}, this program knows {VERSION}: use a newer version of oncebox"
            );
            return Err(Error::new(Kind::Unsupported, text));
        }
        let schema = quoted(&self.name);
        let mut script = format!("create schema if not exists {schema};\n");
        let done = usize::try_from(found.unwrap_or_default()).unwrap_or_default();
        for step in STEPS.iter().skip(done) {
            script += &render(step, &schema);
        }
        script += &self.note();
        sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&mut *transaction).await.map_err(fault::told)?;
        transaction.commit().await.map_err(fault::told)
    }

    /// The version of the tables; none if there are none.
    pub async fn version(&self, pool: &PgPool) -> Result<Option<i32>, Error> {
        let mut connection = pool.acquire().await.map_err(fault::told)?;
        version(&mut connection, &self.name).await
    }
}

async fn version(connection: &mut sqlx::PgConnection, name: &str) -> Result<Option<i32>, Error> {
    let meta = format!("{}.meta", quoted(name));
    let there = sqlx::query("select to_regclass($1) is not null").bind(&meta).fetch_one(&mut *connection);
    let there: bool = there.await.and_then(|row| row.try_get(0)).map_err(fault::told)?;
    if !there {
        return Ok(None);
    }
    let text = format!("select value from {meta} where name = 'version'");
    let row = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_optional(connection).await.map_err(fault::told)?;
    let Some(row) = row else { return Ok(None) };
    let value: String = row.try_get(0).map_err(fault::told)?;
    Ok(value.parse().ok())
}
