//! Handlers inside a transaction: their writes and the acknowledgement commit together.

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
use super::handler::Endpoint;
use crate::transaction::{AnyTransaction, Transactions, none};

/// The transaction of one delivery, and whether it has been committed.
#[derive(Clone, Default)]
pub(super) struct Slot {
    open: Arc<Mutex<Option<Open>>>,
    committed: Arc<AtomicBool>,
}

/// An open transaction, and the permit to have it.
struct Open {
    transaction: Box<AnyTransaction>,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    /// Begins the transaction, unless it is open already. Waits while as many handlers as may have one do.
    pub(super) async fn begin(&self, transactions: &dyn Transactions) -> Result<(), Error> {
        let mut open = self.open.lock().await;
        if open.is_none() {
            let permit = transactions.permit().await;
            *open = Some(Open { transaction: transactions.begin().await?, _permit: permit });
        }
        Ok(())
    }

    /// The store has heard of the end of this delivery.
    pub(super) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }
}

/// The transaction that a handler runs in. Asking for it is enough: it is begun before the handler runs; when the handler
/// succeeds, the message is acknowledged in it and it is committed; when the handler fails, it is rolled back.
///
/// `T` is the transaction's type. For PostgreSQL, `oncebox::postgres::Tx` is short for it.
pub struct Tx<T> {
    open: OwnedMutexGuard<Option<Open>>,
    kind: PhantomData<fn() -> T>,
}

impl<T: 'static> Deref for Tx<T> {
    type Target = T;

    fn deref(&self) -> &T {
        let open = self.open.as_ref().and_then(|open| open.transaction.downcast_ref());
        open.expect("it is there for as long as its handler runs")
    }
}

impl<T: 'static> DerefMut for Tx<T> {
    fn deref_mut(&mut self) -> &mut T {
        let open = self.open.as_mut().and_then(|open| open.transaction.downcast_mut());
        open.expect("it is there for as long as its handler runs")
    }
}

impl<S, T: 'static> Extract<S> for Tx<T> {
    type Rejection = Rejection;

    fn extract(context: &Context, _: &S) -> Result<Self, Rejection> {
        let busy = |_| Rejection::new("a handler asks for its transaction twice: it has one");
        let open = context.slot.open.clone().try_lock_owned().map_err(busy)?;
        Ok(Self { open, kind: PhantomData })
    }

    fn transaction() -> Option<TypeId> {
        Some(TypeId::of::<T>())
    }
}

/// However a run ends, what it has not committed is rolled back, also if somebody keeps its context.
pub(super) struct Rollback(pub(super) Slot);

impl Drop for Rollback {
    fn drop(&mut self) {
        if let Ok(mut open) = self.0.open.try_lock() {
            drop(open.take());
        }
    }
}

/// Runs a handler in its transaction, which is open; unless the handler runs a second time, because of a layer.
pub(super) fn around(endpoint: Endpoint) -> Endpoint {
    Arc::new(move |context: Context| {
        let endpoint = endpoint.clone();
        Box::pin(async move {
            let transactions = context.transactions().ok_or_else(|| Failure::retry(none()))?;
            context.slot.begin(&*transactions).await?;
            let _rollback = Rollback(context.slot.clone());
            endpoint(context.clone()).await?;
            let left =
                "the handler left its transaction to something that still uses it: nothing was committed";
            let open = context.slot.open.try_lock().map_err(|_| Failure::retry(left))?.take();
            let mut open = open.ok_or_else(|| Failure::retry("the handler's transaction is gone"))?;
            let (settled, wake) = transactions.settle_in(&mut *open.transaction, &[context.ack()]).await?;
            match settled[..] {
                [Settled::Done] => {}
                [Settled::Superseded] => return Err(Failure::retry("newer content came meanwhile")),
                _ => return Err(Failure::retry("the lease was lost: what the handler wrote is rolled back")),
            }
            transactions.commit(open.transaction).await?;
            context.slot.committed.store(true, Ordering::Release);
            wake.fire();
            Ok(())
        })
    })
}
