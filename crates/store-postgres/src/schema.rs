//! The tables: created, migrated, validated, printed.

mod drift;
mod migrations;

use oncebox_core::{Error, ErrorKind};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row};

use crate::db_error;
use crate::sql::quoted;
use drift::{Fact, Facts};
use migrations::Migrations;

/// PostgreSQL truncates longer names, so that two of them could collide.
const NAME_BYTES_MAX: usize = 63;
/// The dollar quotes in the function definitions.
const QUOTES: [&str; 2] = ["$oncebox$", "$sequence$"];
/// The catalog facts about the tables of this version. Written by a test.
const EXPECTED: &str = include_str!("schema/expected.txt");

/// The aspect of a function that is its body.
const BODY: &str = "body";

/// The database schema that contains a store's tables. Each store in a database has its own schema, so the tables
/// have the same names in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    name: String,
}

/// The result of [`Schema::ensure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ensured {
    /// The version found; `None` if there were no tables.
    pub before: Option<u32>,
    /// The version of the tables now.
    pub now: u32,
}

impl Default for Schema {
    /// `oncebox`.
    fn default() -> Self {
        Self { name: "oncebox".to_owned() }
    }
}

impl Schema {
    /// The version of the tables that this program works with.
    pub const VERSION: u32 = migrations::MIGRATIONS.version();

    /// The schema with this name, which may contain nearly any character. Names of the server's own schemas, and
    /// names of more than 63 bytes, are [`ErrorKind::Invalid`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let problem = match name.as_str() {
            "" => Some("the schema name is empty: choose one".to_owned()),
            text if text.len() > NAME_BYTES_MAX => Some(format!(
                "the schema name has {} bytes, and PostgreSQL allows at most {NAME_BYTES_MAX}: choose a shorter one",
                text.len()
            )),
            text if text.contains('\0') => {
                Some("the schema name contains a null character: remove it".to_owned())
            }
            text if QUOTES.iter().any(|quote| text.contains(quote)) => {
                Some(format!("the schema name contains {}: choose another one", QUOTES.join(" or ")))
            }
            text if text.starts_with("pg_") || text == "information_schema" => Some(format!(
                "the schema name `{text}` is reserved by the server: choose a name that does not begin with `pg_`"
            )),
            _ => None,
        };
        problem.map_or(Ok(Self { name }), |text| Err(Error::new(ErrorKind::Invalid, text)))
    }

    /// The schema's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quoted name for use in statements.
    pub(crate) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// A script that creates the tables, for running it by hand. It creates the same tables as [`Self::ensure`].
    pub fn dump(&self) -> String {
        migrations::MIGRATIONS.script(self)
    }

    /// Creates the tables, or migrates them to this version; requires a role that may do that. Does nothing if they
    /// are up to date. Many processes may run it concurrently, and it may be repeated: it is applied completely or
    /// not at all.
    ///
    /// Tables of a newer version are [`ErrorKind::Unsupported`].
    pub async fn ensure(&self, pool: &PgPool) -> Result<Ensured, Error> {
        self.migrate(pool, &migrations::MIGRATIONS).await
    }

    /// The version of the tables; `None` if there are none.
    pub async fn version(&self, pool: &PgPool) -> Result<Option<u32>, Error> {
        let mut transaction = pool.begin().await.map_err(db_error::into_error)?;
        let found = self.stored_version(&mut transaction).await?;
        transaction.rollback().await.map_err(db_error::into_error)?;
        Ok(found)
    }

    /// Checks that the tables exist in the version that this program works with, so that a store can be opened.
    pub(crate) async fn check(&self, pool: &PgPool) -> Result<(), Error> {
        let found = self.version(pool).await?;
        if found.is_some_and(|found| found > Self::VERSION) {
            return Err(self.too_new(found, Self::VERSION));
        }
        self.version_mismatch(found).map_or(Ok(()), |mismatch| {
            let text =
                format!("{mismatch}: run `oncebox schema ensure`, or set `ensure=yes` in the store's URL");
            Err(Error::new(ErrorKind::Invalid, text))
        })
    }

    /// Compares the tables with what this version needs and describes each difference; empty if there is none.
    /// Changes nothing, and requires no privilege except to connect.
    ///
    /// Reports tables, columns, indexes, constraints, the sequence and functions that are missing or different,
    /// privileges that the role lacks, and additions that may reject a message. Ignores additional indexes and
    /// tables, and storage settings.
    pub async fn validate(&self, pool: &PgPool) -> Result<Vec<String>, Error> {
        let mut transaction = pool.begin().await.map_err(db_error::into_error)?;
        let facts = self.facts(&mut transaction).await?;
        // A missing privilege to read the version is reported as a difference.
        let found = if drift::cannot_read_version(&facts) {
            Some(Self::VERSION)
        } else {
            self.stored_version(&mut transaction).await?
        };
        transaction.rollback().await.map_err(db_error::into_error)?;
        if found.is_some_and(|found| found > Self::VERSION) {
            return Ok(vec![self.too_new(found, Self::VERSION).to_string()]);
        }
        let mismatch = self.version_mismatch(found).map(|mismatch| vec![mismatch]);
        Ok(mismatch.unwrap_or_else(|| drift::differences(&expected(), &facts)))
    }

    async fn migrate(&self, pool: &PgPool, migrations: &Migrations) -> Result<Ensured, Error> {
        // If the tables are up to date, this takes no lock and requires no privilege.
        let before = self.version(pool).await?;
        if before == Some(migrations.version()) {
            return Ok(Ensured { before, now: migrations.version() });
        }
        let mut transaction = pool.begin().await.map_err(db_error::into_error)?;
        // A migration may take long, whatever the timeouts of other statements. One process at a time runs it; the
        // others find it done.
        let no_timeouts = "set local statement_timeout = 0; set local lock_timeout = 0";
        sqlx::raw_sql(no_timeouts).execute(&mut *transaction).await.map_err(db_error::into_error)?;
        let lock = unnamed("select pg_advisory_xact_lock(74207420, hashtext($1))").bind(&self.name);
        lock.execute(&mut *transaction).await.map_err(db_error::into_error)?;
        let before = self.stored_version(&mut transaction).await?;
        if before.is_some_and(|found| found > migrations.version()) {
            return Err(self.too_new(before, migrations.version()));
        }
        let exists = "select exists (select from pg_namespace where nspname = $1)";
        let exists = unnamed(exists).bind(&self.name).fetch_one(&mut *transaction).await;
        let mut script = String::new();
        // The owner of a schema may lack the privilege to create one.
        if !exists.and_then(|row| row.try_get::<bool, _>(0)).map_err(db_error::into_error)? {
            script += &migrations::creation(self);
        }
        script += &migrations.script_after(self, before.unwrap_or_default());
        let done = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *transaction).await;
        done.map_err(|error| self.migration_error(error))?;
        transaction.commit().await.map_err(|error| self.migration_error(error))?;
        Ok(Ensured { before, now: migrations.version() })
    }

    async fn stored_version(&self, connection: &mut PgConnection) -> Result<Option<u32>, Error> {
        // The catalog itself, because `to_regclass` may use what this connection cached before it waited for the
        // lock.
        let exists = "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where n.nspname = $1 and c.relname = 'meta')";
        let exists = unnamed(exists).bind(&self.name).fetch_one(&mut *connection);
        if !exists.await.and_then(|row| row.try_get::<bool, _>(0)).map_err(db_error::into_error)? {
            return Ok(None);
        }
        let query = unnamed(format!("select value from {}.meta where name = 'version'", self.quoted()));
        let row = query.fetch_optional(connection).await.map_err(|error| self.migration_error(error))?;
        let Some(row) = row else { return Ok(None) };
        let value: String = row.try_get(0).map_err(db_error::into_error)?;
        let version = value.parse().map_err(|_| {
            let name = &self.name;
            Error::new(
                ErrorKind::Corrupt,
                format!("the version in the table `meta` of the schema `{name}` is not a number: find out who changed it"),
            )
        });
        version.map(Some)
    }

    async fn facts(&self, connection: &mut PgConnection) -> Result<Facts, Error> {
        let settings = "set local search_path = pg_catalog; set local quote_all_identifiers = off";
        sqlx::raw_sql(settings).execute(&mut *connection).await.map_err(db_error::into_error)?;
        let rows = unnamed(include_str!("../sql/catalog.sql")).bind(&self.name).fetch_all(connection);
        let mut facts = Facts::default();
        for row in rows.await.map_err(db_error::into_error)? {
            let cell = |index: usize| row.try_get::<String, _>(index).map_err(db_error::into_error);
            let (aspect, text) = (cell(2)?, cell(3)?);
            let text = if aspect == BODY { body_fact(&text) } else { text };
            facts.add(Fact { kind: cell(0)?, name: cell(1)?, aspect, text });
        }
        Ok(facts)
    }

    /// Describes how the version found differs from ours, if it is not newer.
    fn version_mismatch(&self, found: Option<u32>) -> Option<String> {
        let (name, ours) = (&self.name, Self::VERSION);
        match found {
            None => Some(format!("the schema `{name}` has no oncebox tables")),
            Some(found) if found != ours => {
                Some(format!("the tables in the schema `{name}` have version {found}, not {ours}"))
            }
            Some(_) => None,
        }
    }

    fn too_new(&self, found: Option<u32>, known: u32) -> Error {
        let text = format!(
            "the tables in the schema `{}` have version {}, and this program supports up to {known}: use a newer oncebox",
            self.name,
            found.unwrap_or_default()
        );
        Error::new(ErrorKind::Unsupported, text)
    }

    /// The error when a migration fails.
    fn migration_error(&self, error: sqlx::Error) -> Error {
        let name = &self.name;
        let text = match db_error::sqlstate(&error).as_deref() {
            Some("42501") => format!(
                "this role may not create or change tables in the schema `{name}` (SQLSTATE 42501): run `oncebox schema ensure` \
                 as a role that may, or have it run the output of `oncebox schema dump`"
            ),
            Some(code @ ("42P07" | "42710" | "42723" | "42703")) => format!(
                "the schema `{name}` contains an object of the same name that does not belong to oncebox (SQLSTATE {code}): use a separate schema"
            ),
            _ => return db_error::into_error(error),
        };
        Error::new(ErrorKind::Invalid, text)
    }
}

/// The expected catalog facts: those that a test has written, and the function bodies in this program.
fn expected() -> Facts {
    let mut expected = Facts::parse(EXPECTED);
    for (name, body) in migrations::MIGRATIONS.functions() {
        expected.add_to_function(
            &name,
            Fact {
                kind: "function".to_owned(),
                name: name.clone(),
                aspect: BODY.to_owned(),
                text: body_fact(&body),
            },
        );
    }
    expected
}

/// A body is identified by its hash: it is too long for a sentence.
fn body_fact(body: &str) -> String {
    format!("has the body {}", &blake3::hash(body.as_bytes()).to_hex()[..16])
}

/// A statement that leaves nothing in the session, so that it also works behind a pooler, in a transaction.
fn unnamed<'q>(text: impl Into<String>) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text.into())).persistent(false)
}

#[cfg(test)]
mod tests;
