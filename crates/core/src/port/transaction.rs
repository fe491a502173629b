//! Calls inside a transaction of the caller: they commit or roll back together with the caller's own changes.

use std::fmt;
use std::ops::DerefMut;

use async_trait::async_trait;

use crate::error::Error;
use crate::key::Key;
use crate::message::{Hold, MessageSummary, NewMessage, Settled};
use crate::port::{Accepted, Settlement, Store};

/// Wakes the workers that wait for the messages of a transaction; to be fired after its commit. Dropping it is
/// harmless: the workers find the messages with their next claim.
#[derive(Default)]
pub struct Wake(Option<Box<dyn FnOnce() + Send>>);

impl Wake {
    /// Runs this function when fired.
    pub fn new(fire: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(fire)))
    }

    /// Wakes the workers. Call it after the commit.
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
    /// The key was not processed before: do the work, and commit.
    First(MessageSummary),
    /// The key was processed before: there is nothing to do.
    Duplicate(MessageSummary),
}

/// A store that can work inside a transaction of the caller.
///
/// Changes become visible with the commit, and a rollback undoes them. Messages and keys that the transaction touched
/// stay locked until then, so keep such transactions short. After an error, roll the transaction back.
#[async_trait]
pub trait TransactionalStore: Store {
    /// The connection of an open transaction, on which calls inside the transaction are made. Without an open
    /// transaction they fail with [`Invalid`](crate::ErrorKind::Invalid).
    type Connection: Send;

    /// A transaction that the store has begun. Dropping it rolls it back.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// A transaction that the application has begun itself, in the same database.
    type CallerTransaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// The maximum number of transactions that may be open at the same time, so that a connection is left for the
    /// store's own calls. A worker runs at most this number of handlers in transactions.
    fn transactions_max(&self) -> usize;

    /// Begins a transaction on one of the store's connections.
    async fn begin_transaction(&self) -> Result<Self::Transaction, Error>;

    /// Commits a transaction.
    async fn commit(&self, transaction: Self::Transaction) -> Result<(), Error>;

    /// Like [`Store::accept`], inside the transaction.
    async fn accept_in(
        &self,
        transaction: &mut Self::Connection,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error>;

    /// Like the settlements of [`Store::work`], inside the transaction.
    async fn settle_in(
        &self,
        transaction: &mut Self::Connection,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error>;

    /// Records that a key is processed, or returns that it was processed before. If two transactions record the same
    /// key concurrently, the second waits for the first; if the first commits, the second gets `Duplicate`.
    async fn record_in(
        &self,
        transaction: &mut Self::Connection,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error>;
}
