//! Connections on loan from a pool.

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

/// A connection that does not answer after its call for so long is closed.
const RETURN_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection for one call, or for one transaction. It returns to its pool, which asks it for an answer first, unless the database is
/// down or goes down meanwhile: what was sent may never be answered, and the pool would wait for that for as long as the network does.
pub(crate) struct Lent {
    /// There until it is dropped.
    connection: Option<PoolConnection<Postgres>>,
    afterwards: Afterwards,
    availability: Arc<Availability>,
}

/// What becomes of a connection when it is dropped.
#[derive(Clone, Copy)]
enum Afterwards {
    /// Its call did not come to an end: what is open on it is rolled back, then it returns. A `begin` that was sent and given up before
    /// the answer leaves a transaction open that the driver does not know of; what the next call does there would not be committed.
    RollBack,
    /// It returns.
    Return,
    /// It is closed.
    Close,
}

impl Lent {
    pub(super) fn new(connection: PoolConnection<Postgres>, availability: Arc<Availability>) -> Self {
        Self { connection: Some(connection), afterwards: Afterwards::RollBack, availability }
    }

    /// The call has come to its end, and no transaction is open.
    pub(crate) fn is_done(&mut self) {
        self.afterwards = Afterwards::Return;
    }

    /// Has it closed when it is dropped.
    pub(crate) fn close_on_drop(&mut self) {
        self.afterwards = Afterwards::Close;
    }

    pub(crate) fn availability(&self) -> Arc<Availability> {
        Arc::clone(&self.availability)
    }

    /// Rolls back what is open.
    pub(crate) async fn end_transaction(&mut self) -> Result<(), sqlx::Error> {
        end_transaction(self).await
    }
}

/// Rolls back what is open on a connection, whether or not the driver knows of it.
async fn end_transaction(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    if !connection.is_in_transaction() {
        // Where nothing is open, this is a warning of the server's.
        connection.execute("ROLLBACK").await?;
    }
    while connection.is_in_transaction() {
        PgTransactionManager::rollback(connection).await?;
    }
    Ok(())
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
        let Some(runtime) = Handle::try_current().ok().filter(|_| !self.availability.is_down()) else {
            return drop(connection.detach());
        };
        if matches!(self.afterwards, Afterwards::Close) {
            return connection.close_on_drop();
        }
        let rolls_back = matches!(self.afterwards, Afterwards::RollBack);
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
            // This is what dropping it does, but for the end.
            let returning = timeout(RETURN_TIMEOUT, connection.return_to_pool());
            tokio::select! {
                _ = returning => {}
                _ = down.wait_for(Option::is_some) => {}
            }
        });
    }
}
