//! Transactions of applications: what the inbox does in them is committed or rolled back together with the
//! application's own writes.

use std::any::{Any, TypeId};
use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::{
    Accepted, Error, ErrorKind, Hold, Key, NewMessage, Recorded, Settled, Settlement, TransactionalStore,
    Wake,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A transaction of any type.
pub(crate) type AnyTransaction = dyn Any + Send;

/// A store that supports transactions, with the type of its transactions erased.
#[async_trait]
pub(crate) trait Transactions: Send + Sync {
    /// The type of the store's transactions.
    fn kind(&self) -> TypeId;

    /// Maximum number of handlers that may have a transaction open at once.
    fn limit(&self) -> usize;

    /// Waits until fewer handlers than the limit have a transaction open. The permit must be held for as long as the
    /// transaction.
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

struct TypedStore<S> {
    store: Arc<S>,
    permits: Arc<Semaphore>,
}

pub(crate) fn transactions_of<S>(store: Arc<S>) -> Arc<dyn Transactions>
where
    S: TransactionalStore + 'static,
{
    let permits = store.transactions_max().min(Semaphore::MAX_PERMITS);
    Arc::new(TypedStore { store, permits: Arc::new(Semaphore::new(permits)) })
}

impl<S> TypedStore<S>
where
    S: TransactionalStore + 'static,
{
    /// The connection of a transaction that the store or the application began.
    fn connection(transaction: &mut AnyTransaction) -> Result<&mut S::Connection, Error> {
        if transaction.is::<S::Transaction>() {
            transaction.downcast_mut::<S::Transaction>().map(|own| &mut **own).ok_or_else(foreign)
        } else {
            transaction.downcast_mut::<S::CallerTransaction>().map(|own| &mut **own).ok_or_else(foreign)
        }
    }
}

fn foreign() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this transaction does not belong to the store: begin it on the store's database",
    )
}

/// The error for stores that do not support transactions.
pub(crate) fn unsupported() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this store does not support transactions: open one that does, such as `postgres://…`",
    )
}

#[async_trait]
impl<S> Transactions for TypedStore<S>
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
        self.permits.clone().acquire_owned().await.expect("the semaphore is never closed")
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
        self.store.accept_in(Self::connection(transaction)?, messages).await
    }

    async fn settle_in(
        &self,
        transaction: &mut AnyTransaction,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error> {
        self.store.settle_in(Self::connection(transaction)?, settlements).await
    }

    async fn record_in(
        &self,
        transaction: &mut AnyTransaction,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error> {
        self.store.record_in(Self::connection(transaction)?, key, hold).await
    }
}
