//! Decides the items of a call on the slow path.

use oncebox_core::Error;
use oncebox_core::machine::{CallContext, Machine};
use sqlx::PgConnection;

use crate::hints::Effects;
use crate::row_transaction::{LockWait, Targets};
use crate::slow::{Body, STEP_ITEMS_MAX};
use crate::store::PostgresStore;

impl PostgresStore {
    /// Decides each item of a call on the slow path, in order and in bounded steps.
    pub(crate) async fn decide_each<I, T>(
        &self,
        connection: &mut PgConnection,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
        mut each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
        effects: &mut Effects,
    ) -> Result<Vec<T>, Error> {
        self.refresh_keys(connection).await?;
        let mut outcomes = Vec::with_capacity(items.len());
        for step in items.chunks(STEP_ITEMS_MAX) {
            let mut targets = Targets::default();
            for item in step {
                target(&mut targets, item);
            }
            if targets.lane_max.is_some() {
                // Expired messages do not count towards the lane's limit.
                self.catch_up(connection).await?;
            }
            // Once part of the call has been committed, the call must run to completion.
            let lock_wait = if outcomes.is_empty() { self.lock_wait } else { LockWait::Block };
            let decide = |machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>| {
                step.iter().map(|item| each(machine, context, item)).collect::<Vec<_>>()
            };
            let (answers, events) = self.slow_path(lock_wait).decide(connection, &targets, decide).await?;
            effects.add(events);
            outcomes.extend(answers);
        }
        Ok(outcomes)
    }

    /// Like `decide_each`, on a connection of its own.
    pub(crate) async fn decide<I, T>(
        &self,
        items: &[I],
        target: impl Fn(&mut Targets, &I),
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
}
