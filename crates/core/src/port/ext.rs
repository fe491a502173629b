//! Convenience methods for callers of [`Store`].

use async_trait::async_trait;

use crate::error::Error;
use crate::key::MessageRef;
use crate::message::{NewMessage, Settled, Snapshot};
use crate::port::{Accepted, Claim, Delivery, Operated, Order, RecordOp, RecordOutcome, Settlement, Store};

/// Single-item and single-purpose forms of the [`Store`] methods.
#[async_trait]
pub trait StoreExt: Store {
    /// [`Store::work`] without claims.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, Error> {
        Ok(self.work(settlements, &[]).await?.settled)
    }

    /// [`Store::work`] with one claim and nothing to settle.
    async fn claim(&self, claim: &Claim) -> Result<Vec<Delivery>, Error> {
        Ok(one(self.work(&[], std::slice::from_ref(claim)).await?.deliveries))
    }

    /// [`Store::accept`] of one message.
    async fn accept_one(&self, message: &NewMessage) -> Result<Accepted, Error> {
        Ok(one(self.accept(std::slice::from_ref(message)).await?))
    }

    /// [`Store::operate`] with one order.
    async fn operate_one(&self, order: &Order) -> Result<Operated, Error> {
        Ok(one(self.operate(std::slice::from_ref(order)).await?))
    }

    /// [`Store::records`] with one operation.
    async fn record(&self, op: RecordOp) -> Result<RecordOutcome, Error> {
        Ok(one(self.records(std::slice::from_ref(&op)).await?))
    }

    /// [`Store::get`] of one message.
    async fn get_one(&self, target: &MessageRef) -> Result<Option<Snapshot>, Error> {
        Ok(one(self.get(std::slice::from_ref(target)).await?))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

fn one<T>(outcomes: Vec<T>) -> T {
    let mut outcomes = outcomes.into_iter();
    let first = outcomes.next().expect("a store returns one outcome per item");
    assert!(outcomes.next().is_none(), "a store returns one outcome per item");
    first
}
