//! A pool of databases that are emptied and reused: much cheaper than new ones for suites of hundreds of cases.

use std::sync::{Mutex, PoisonError};

use super::psql::psql;

/// Terminates other sessions and removes everything in a database, in one transaction.
const EMPTY: &str = include_str!("empty_database.sql");

/// The URLs of returned databases.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<String>>);

/// An empty database. Dropping the value returns it to the pool, and another test may get it: sessions are terminated.
pub struct Database<'a> {
    url: String,
    pool: &'a Pool,
}

impl Pool {
    /// Empties a returned database, or creates one if none was returned; `create` returns the URL of a new one.
    pub(super) fn lend(
        &self,
        create: impl FnOnce() -> Result<String, String>,
    ) -> Result<Database<'_>, String> {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // It is emptied now and not when it is returned, because a `drop` cannot report a failure.
        let url = match used {
            Some(url) => psql(&url, EMPTY).map(|_| url),
            None => create(),
        }?;
        Ok(Database { url, pool: self })
    }
}

impl Database<'_> {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let url = std::mem::take(&mut self.url);
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner).push(url);
    }
}
