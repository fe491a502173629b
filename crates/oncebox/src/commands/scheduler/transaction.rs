//! Scheduling inside a transaction of the application.

use oncebox_core::{Error, Wake};
use serde::Serialize;

use super::{Prepared, Scheduler};
use crate::commands::{Command, ScheduleOptions, ScheduleReceipt};
use crate::transaction::unsupported;

impl Scheduler {
    /// Stores a command within a transaction of the application: it is stored if and only if the transaction commits.
    ///
    /// `transaction` belongs to the store's own database; for PostgreSQL, use the result of `PgPool::begin`. Fire the
    /// [`Wake`] after the commit so that a processor in this process runs the command at once; otherwise it is found at
    /// the next poll.
    pub async fn schedule_in<T, C>(
        &self,
        transaction: &mut T,
        command: &C,
        options: ScheduleOptions,
    ) -> Result<(ScheduleReceipt, Wake), Error>
    where
        T: Send + 'static,
        C: Command<Output = ()> + Serialize,
    {
        let transactions = self.shared.transactions.clone().ok_or_else(unsupported)?;
        let Prepared { contract, message } = self.prepare(command, options)?;
        let messages = [message];
        self.shared.pauses.check(&messages).await?;
        let (accepted, wake) = transactions.accept_in(transaction, &messages).await?;
        let mut receipts = self.receipts(vec![contract], &messages, accepted).await?;
        let receipt = receipts.pop().expect("a store returns one outcome per item")?;
        Ok((receipt, wake))
    }
}
