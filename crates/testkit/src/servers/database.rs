//! Databases that are lent, emptied and lent again: cheaper than new ones by far, for suites of hundreds of cases.

use std::sync::{Mutex, PoisonError};

use super::postgres::Postgres;
use super::psql::psql;

/// Cuts off whoever is still connected and removes everything that a database may hold. One transaction.
const EMPTY: &str = include_str!("empty_database.sql");

/// The URLs of databases that were given back.
#[derive(Default)]
pub(super) struct Pool(Mutex<Vec<String>>);

/// An empty database for as long as this lives. Then it is given back, and another test gets it: sessions are cut off.
pub struct Database<'a> {
    url: String,
    pool: &'a Pool,
}

impl Pool {
    pub(super) fn lend(&self, server: &Postgres) -> Result<Database<'_>, String> {
        let used = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // It is emptied now and not when it is given back, where nobody could be told that it failed.
        let url = match used {
            Some(url) => psql(&url, EMPTY).map(|_| url),
            None => server.fresh_database(),
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
