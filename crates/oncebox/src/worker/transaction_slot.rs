//! The transaction of one delivery: begun before its handler runs, rolled back unless it is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncebox_core::Error;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, TryLockError};

use crate::transaction::{AnyTransaction, Transactions};

/// The transaction of one delivery, and whether it has been committed.
#[derive(Clone, Default)]
pub(super) struct TransactionSlot {
    open: Arc<Mutex<Option<OpenTransaction>>>,
    committed: Arc<AtomicBool>,
}

/// An open transaction, and the permit for it.
pub(super) struct OpenTransaction {
    pub(super) transaction: Box<AnyTransaction>,
    _permit: OwnedSemaphorePermit,
}

impl TransactionSlot {
    /// Begins the transaction, unless it is already open. Waits while the maximum number of handlers have one open.
    pub(super) async fn begin(&self, transactions: &dyn Transactions) -> Result<(), Error> {
        let mut open = self.open.lock().await;
        if open.is_none() {
            let permit = transactions.permit().await;
            *open = Some(OpenTransaction { transaction: transactions.begin().await?, _permit: permit });
        }
        Ok(())
    }

    /// Takes the transaction out, to end it; none if it has ended. Fails while it is in use.
    pub(super) fn take(&self) -> Result<Option<OpenTransaction>, TryLockError> {
        Ok(self.open.try_lock()?.take())
    }

    /// The transaction, for use by a handler. Fails while it is in use.
    pub(super) fn try_lock(&self) -> Result<OwnedMutexGuard<Option<OpenTransaction>>, TryLockError> {
        self.open.clone().try_lock_owned()
    }

    /// Records that the transaction, and with it the acknowledgement of this delivery, has been committed.
    pub(super) fn set_committed(&self) {
        self.committed.store(true, Ordering::Release);
    }

    /// Whether the transaction, and with it the acknowledgement of this delivery, has been committed.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }
}

/// Rolls back what an attempt has not committed, however it ends, even if its context is still referenced.
pub(super) struct Rollback(pub(super) TransactionSlot);

impl Drop for Rollback {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
