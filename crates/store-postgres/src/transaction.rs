//! Inside a transaction of the caller's.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Action, Error, Hold, Key, Kind, NewMessage, Operated, Order, Recorded, Ref, Settled,
    Settlement, TransactionalStore, Wake,
};
use sqlx::postgres::PgTransactionManager;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use sqlx_core::transaction::TransactionManager;

use crate::availability::Lent;
use crate::fault;
use crate::hints::Effects;
use crate::locked::Targets;
use crate::slow::Body;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Tells what a transaction brought about, once it is committed.
    fn wake(&self, effects: Effects) -> Wake {
        let hints = Arc::clone(&self.hints);
        let effects = effects.belated();
        Wake::new(move || hints.note(effects))
    }
}

/// A transaction that the store began on a connection of its pool: it dereferences to the connection. It is rolled back when it is
/// dropped. A connection that does not answer then is closed, so that an outage costs the pool none.
pub struct PgTransaction(Lent);

impl PgTransaction {
    async fn begin(mut connection: Lent) -> Result<Self, sqlx::Error> {
        PgTransactionManager::begin(&mut connection, None).await?;
        Ok(Self(connection))
    }

    /// If it is given up before the answer, the connection ends what is open when it is given back.
    async fn commit(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::commit(&mut self.0).await?;
        self.0.is_done();
        Ok(())
    }

    /// Rolls it back, and waits for that.
    pub async fn rollback(self) -> Result<(), Error> {
        let Self(mut connection) = self;
        let availability = connection.availability();
        let call = async move {
            connection.end_transaction().await.map_err(fault::told)?;
            connection.is_done();
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

/// On a connection without a transaction each statement of a call would be committed by itself.
fn check_transaction(connection: &PgConnection) -> Result<(), Error> {
    if connection.is_in_transaction() {
        return Ok(());
    }
    Err(Error::new(Kind::Invalid, "no transaction is open on this connection: begin one first"))
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
        let call = async { PgTransaction::begin(self.connection().await?).await.map_err(fault::told) };
        self.availability.guard(call).await
    }

    async fn commit(&self, transaction: PgTransaction) -> Result<(), Error> {
        self.availability.guard(async { transaction.commit().await.map_err(fault::told) }).await
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
        let call = self.take_in(transaction, &self.sql.accept_patiently, messages, &mut effects);
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
        let order = Order { target: Ref::Key(key.clone()), action: Action::MarkProcessed { hold } };
        let operate = |machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>| machine.operate(turn, &order);
        let slow = self.slow(self.wait);
        match self.availability.guard(slow.decide(transaction, &targets, operate)).await?.0 {
            Operated::Changed(receipt) => Ok(Recorded::First(receipt)),
            Operated::Unchanged(receipt) => Ok(Recorded::Duplicate(receipt)),
            _ => Err(Error::new(Kind::Unavailable, "the key could not be recorded: try again")),
        }
    }
}
