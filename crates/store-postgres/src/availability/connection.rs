//! Connections borrowed from a pool.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{Connection, Executor, PgConnection, Postgres};
use sqlx_core::transaction::TransactionManager;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Availability;

/// A connection that does not respond within this time after its call is closed.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection for one call or one transaction. When dropped, it returns to its pool, which pings it first, unless
/// the database is down or goes down meanwhile: the ping may never be answered, and the pool would wait for as long
/// as the network does.
pub(crate) struct TrackedConnection {
    /// `Some` until it is dropped.
    connection: Option<PoolConnection<Postgres>>,
    on_drop: OnDrop,
    availability: Arc<Availability>,
}

/// What happens to a connection when it is dropped.
#[derive(Clone, Copy)]
enum OnDrop {
    /// The call did not finish: roll back, then return. A `begin` that was sent and abandoned before the answer
    /// leaves a transaction open that the driver does not know about; the next call's changes on it would not be
    /// committed.
    RollBack,
    /// Return to the pool.
    Return,
    /// Close the connection.
    Close,
}

impl TrackedConnection {
    pub(super) fn new(connection: PoolConnection<Postgres>, availability: Arc<Availability>) -> Self {
        Self { connection: Some(connection), on_drop: OnDrop::RollBack, availability }
    }

    /// Records that the call has finished and no transaction is open.
    pub(crate) fn mark_clean(&mut self) {
        self.on_drop = OnDrop::Return;
    }

    /// Closes the connection when it is dropped.
    pub(crate) fn close_on_drop(&mut self) {
        self.on_drop = OnDrop::Close;
    }

    pub(crate) fn availability(&self) -> Arc<Availability> {
        Arc::clone(&self.availability)
    }

    /// Rolls back the open transaction.
    pub(crate) async fn end_transaction(&mut self) -> Result<(), sqlx::Error> {
        end_transaction(self).await
    }
}

/// Rolls back the open transaction of a connection, whether or not the driver knows about it.
async fn end_transaction(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if !connection.is_in_transaction() {
        // Without an open transaction, the server only issues a warning.
        connection.execute("ROLLBACK").await?;
    }
    while connection.is_in_transaction() {
        PgTransactionManager::rollback(connection).await?;
    }
    Ok(())
}

impl Deref for TrackedConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("present until dropped")
    }
}

impl DerefMut for TrackedConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("present until dropped")
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let Some(runtime) = Handle::try_current().ok().filter(|_| !self.availability.is_down()) else {
            return drop(connection.detach());
        };
        if matches!(self.on_drop, OnDrop::Close) {
            return connection.close_on_drop();
        }
        let rolls_back = matches!(self.on_drop, OnDrop::RollBack);
        let mut down = self.availability.down.subscribe();
        runtime.spawn(async move {
            if rolls_back {
                let ended = timeout(RETURN_TIMEOUT, end_transaction(&mut connection));
                let is_ended = tokio::select! {
                    ended = ended => matches!(ended, Ok(Ok(()))),
                    _ = down.wait_for(Option::is_some) => false,
                };
                if !is_ended {
                    return drop(connection.detach());
                }
            }
            // This is what dropping the connection does, but with a timeout.
            let returning = timeout(RETURN_TIMEOUT, connection.return_to_pool());
            tokio::select! {
                _ = returning => {}
                _ = down.wait_for(Option::is_some) => {}
            }
        });
    }
}
