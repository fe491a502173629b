//! The slow path: calls that the engine in `oncebox-store-rows` decides on the tables, and due timers.

use oncebox_core::Error;
use oncebox_core::machine::{CallContext, Machine};
use oncebox_store_rows::{Body, Call, LockWait, LockedRows, STEP_ITEMS_MAX, Targets};
use oncebox_system::SystemRng;
use sqlx::PgConnection;

use crate::hints::Effects;
use crate::row_transaction::TableRows;
use crate::store::PostgresStore;

/// Maximum number of messages whose timers run in one transaction.
#[expect(clippy::cast_possible_truncation, reason = "a thousand")]
pub(crate) const TIMER_STEP_MAX: u32 = STEP_ITEMS_MAX as u32;

impl PostgresStore {
    /// A call of the engine on this connection.
    fn slow_path<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        ids: &'a mut SystemRng,
        lock_wait: LockWait,
    ) -> Call<'a, TableRows<'a>> {
        Call::new(TableRows::new(self, connection), ids, lock_wait)
    }

    /// Decides on the messages that `targets` names, in one transaction.
    pub(crate) async fn decide_once<T>(
        &self,
        connection: &mut PgConnection,
        lock_wait: LockWait,
        targets: &Targets<'_>,
        decide: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
        effects: &mut Effects,
    ) -> Result<T, Error> {
        let mut ids = SystemRng::default();
        let mut call = self.slow_path(connection, &mut ids, lock_wait);
        let decided = call.decide(targets, decide).await;
        effects.extend(call.into_events());
        decided
    }

    /// Decides each item of a call, in order and in bounded steps.
    pub(crate) async fn decide_each<'i, I, T>(
        &self,
        connection: &mut PgConnection,
        items: &'i [I],
        target: impl Fn(&mut Targets<'i>, &'i I),
        each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
        effects: &mut Effects,
    ) -> Result<Vec<T>, Error> {
        self.refresh_keys(connection).await?;
        let mut ids = SystemRng::default();
        let mut call = self.slow_path(connection, &mut ids, self.lock_wait);
        let decided = call.decide_each(items, target, each).await;
        effects.extend(call.into_events());
        decided
    }

    /// Like `decide_each`, on a connection of its own.
    pub(crate) async fn decide<'i, I, T>(
        &self,
        items: &'i [I],
        target: impl Fn(&mut Targets<'i>, &'i I),
        each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
    ) -> Result<Vec<T>, Error> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let call = async {
            let mut connection = self.connection().await?;
            let mut effects = Effects::default();
            let decided = self.decide_each(&mut connection, items, target, each, &mut effects).await;
            self.hints.apply(effects);
            Self::release(connection, decided)
        };
        self.availability.guard(call).await
    }

    /// Runs the timers of at most `items_max` messages; returns how many there were. On a conflict, leaves them to the
    /// other process.
    pub(crate) async fn run_timers(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
        locked: LockedRows,
    ) -> Result<usize, Error> {
        let mut ids = SystemRng::default();
        let mut call = self.slow_path(connection, &mut ids, self.lock_wait);
        let count = call.run_timers(items_max, locked).await;
        self.apply(call);
        count
    }

    /// Runs timers in bounded steps, for at most `items_max` messages. Returns whether those were all.
    pub(crate) async fn run_all_timers(
        &self,
        connection: &mut PgConnection,
        items_max: u32,
    ) -> Result<bool, Error> {
        let mut ids = SystemRng::default();
        let mut call = self.slow_path(connection, &mut ids, self.lock_wait);
        let all = call.run_all_timers(items_max).await;
        self.apply(call);
        all
    }

    /// Runs due timers before a read that depends on them.
    pub(crate) async fn catch_up(&self, connection: &mut PgConnection) -> Result<(), Error> {
        self.run_timers(connection, TIMER_STEP_MAX, LockedRows::Skip).await.map(drop)
    }

    fn apply(&self, call: Call<'_, TableRows<'_>>) {
        let mut effects = Effects::default();
        effects.extend(call.into_events());
        self.hints.apply(effects);
    }
}
