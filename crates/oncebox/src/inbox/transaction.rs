//! Receiving inside a transaction of the application's.

use std::sync::Arc;

use oncebox_core::{Error, Key, Recorded, Wake};

use super::{Inbox, Receipt};
use crate::message::Message;
use crate::transaction::{Transactions, none};

impl Inbox {
    fn transactions(&self) -> Result<Arc<dyn Transactions>, Error> {
        self.0.transactions.clone().ok_or_else(none)
    }

    /// Takes a message in within a transaction: it is there when that commits, and was never there if it does not.
    ///
    /// `transaction` is one of the store's own database; for PostgreSQL, what `PgPool::begin` gives. Fire the [`Wake`] after the
    /// commit, and a worker of this process takes the message at once; without it, it is found at the next look.
    pub async fn enqueue_in<T: Send + 'static>(
        &self,
        transaction: &mut T,
        message: Message,
    ) -> Result<(Receipt, Wake), Error> {
        let message = self.prepared(message)?;
        let messages = [message];
        let (accepted, wake) = self.transactions()?.accept_in(transaction, &messages).await?;
        let [message] = &messages;
        let accepted = accepted.into_iter().next();
        let receipt = self.taken(message, accepted.expect("a store gives one outcome per item"))?;
        Ok((receipt, wake))
    }

    /// Records within a transaction that a message was handled, or tells that it was before: the classic inbox table.
    ///
    /// On [`Recorded::First`] do what is to be done in the same transaction, and commit; on [`Recorded::Duplicate`] there is
    /// nothing to do. Two transactions that record the same message wait for each other.
    pub async fn record_in<T: Send + 'static>(
        &self,
        transaction: &mut T,
        source: &str,
        id: &str,
    ) -> Result<Recorded, Error> {
        let key = Key::inbox(source, id)?;
        self.transactions()?.record_in(transaction, &key, self.0.settings.hold()).await
    }
}
