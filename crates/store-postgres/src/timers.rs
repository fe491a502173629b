//! Runs due timers, one bounded step per transaction.

use oncebox_core::Error;
use sqlx::PgConnection;

use crate::hints::Effects;
use crate::row_transaction::{Failure, LockedRows};
use crate::slow::STEP_ITEMS_MAX;
use crate::store::PostgresStore;

/// Maximum number of messages whose timers run in one transaction.
#[expect(clippy::cast_possible_truncation, reason = "a thousand")]
pub(crate) const TIMER_STEP_MAX: u32 = STEP_ITEMS_MAX as u32;

impl PostgresStore {
    /// Runs the timers of some messages; returns how many. On a conflict, leaves them to the other process.
    pub(crate) async fn run_timers(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: LockedRows,
    ) -> Result<usize, Error> {
        match self.slow_path(self.lock_wait).run_timers(connection, items_max, locked).await {
            Ok((count, events)) => {
                let mut effects = Effects::default();
                effects.add(events);
                self.hints.apply(effects);
                Ok(count)
            }
            Err(Failure::Conflict | Failure::LockTimeout) => Ok(0),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Runs due timers before a read that depends on them.
    pub(crate) async fn catch_up(&self, connection: &mut PgConnection) -> Result<(), Error> {
        self.run_timers(connection, TIMER_STEP_MAX, LockedRows::Skip).await.map(drop)
    }
}
