//! Scheduling inside a transaction of the application's.

use oncebox_core::{Error, Wake};
use serde::Serialize;

use super::{Prepared, Scheduler};
use crate::commands::{Command, Receipt, ScheduleOptions};
use crate::transaction::none;

impl Scheduler {
    /// Stores a command within a transaction: it is there when that commits, and was never there if it does not.
    ///
    /// `transaction` is one of the store's own database; for PostgreSQL, what `PgPool::begin` gives. Fire the [`Wake`] after the
    /// commit, and a processor of this process takes the command at once; without it, it is found at the next poll.
    pub async fn schedule_in<T, C>(
        &self,
        transaction: &mut T,
        command: &C,
        options: ScheduleOptions,
    ) -> Result<(Receipt, Wake), Error>
    where
        T: Send + 'static,
        C: Command<Output = ()> + Serialize,
    {
        let transactions = self.shared.transactions.clone().ok_or_else(none)?;
        let Prepared { contract, message } = self.prepared(command, options)?;
        let messages = [message];
        let (accepted, wake) = transactions.accept_in(transaction, &messages).await?;
        let mut receipts = self.receipts(vec![contract], &messages, accepted).await?;
        let receipt = receipts.pop().expect("a store gives one outcome per item")?;
        Ok((receipt, wake))
    }
}
