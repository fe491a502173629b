//! A statement with its parameters, and how it is sent.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::{AssertSqlSafe, Connection, Encode, PgConnection, Postgres, Transaction, Type};

use crate::pooler::Pooler;

/// A statement with its parameters.
///
/// Without a pooler, it is prepared once per session and takes one round trip from then on. With a pooler, every
/// transaction may use a different session, in which nothing is prepared: there a statement is prepared without a
/// name each time and runs in a transaction, so that both happen in one session. Outside a transaction it opens one
/// for itself: four round trips.
pub(crate) struct Query<'q> {
    query: sqlx::query::Query<'q, Postgres, PgArguments>,
    pooler: Pooler,
}

impl<'q> Query<'q> {
    pub(crate) fn new(text: Arc<str>, pooler: Pooler) -> Self {
        let query = sqlx::query(AssertSqlSafe(text));
        let query = match pooler {
            Pooler::None => query,
            Pooler::Transaction => query.persistent(false),
        };
        Self { query, pooler }
    }

    pub(crate) fn bind<T: 'q + Encode<'q, Postgres> + Type<Postgres>>(self, value: T) -> Self {
        Self { query: self.query.bind(value), pooler: self.pooler }
    }

    /// Binds a column, or the value of a single row.
    pub(crate) fn bind_column<T>(self, column: &'q [T]) -> Self
    where
        T: 'q + Clone + Encode<'q, Postgres> + Type<Postgres>,
        &'q [T]: Encode<'q, Postgres> + Type<Postgres>,
    {
        match column {
            [value] => self.bind(value.clone()),
            _ => self.bind(column),
        }
    }

    /// Like [`bind_column`](Self::bind_column), for a column with few values.
    pub(crate) fn bind_sparse_column<T>(self, column: &'q [Option<T>]) -> Self
    where
        T: 'q + Clone,
        Option<T>: Encode<'q, Postgres> + Type<Postgres>,
        &'q [Option<T>]: Encode<'q, Postgres> + Type<Postgres>,
    {
        match column {
            [value] => self.bind(value.clone()),
            _ => self.bind_sparse(column),
        }
    }

    /// Binds an array, or an empty one if all items are null, which costs the server less.
    pub(crate) fn bind_sparse<T>(self, column: &'q [Option<T>]) -> Self
    where
        &'q [Option<T>]: Encode<'q, Postgres> + Type<Postgres>,
    {
        let is_empty = column.iter().all(Option::is_none);
        self.bind(if is_empty { &[] } else { column })
    }

    pub(crate) async fn fetch_all(self, connection: &mut PgConnection) -> Result<Vec<PgRow>, sqlx::Error> {
        if !self.needs_transaction(connection) {
            return self.query.fetch_all(connection).await;
        }
        let mut transaction = connection.begin().await?;
        let rows = self.query.fetch_all(&mut *transaction).await;
        end(transaction, rows).await
    }

    pub(crate) async fn fetch_one(self, connection: &mut PgConnection) -> Result<PgRow, sqlx::Error> {
        if !self.needs_transaction(connection) {
            return self.query.fetch_one(connection).await;
        }
        let mut transaction = connection.begin().await?;
        let row = self.query.fetch_one(&mut *transaction).await;
        end(transaction, row).await
    }

    pub(crate) async fn execute(self, connection: &mut PgConnection) -> Result<PgQueryResult, sqlx::Error> {
        if !self.needs_transaction(connection) {
            return self.query.execute(connection).await;
        }
        let mut transaction = connection.begin().await?;
        let result = self.query.execute(&mut *transaction).await;
        end(transaction, result).await
    }

    fn needs_transaction(&self, connection: &PgConnection) -> bool {
        self.pooler == Pooler::Transaction && !connection.is_in_transaction()
    }
}

/// Commits on success. Otherwise rolls back immediately, because until then the pooler has one session less for other
/// clients.
async fn end<T>(
    transaction: Transaction<'_, Postgres>,
    outcome: Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    match outcome {
        Ok(_) => transaction.commit().await?,
        // The first error is returned.
        Err(_) => drop(transaction.rollback().await),
    }
    outcome
}
