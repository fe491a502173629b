//! Handlers in a transaction: their writes and the acknowledgement commit together.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use oncebox_core::Settled;
use tokio::sync::OwnedMutexGuard;

use super::context::Context;
use super::extract::{Extract, Rejection};
use super::failure::Failure;
use super::handler::DynHandler;
use super::transaction_slot::{OpenTransaction, Rollback};
use crate::transaction::unsupported;

/// The transaction that a handler runs in. A handler that takes it as an argument runs in a transaction, which is begun
/// before the handler runs. If the handler succeeds, the message is acknowledged in the same transaction, which is then
/// committed; if the handler fails, it is rolled back.
///
/// `T` is the type of the transaction. For PostgreSQL, use the alias `oncebox::postgres::Tx`.
pub struct HandlerTx<T> {
    open: OwnedMutexGuard<Option<OpenTransaction>>,
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
        let open = context.slot.try_lock().map_err(busy)?;
        Ok(Self { open, kind: PhantomData })
    }

    fn transaction() -> Option<TypeId> {
        Some(TypeId::of::<T>())
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
            let open = context.slot.take().map_err(|_| Failure::retry(text))?;
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
            context.slot.set_committed();
            wake.fire();
            Ok(())
        })
    })
}
