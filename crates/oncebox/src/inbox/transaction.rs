//! Accepting messages in a transaction of the application.

use std::sync::Arc;

use oncebox_core::{Error, Key, Recorded, Wake};

use super::{EnqueueReceipt, Inbox};
use crate::message::Message;
use crate::transaction::{Transactions, unsupported};

impl Inbox {
    fn transactions(&self) -> Result<Arc<dyn Transactions>, Error> {
        self.0.transactions.clone().ok_or_else(unsupported)
    }

    /// Accepts a message in a transaction: it exists if the transaction commits, and does not if it is rolled back.
    ///
    /// `transaction` must be on the store's own database; for PostgreSQL, it is what `PgPool::begin` returns. Fire the
    /// [`Wake`] after the commit, and a worker of this process claims the message at once; otherwise workers find it at
    /// their next poll.
    pub async fn enqueue_in<T: Send + 'static>(
        &self,
        transaction: &mut T,
        message: Message,
    ) -> Result<(EnqueueReceipt, Wake), Error> {
        let message = self.prepare(message)?;
        let messages = [message];
        self.0.pauses.check(&messages).await?;
        let (accepted, wake) = self.transactions()?.accept_in(transaction, &messages).await?;
        let [message] = &messages;
        let accepted = accepted.into_iter().next();
        let receipt = self.receipt_for(message, accepted.expect("a store returns one outcome per item"))?;
        Ok((receipt, wake))
    }

    /// Records in a transaction that a message was processed, or reports that it was processed before: the classic
    /// inbox table.
    ///
    /// On [`Recorded::First`], process the message in the same transaction and commit. On [`Recorded::Duplicate`],
    /// there is nothing to do. Of two concurrent transactions that record the same message, the second waits until the
    /// first ends.
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
