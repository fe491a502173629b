//! Operations inside the caller's transaction.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Action, Error, ErrorKind, Hold, Key, MessageRef, NewMessage, Operated, Order, Recorded,
    Settled, Settlement, TransactionalStore, Wake,
};
use sqlx::postgres::PgTransactionManager;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use sqlx_core::transaction::TransactionManager;

use crate::availability::TrackedConnection;
use crate::db_error;
use crate::hints::Effects;
use crate::store::PostgresStore;
use oncebox_store_rows::{Body, Targets};

impl PostgresStore {
    /// Applies the effects of a transaction once it is committed.
    fn wake(&self, effects: Effects) -> Wake {
        let hints = Arc::clone(&self.hints);
        let effects = effects.deferred();
        Wake::new(move || hints.apply(effects))
    }
}

/// A transaction that the store began on a connection of its pool; dereferences to the connection. Rolls back when
/// dropped. A connection that does not respond to the rollback is closed, so that an outage costs the pool no
/// connection.
pub struct PgTransaction(TrackedConnection);

impl PgTransaction {
    async fn begin(mut connection: TrackedConnection) -> Result<Self, sqlx::Error> {
        PgTransactionManager::begin(&mut connection, None).await?;
        Ok(Self(connection))
    }

    /// If the future is dropped before the answer, the connection rolls back when it is released.
    async fn commit(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::commit(&mut self.0).await?;
        self.0.mark_clean();
        Ok(())
    }

    /// Rolls back, and waits for the rollback.
    pub async fn rollback(self) -> Result<(), Error> {
        let Self(mut connection) = self;
        let availability = connection.availability();
        let call = async move {
            connection.end_transaction().await.map_err(db_error::into_error)?;
            connection.mark_clean();
            Ok(())
        };
        availability.guard(call).await
    }
}

impl fmt::Debug for PgTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTransaction").finish_non_exhaustive()
    }
}

impl Deref for PgTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for PgTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

/// On a connection without a transaction, each statement of a call would commit on its own.
fn check_transaction(connection: &PgConnection) -> Result<(), Error> {
    if connection.is_in_transaction() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, "no transaction is open on this connection: begin one first"))
}

#[async_trait]
impl TransactionalStore for PostgresStore {
    type Connection = PgConnection;
    type Transaction = PgTransaction;
    type CallerTransaction = Transaction<'static, Postgres>;

    fn transactions_max(&self) -> usize {
        self.reserve.transactions_max(&self.pool)
    }

    async fn begin_transaction(&self) -> Result<PgTransaction, Error> {
        self.check_items(0)?;
        let call =
            async { PgTransaction::begin(self.connection().await?).await.map_err(db_error::into_error) };
        self.availability.guard(call).await
    }

    async fn commit(&self, transaction: PgTransaction) -> Result<(), Error> {
        self.availability.guard(async { transaction.commit().await.map_err(db_error::into_error) }).await
    }

    async fn accept_in(
        &self,
        transaction: &mut PgConnection,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error> {
        self.check_items(messages.len())?;
        check_transaction(transaction)?;
        if messages.is_empty() {
            return Ok((Vec::new(), Wake::default()));
        }
        let mut effects = Effects::default();
        let call = self.accept_on(transaction, &self.sql.accept_blocking, messages, &mut effects);
        let accepted = self.availability.guard(call).await?;
        Ok((accepted, self.wake(effects)))
    }

    async fn settle_in(
        &self,
        transaction: &mut PgConnection,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error> {
        self.check_items(settlements.len())?;
        check_transaction(transaction)?;
        if settlements.is_empty() {
            return Ok((Vec::new(), Wake::default()));
        }
        let mut effects = Effects::default();
        let settled = self.availability.guard(self.settle(transaction, settlements, &mut effects)).await?;
        Ok((settled, self.wake(effects)))
    }

    async fn record_in(
        &self,
        transaction: &mut PgConnection,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error> {
        self.check_items(1)?;
        check_transaction(transaction)?;
        let targets = Targets::of_keys([key]);
        let order = Order { target: MessageRef::Key(key.clone()), action: Action::MarkProcessed { hold } };
        let operate = |machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>| {
            machine.operate(context, &order)
        };
        let mut effects = Effects::default();
        let recorded = self.decide_once(transaction, self.lock_wait, &targets, operate, &mut effects);
        match self.availability.guard(recorded).await? {
            Operated::Changed(summary) => Ok(Recorded::First(summary)),
            Operated::Unchanged(summary) => Ok(Recorded::Duplicate(summary)),
            _ => Err(Error::new(ErrorKind::Unavailable, "the key could not be recorded: retry the call")),
        }
    }
}
