//! Transactions of applications: what the inbox does there happens with what the application does, or not at all.

use std::any::{Any, TypeId};
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Error, Hold, Key, Kind, NewMessage, Recorded, Settled, Settlement, TransactionalStore, Wake,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A transaction whose type only its store and its user know.
pub(crate) type AnyTransaction = dyn Any + Send;

/// A store that takes part in transactions, whatever its type.
#[async_trait]
pub(crate) trait Transactions: Send + Sync {
    /// The type of its transactions.
    fn kind(&self) -> TypeId;

    /// How many handlers may have one open at once.
    fn limit(&self) -> usize;

    /// Waits until fewer handlers than the limit have a transaction open. The permit is kept for as long as the transaction is.
    async fn permit(&self) -> OwnedSemaphorePermit;

    async fn begin(&self) -> Result<Box<AnyTransaction>, Error>;

    async fn commit(&self, transaction: Box<AnyTransaction>) -> Result<(), Error>;

    async fn accept_in(
        &self,
        transaction: &mut AnyTransaction,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error>;

    async fn settle_in(
        &self,
        transaction: &mut AnyTransaction,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error>;

    async fn record_in(
        &self,
        transaction: &mut AnyTransaction,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error>;
}

struct Of<S> {
    store: Arc<S>,
    permits: Arc<Semaphore>,
}

pub(crate) fn of<S>(store: Arc<S>) -> Arc<dyn Transactions>
where
    S: TransactionalStore + 'static,
{
    let permits = store.transactions_max().min(Semaphore::MAX_PERMITS);
    Arc::new(Of { store, permits: Arc::new(Semaphore::new(permits)) })
}

impl<S> Of<S>
where
    S: TransactionalStore + 'static,
{
    /// The connection of a transaction that the store or the application began.
    fn known(transaction: &mut AnyTransaction) -> Result<&mut S::Connection, Error> {
        if transaction.is::<S::Transaction>() {
            transaction.downcast_mut::<S::Transaction>().map(|own| &mut **own).ok_or_else(foreign)
        } else {
            transaction.downcast_mut::<S::CallerTransaction>().map(|own| &mut **own).ok_or_else(foreign)
        }
    }
}

fn foreign() -> Error {
    Error::new(
        Kind::Unsupported,
        "this transaction is none of the store's: begin it on the store's own database",
    )
}

/// What is said where the store takes part in no transactions.
pub(crate) fn none() -> Error {
    Error::new(
        Kind::Unsupported,
        "this store takes part in no transactions: open one that does, such as `postgres://…`",
    )
}

#[async_trait]
impl<S> Transactions for Of<S>
where
    S: TransactionalStore + 'static,
{
    fn kind(&self) -> TypeId {
        TypeId::of::<S::Transaction>()
    }

    fn limit(&self) -> usize {
        self.store.transactions_max()
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        self.permits.clone().acquire_owned().await.expect("it is never closed")
    }

    async fn begin(&self) -> Result<Box<AnyTransaction>, Error> {
        Ok(Box::new(self.store.begin_transaction().await?))
    }

    async fn commit(&self, transaction: Box<AnyTransaction>) -> Result<(), Error> {
        let transaction = transaction.downcast::<S::Transaction>().map_err(|_| foreign())?;
        self.store.commit(*transaction).await
    }

    async fn accept_in(
        &self,
        transaction: &mut AnyTransaction,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error> {
        self.store.accept_in(Self::known(transaction)?, messages).await
    }

    async fn settle_in(
        &self,
        transaction: &mut AnyTransaction,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error> {
        self.store.settle_in(Self::known(transaction)?, settlements).await
    }

    async fn record_in(
        &self,
        transaction: &mut AnyTransaction,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error> {
        self.store.record_in(Self::known(transaction)?, key, hold).await
    }
}
