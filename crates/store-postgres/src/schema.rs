//! The tables: made, brought to a newer version, looked at, written down.

mod drift;
mod steps;

use oncebox_core::{Error, Kind};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row};

use crate::fault;
use crate::sql::quoted;
use drift::{Fact, Facts};
use steps::Steps;

/// PostgreSQL cuts longer names off, so two of them could be one.
const NAME_BYTES_MAX: usize = 63;
/// What the texts of our functions are quoted with.
const QUOTES: [&str; 2] = ["$oncebox$", "$ticket$"];
/// What the tables of this version look like, as the catalog tells it. A test writes it.
const EXPECTED: &str = include_str!("schema/expected.txt");

/// The aspect of a function that is its text.
const BODY: &str = "body";

/// Where a store's tables are: a schema of its own. Stores in one database are kept apart by their schemas, so tables have
/// the same names in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    name: String,
}

/// What [`Schema::ensure`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ensured {
    /// The version that it found; none if there were no tables.
    pub before: Option<u32>,
    /// The version that the tables have now.
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
    pub const VERSION: u32 = steps::OURS.version();

    /// The tables in the schema of this name, which may hold nearly any character. Names of the server's own schemas, and
    /// names of more than 63 bytes, are [`Kind::Invalid`].
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let fault = match name.as_str() {
            "" => Some("the schema's name is empty: give it one".to_owned()),
            text if text.len() > NAME_BYTES_MAX => Some(format!(
                "the schema's name has {} bytes, and PostgreSQL knows names of up to {NAME_BYTES_MAX}: choose a shorter one",
                text.len()
            )),
            text if text.contains('\0') => {
                Some("the schema's name has a null character: leave it out".to_owned())
            }
            text if QUOTES.iter().any(|quote| text.contains(quote)) => {
                Some(format!("the schema's name has {} in it: choose another one", QUOTES.join(" or ")))
            }
            text if text.starts_with("pg_") || text == "information_schema" => Some(format!(
                "the schema `{text}` is the server's own: choose a name that does not begin with `pg_`"
            )),
            _ => None,
        };
        fault.map_or(Ok(Self { name }), |text| Err(Error::new(Kind::Invalid, text)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name as it stands in statements.
    pub(crate) fn quoted(&self) -> String {
        quoted(&self.name)
    }

    /// Everything that makes the tables from nothing, for those who run it by hand. What it makes is what
    /// [`Self::ensure`] makes.
    pub fn dump(&self) -> String {
        steps::OURS.script(self)
    }

    /// Makes the tables, or brings them to this version; needs a role that may do that. Does nothing if they are as they
    /// should be. Safe to be done by many processes at once, and to be repeated: all of it happens, or nothing.
    ///
    /// Tables of a newer version are [`Kind::Unsupported`].
    pub async fn ensure(&self, pool: &PgPool) -> Result<Ensured, Error> {
        self.bring_to(pool, &steps::OURS).await
    }

    /// The version of the tables; none if there are none.
    pub async fn version(&self, pool: &PgPool) -> Result<Option<u32>, Error> {
        let mut transaction = pool.begin().await.map_err(fault::told)?;
        let found = self.found(&mut transaction).await?;
        transaction.rollback().await.map_err(fault::told)?;
        Ok(found)
    }

    /// Whether the tables are there in the version that this program works with, so that a store can be opened.
    pub(crate) async fn check(&self, pool: &PgPool) -> Result<(), Error> {
        let found = self.version(pool).await?;
        if found.is_some_and(|found| found > Self::VERSION) {
            return Err(self.too_new(found, Self::VERSION));
        }
        self.lack(found).map_or(Ok(()), |lack| {
            let text = format!("{lack}: run `oncebox schema ensure`, or set `ensure=yes` in the store's URL");
            Err(Error::new(Kind::Invalid, text))
        })
    }

    /// Compares what is there with what this version needs, and tells each difference in words; none if all is as it should
    /// be. Changes nothing, and needs no right but to connect.
    ///
    /// Told are tables, columns, indexes, constraints, the sequence and functions that are missing or different, rights that
    /// the role lacks, and what was added and may refuse a message. An index that was added, or another table, is nobody's
    /// trouble; nor are storage settings.
    pub async fn validate(&self, pool: &PgPool) -> Result<Vec<String>, Error> {
        let mut transaction = pool.begin().await.map_err(fault::told)?;
        let facts = self.facts(&mut transaction).await?;
        // Whoever may not read the version is told so as a difference.
        let found = if drift::may_not_read_version(&facts) {
            Some(Self::VERSION)
        } else {
            self.found(&mut transaction).await?
        };
        transaction.rollback().await.map_err(fault::told)?;
        if found.is_some_and(|found| found > Self::VERSION) {
            return Ok(vec![self.too_new(found, Self::VERSION).to_string()]);
        }
        let lack = self.lack(found).map(|lack| vec![lack]);
        Ok(lack.unwrap_or_else(|| drift::differences(&expected(), &facts)))
    }

    async fn bring_to(&self, pool: &PgPool, steps: &Steps) -> Result<Ensured, Error> {
        // Nobody waits for anybody, and no right is needed, if all is done already.
        let before = self.version(pool).await?;
        if before == Some(steps.version()) {
            return Ok(Ensured { before, now: steps.version() });
        }
        let mut transaction = pool.begin().await.map_err(fault::told)?;
        // A step may take its time, whatever holds for other statements. One process at a time; those who waited find
        // everything done.
        let alone = "set local statement_timeout = 0; set local lock_timeout = 0";
        sqlx::raw_sql(alone).execute(&mut *transaction).await.map_err(fault::told)?;
        let lock = unnamed("select pg_advisory_xact_lock(74207420, hashtext($1))").bind(&self.name);
        lock.execute(&mut *transaction).await.map_err(fault::told)?;
        let before = self.found(&mut transaction).await?;
        if before.is_some_and(|found| found > steps.version()) {
            return Err(self.too_new(before, steps.version()));
        }
        let there = "select exists (select from pg_namespace where nspname = $1)";
        let there = unnamed(there).bind(&self.name).fetch_one(&mut *transaction).await;
        let mut script = String::new();
        // Whoever owns a schema need not have the right to make one.
        if !there.and_then(|row| row.try_get::<bool, _>(0)).map_err(fault::told)? {
            script += &steps::creation(self);
        }
        script += &steps.script_after(self, before.unwrap_or_default());
        let done = sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *transaction).await;
        done.map_err(|error| self.refused(error))?;
        transaction.commit().await.map_err(|error| self.refused(error))?;
        Ok(Ensured { before, now: steps.version() })
    }

    async fn found(&self, connection: &mut PgConnection) -> Result<Option<u32>, Error> {
        // The catalog itself: `to_regclass` may answer from what this connection knew before it waited for others.
        let there = "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                     where n.nspname = $1 and c.relname = 'meta')";
        let there = unnamed(there).bind(&self.name).fetch_one(&mut *connection);
        if !there.await.and_then(|row| row.try_get::<bool, _>(0)).map_err(fault::told)? {
            return Ok(None);
        }
        let query = unnamed(format!("select value from {}.meta where name = 'version'", self.quoted()));
        let row = query.fetch_optional(connection).await.map_err(|error| self.refused(error))?;
        let Some(row) = row else { return Ok(None) };
        let value: String = row.try_get(0).map_err(fault::told)?;
        let version = value.parse().map_err(|_| {
            let name = &self.name;
            Error::new(
                Kind::Corrupt,
                format!("the version in the table `meta` of the schema `{name}` is no number: find out who changed it"),
            )
        });
        version.map(Some)
    }

    async fn facts(&self, connection: &mut PgConnection) -> Result<Facts, Error> {
        let plain = "set local search_path = pg_catalog; set local quote_all_identifiers = off";
        sqlx::raw_sql(plain).execute(&mut *connection).await.map_err(fault::told)?;
        let rows = unnamed(include_str!("../sql/catalog.sql")).bind(&self.name).fetch_all(connection);
        let mut facts = Facts::default();
        for row in rows.await.map_err(fault::told)? {
            let cell = |place: usize| row.try_get::<String, _>(place).map_err(fault::told);
            let (aspect, text) = (cell(2)?, cell(3)?);
            let text = if aspect == BODY { body_fact(&text) } else { text };
            facts.add(Fact { kind: cell(0)?, name: cell(1)?, aspect, text });
        }
        Ok(facts)
    }

    /// What a version that was found lacks, if it is not newer than ours.
    fn lack(&self, found: Option<u32>) -> Option<String> {
        let (name, ours) = (&self.name, Self::VERSION);
        match found {
            None => Some(format!("the schema `{name}` has no tables of oncebox")),
            Some(found) if found != ours => {
                Some(format!("the tables in the schema `{name}` are of version {found}, not {ours}"))
            }
            Some(_) => None,
        }
    }

    fn too_new(&self, found: Option<u32>, known: u32) -> Error {
        let text = format!(
            "the tables in the schema `{}` are of version {}, and this program knows up to {known}: use a newer oncebox",
            self.name,
            found.unwrap_or_default()
        );
        Error::new(Kind::Unsupported, text)
    }

    /// Why a step could not be made.
    fn refused(&self, error: sqlx::Error) -> Error {
        let name = &self.name;
        let text = match fault::state(&error).as_deref() {
            Some("42501") => format!(
                "this role may not make or change tables in the schema `{name}` (SQLSTATE 42501): run `oncebox schema ensure` as \
                 one that may, or give it what `oncebox schema dump` prints"
            ),
            Some(code @ ("42P07" | "42710" | "42723" | "42703")) => format!(
                "the schema `{name}` has something of the same name that is not ours (SQLSTATE {code}): use a schema of its own"
            ),
            _ => return fault::told(error),
        };
        Error::new(Kind::Invalid, text)
    }
}

/// What is expected of the catalog: what a test has written down, and the bodies of our functions as they are in this program.
fn expected() -> Facts {
    let mut expected = Facts::parse(EXPECTED);
    for (name, body) in steps::OURS.functions() {
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

/// A body is told by its hash: it is too long for a sentence.
fn body_fact(body: &str) -> String {
    format!("has the body {}", &blake3::hash(body.as_bytes()).to_hex()[..16])
}

/// A statement that leaves nothing in the session, so that it works behind a pooler too, in a transaction.
fn unnamed<'q>(text: impl Into<String>) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(AssertSqlSafe(text.into())).persistent(false)
}

#[cfg(test)]
mod tests;
