//! Inside a transaction of the caller's.

use std::sync::Arc;

use async_trait::async_trait;
use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Accepted, Action, Error, Hold, Key, Kind, NewMessage, Operated, Order, Recorded, Ref, Settled,
    Settlement, TransactionalStore, Wake,
};
use sqlx::{Postgres, Transaction};

use crate::fault;
use crate::hints::Effects;
use crate::locked::Targets;
use crate::slow::Body;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Tells what a transaction brought about, once it is committed.
    fn wake(&self, effects: Effects) -> Wake {
        let hints = Arc::clone(&self.hints);
        let effects = effects.belated();
        Wake::new(move || hints.note(effects))
    }
}

#[async_trait]
impl TransactionalStore for PostgresStore {
    type Transaction<'t> = Transaction<'t, Postgres>;

    fn transactions_max(&self) -> usize {
        self.reserve.transactions_max(&self.pool)
    }

    async fn begin_transaction(&self) -> Result<Transaction<'static, Postgres>, Error> {
        self.check_items(0)?;
        self.availability.guard(async { self.pool.begin().await.map_err(fault::told) }).await
    }

    async fn commit(&self, transaction: Transaction<'static, Postgres>) -> Result<(), Error> {
        self.availability.guard(async { transaction.commit().await.map_err(fault::told) }).await
    }

    async fn accept_in<'t>(
        &self,
        transaction: &mut Transaction<'t, Postgres>,
        messages: &[NewMessage],
    ) -> Result<(Vec<Accepted>, Wake), Error> {
        self.check_items(messages.len())?;
        if messages.is_empty() {
            return Ok((Vec::new(), Wake::default()));
        }
        let mut effects = Effects::default();
        let call = self.take_in(transaction, &self.sql.accept_patiently, messages, &mut effects);
        let accepted = self.availability.guard(call).await?;
        Ok((accepted, self.wake(effects)))
    }

    async fn settle_in<'t>(
        &self,
        transaction: &mut Transaction<'t, Postgres>,
        settlements: &[Settlement],
    ) -> Result<(Vec<Settled>, Wake), Error> {
        self.check_items(settlements.len())?;
        if settlements.is_empty() {
            return Ok((Vec::new(), Wake::default()));
        }
        let mut effects = Effects::default();
        let settled = self.availability.guard(self.settle(transaction, settlements, &mut effects)).await?;
        Ok((settled, self.wake(effects)))
    }

    async fn record_in<'t>(
        &self,
        transaction: &mut Transaction<'t, Postgres>,
        key: &Key,
        hold: Hold,
    ) -> Result<Recorded, Error> {
        self.check_items(1)?;
        let targets = Targets::of_keys([key]);
        let order = Order { target: Ref::Key(key.clone()), action: Action::MarkProcessed { hold } };
        let operate = |machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>| machine.operate(turn, &order);
        let slow = self.slow(self.wait);
        match self.availability.guard(slow.decide(transaction, &targets, operate)).await?.0 {
            Operated::Changed(receipt) => Ok(Recorded::First(receipt)),
            Operated::Unchanged(receipt) => Ok(Recorded::Duplicate(receipt)),
            _ => Err(Error::new(Kind::Unavailable, "the key could not be recorded: try again")),
        }
    }
}
