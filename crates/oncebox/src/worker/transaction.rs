//! Handlers in a transaction: their writes and the acknowledgement commit together.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncebox_core::{Error, Settled};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit};

use super::context::Context;
use super::extract::{Extract, Rejection};
use super::failure::Failure;
use super::handler::DynHandler;
use crate::transaction::{AnyTransaction, Transactions, unsupported};

/// The transaction of one delivery, and whether it has been committed.
#[derive(Clone, Default)]
pub(super) struct Slot {
    open: Arc<Mutex<Option<Open>>>,
    committed: Arc<AtomicBool>,
}

/// An open transaction, and the permit for it.
struct Open {
    transaction: Box<AnyTransaction>,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Begins the transaction, unless it is already open. Waits while the maximum number of handlers have one open.
    pub(super) async fn begin(&self, transactions: &dyn Transactions) -> Result<(), Error> {
        let mut open = self.open.lock().await;
        if open.is_none() {
            let permit = transactions.permit().await;
            *open = Some(Open { transaction: transactions.begin().await?, _permit: permit });
        }
        Ok(())
    }

    /// Whether the transaction, and with it the acknowledgement of this delivery, has been committed.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }
}

/// The transaction that a handler runs in. A handler that takes it as an argument runs in a transaction, which is begun
/// before the handler runs. If the handler succeeds, the message is acknowledged in the same transaction, which is then
/// committed; if the handler fails, it is rolled back.
///
/// `T` is the type of the transaction. For PostgreSQL, use the alias `oncebox::postgres::Tx`.
pub struct HandlerTx<T> {
    open: OwnedMutexGuard<Option<Open>>,
    kind: PhantomData<fn() -> T>,
}

impl<T: 'static> Deref for HandlerTx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let open = self.open.as_ref().and_then(|open| open.transaction.downcast_ref());
        open.expect("the transaction is open while its handler runs")
    }
}

impl<T: 'static> DerefMut for HandlerTx<T> {
    fn deref_mut(&mut self) -> &mut T {
        let open = self.open.as_mut().and_then(|open| open.transaction.downcast_mut());
        open.expect("the transaction is open while its handler runs")
    }
}

impl<S, T: 'static> Extract<S> for HandlerTx<T> {
    type Rejection = Rejection;

    fn extract(context: &Context, _: &S) -> Result<Self, Rejection> {
        let busy = |_| Rejection::new("a handler can take its transaction only once");
        let open = context.slot.open.clone().try_lock_owned().map_err(busy)?;
        Ok(Self { open, kind: PhantomData })
    }

    fn transaction() -> Option<TypeId> {
        Some(TypeId::of::<T>())
    }
}

/// Rolls back what an attempt has not committed, however it ends, even if its context is still referenced.
pub(super) struct Rollback(pub(super) Slot);

impl Drop for Rollback {
    fn drop(&mut self) {
        if let Ok(mut open) = self.0.open.try_lock() {
            drop(open.take());
        }
    }
}

/// Runs a handler in its transaction, which is already open unless a layer runs the handler a second time.
pub(super) fn in_transaction(handler: DynHandler) -> DynHandler {
    Arc::new(move |context: Context| {
        let handler = handler.clone();
        Box::pin(async move {
            let transactions = context.transactions().ok_or_else(|| Failure::retry(unsupported()))?;
            context.slot.begin(&*transactions).await?;
            let _rollback = Rollback(context.slot.clone());
            handler(context.clone()).await?;
            let text = "the handler's transaction is still in use elsewhere; nothing was committed";
            let open = context.slot.open.try_lock().map_err(|_| Failure::retry(text))?.take();
            let mut open =
                open.ok_or_else(|| Failure::retry("the handler's transaction is no longer open"))?;
            let (settled, wake) = transactions.settle_in(&mut *open.transaction, &[context.ack()]).await?;
            match settled[..] {
                [Settled::Done] => {}
                [Settled::Superseded] => {
                    return Err(Failure::retry("newer content was accepted in the meantime"));
                }
                _ => return Err(Failure::retry("the lease was lost; the handler's writes were rolled back")),
            }
            transactions.commit(open.transaction).await?;
            context.slot.committed.store(true, Ordering::Release);
            wake.fire();
            Ok(())
        })
    })
}
