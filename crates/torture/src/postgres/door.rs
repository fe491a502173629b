//! The way to the store: whoever fails looks where it is now.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::layers::{Coalesced, coalesce};
use oncebox::postgres::{Options, PostgresStore};
use oncebox_core::Store;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::Failure;

const CONNECTIONS_MAX: u32 = 4;
/// A server that is away is found out soon.
const PATIENCE: Duration = Duration::from_secs(1);

/// A store whose URL stands in a file, which may change.
pub(super) struct Door {
    file: PathBuf,
    calls: Calls,
    now: Mutex<(String, Arc<dyn Store>)>,
}

/// What becomes of calls that a process makes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    Single,
    /// They are merged, as if the store had been opened by its URL.
    Merged,
}

impl Door {
    pub(super) fn open(file: &Path, calls: Calls) -> Result<Self, Failure> {
        let url = fs::read_to_string(file)?;
        let store = connect(&url, calls)?;
        Ok(Self { file: file.to_owned(), calls, now: Mutex::new((url, store)) })
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// A call failed: the store may be elsewhere.
    pub(super) fn look_again(&self) -> Result<(), Failure> {
        let url = fs::read_to_string(&self.file)?;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.0 != url {
            let store = connect(&url, self.calls)?;
            *now = (url, store);
        }
        Ok(())
    }
}

fn connect(url: &str, calls: Calls) -> Result<Arc<dyn Store>, Failure> {
    let store = store(pool(url, CONNECTIONS_MAX)?);
    Ok(match calls {
        Calls::Single => store,
        Calls::Merged => {
            Arc::new(Coalesced::with(Arc::new(store.hasty()), store, coalesce::Options::DEFAULT))
        }
    })
}

/// Tells everybody where the store is.
pub(super) fn point(file: &Path, url: &str) -> Result<(), Failure> {
    // Whoever reads finds the old one or the new one.
    let draft = file.with_extension("draft");
    fs::write(&draft, url)?;
    Ok(fs::rename(&draft, file)?)
}

/// Makes the tables.
pub(super) fn prepare(url: &str) -> Result<(), Failure> {
    let schema = Options::default().schema;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Ok(schema.ensure(&pool(url, CONNECTIONS_MAX)?).await.map(drop)?) })
}

/// Connections that are not tried before they are used: that one is cut off is for the call to find out.
pub(super) fn pool(url: &str, connections_max: u32) -> Result<PgPool, Failure> {
    let options = PgPoolOptions::new().max_connections(connections_max).acquire_timeout(PATIENCE);
    Ok(options.test_before_acquire(false).connect_lazy(url)?)
}

pub(super) fn store(pool: PgPool) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::new(pool, &Options::default()))
}
