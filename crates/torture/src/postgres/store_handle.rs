//! A handle to the store that reconnects when the store's URL changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::layers::{Coalesced, coalesce};
use oncebox::postgres::{PostgresOptions, PostgresStore};
use oncebox_core::Store;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::Failure;

const CONNECTIONS_MAX: u32 = 4;
/// Short, so that a call to a server that is down fails soon.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// A store whose URL is read from a file that may change.
pub(super) struct StoreHandle {
    file: PathBuf,
    mode: CallMode,
    current: Mutex<(String, Arc<dyn Store>)>,
}

/// How concurrent calls of a process reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallMode {
    Single,
    /// Coalesced into batches, as for a store that is opened by its URL.
    Coalesced,
}

impl StoreHandle {
    pub(super) fn open(file: &Path, mode: CallMode) -> Result<Self, Failure> {
        let url = fs::read_to_string(file)?;
        let store = connect(&url, mode)?;
        Ok(Self { file: file.to_owned(), mode, current: Mutex::new((url, store)) })
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Reads the URL again after a failed call, and connects if it has changed.
    pub(super) fn refresh(&self) -> Result<(), Failure> {
        let url = fs::read_to_string(&self.file)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != url {
            let store = connect(&url, self.mode)?;
            *current = (url, store);
        }
        Ok(())
    }
}

fn connect(url: &str, mode: CallMode) -> Result<Arc<dyn Store>, Failure> {
    let store = store(pool(url, CONNECTIONS_MAX)?);
    Ok(match mode {
        CallMode::Single => store,
        CallMode::Coalesced => Arc::new(Coalesced::with(
            Arc::new(store.with_lock_timeout()),
            store,
            coalesce::CoalesceOptions::DEFAULT,
        )),
    })
}

/// Replaces the URL in the file.
pub(super) fn publish_url(file: &Path, url: &str) -> Result<(), Failure> {
    // The rename is atomic: readers see the old URL or the new one.
    let draft = file.with_extension("draft");
    fs::write(&draft, url)?;
    Ok(fs::rename(&draft, file)?)
}

/// Creates the tables.
pub(super) fn create_schema(url: &str) -> Result<(), Failure> {
    let schema = PostgresOptions::default().schema;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Ok(schema.ensure(&pool(url, CONNECTIONS_MAX)?).await.map(drop)?) })
}

/// A pool that does not test connections before use: calls must cope with a terminated connection.
pub(super) fn pool(url: &str, connections_max: u32) -> Result<PgPool, Failure> {
    let options = PgPoolOptions::new().max_connections(connections_max).acquire_timeout(ACQUIRE_TIMEOUT);
    Ok(options.test_before_acquire(false).connect_lazy(url)?)
}

pub(super) fn store(pool: PgPool) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::new(pool, &PostgresOptions::default()))
}
