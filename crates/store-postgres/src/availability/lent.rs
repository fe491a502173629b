//! Connections on loan from a pool.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Availability;

/// A connection that does not answer after its call for so long is closed.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection for one call. It returns to its pool, which asks it for an answer first, unless the database is down or goes down
/// meanwhile: what was sent may never be answered, and the pool would wait for that for as long as the network does.
pub(crate) struct Lent {
    /// There until it is dropped.
    connection: Option<PoolConnection<Postgres>>,
    returns: bool,
    availability: Arc<Availability>,
}

impl Lent {
    pub(super) fn new(connection: PoolConnection<Postgres>, availability: Arc<Availability>) -> Self {
        Self { connection: Some(connection), returns: true, availability }
    }

    /// Has it closed when it is dropped.
    pub(crate) fn close_on_drop(&mut self) {
        self.returns = false;
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        if self.availability.is_down() {
            return drop(connection.detach());
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.returns {
            return connection.close_on_drop();
        }
        // This is what dropping it does, but for the end.
        let returning = timeout(RETURN_TIMEOUT, connection.return_to_pool());
        let mut down = self.availability.down.subscribe();
        runtime.spawn(async move {
            tokio::select! {
                _ = returning => {}
                _ = down.wait_for(Option::is_some) => {}
            }
        });
    }
}
