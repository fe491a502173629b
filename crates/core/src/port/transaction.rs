//! Transactions of the caller's: what a store does there happens with what the caller does, or not at all.

use std::fmt;
use std::ops::DerefMut;

use async_trait::async_trait;

use crate::error::Error;
use crate::key::Key;
use crate::message::{Hold, NewMessage};
use crate::port::{Accepted, Receipt, Settled, Settlement, Store};

/// Wakes those who wait for what a transaction brought: to be fired after its commit. Dropping it is harmless: then they find it
/// when they look next.
#[derive(Default)]
pub struct Wake(Option<Box<dyn FnOnce() + Send>>);

impl Wake {
    /// Does this when it is fired.
    pub fn new(fire: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(fire)))
    }

    /// Tells them; call it after the commit.
    pub fn fire(self) {
        if let Some(fire) = self.0 {
            fire();
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wake").field(&self.0.is_some()).finish()
    }
}

/// Whether a key was recorded for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It was not processed before: do your work, and commit.
    First(Receipt),
    /// It was: there is nothing to do.
    Duplicate(Receipt),
}

/// A store that works inside a transaction of the caller's.
///
/// Nothing of it shows before the commit, and nothing is left of it after a rollback. Messages and keys that it touched stay
/// locked until then: keep such transactions short. After an error roll the transaction back.
#[async_trait]
pub trait TransactionalStore: Store {
    /// The connection that a transaction is open on: calls inside the transaction are made on it. Without an open transaction they
    /// are [`Invalid`](crate::Kind::Invalid).
    type Connection: Send;

    /// A transaction that the store began. It is rolled back when it is dropped.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// A transaction that the application began by itself, in the same database.
    type CallerTransaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// How many transactions may be open at once so that the store's own calls still find a connection. A worker runs no more
    /// handlers in transactions than this.
    fn transactions_max(&self) -> usize;

    /// Begins a transaction on a connection of the store's.
    async fn begin_transaction(&self) -> Result<Self::Transaction, Error>;

    /// Commits it.
    async fn commit(&self, transaction: Self::Transaction) -> Result<(), Error>;

    /// As [`Store::accept`].
    async fn accept_in(
        &self,
        transaction: &mut Self::Connection,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error>;

    /// As the settlements of [`Store::work`].
    async fn settle_in(
        &self,
        transaction: &mut Self::Connection,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error>;

    /// Records that a key is processed, or answers that it was before. Two transactions that record the same key at once wait for
    /// each other; if the first commits, the second gets `Duplicate`.
    async fn record_in(
        &self,
        transaction: &mut Self::Connection,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error>;
}
