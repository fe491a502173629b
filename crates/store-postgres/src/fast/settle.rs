//! Settling: acknowledgements with the statement that claims, everything else on the slow path.

use std::collections::HashSet;

use oncebox_core::machine::Machine;
use oncebox_core::{Error, Settled, Settlement};
use sqlx::PgConnection;
use uuid::Uuid;

use super::pending::PendingSettlements;
use super::work_statement::{LaneSelection, Requests, Timers};
use crate::hints::Effects;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Acknowledges what was not acknowledged together with a claim.
    pub(super) async fn ack(
        &self,
        connection: &mut PgConnection,
        pending: &mut PendingSettlements<'_>,
    ) -> Result<(), Error> {
        if pending.uids.is_empty() {
            return Ok(());
        }
        let none = Requests::default();
        let result = self.run_work(connection, pending, &none, LaneSelection::NONE, Timers::Ignore).await?;
        self.settle_rest(connection, pending, &result.acked).await
    }

    /// Records what was acknowledged, and settles the rest on the slow path.
    pub(super) async fn settle_rest(
        &self,
        connection: &mut PgConnection,
        pending: &mut PendingSettlements<'_>,
        acked: &HashSet<Uuid>,
    ) -> Result<(), Error> {
        let rest = pending.record_acks(acked);
        if rest.is_empty() {
            return Ok(());
        }
        let undecided: Vec<_> = rest.iter().map(|index| pending.settlements[*index].clone()).collect();
        let mut effects = Effects::default();
        let settled = self.settle(connection, &undecided, &mut effects).await;
        self.hints.apply(effects);
        for (index, outcome) in rest.into_iter().zip(settled?) {
            pending.outcomes[index] = Some(outcome);
        }
        Ok(())
    }

    /// Settles on the slow path, in order.
    pub(crate) async fn settle(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
        effects: &mut Effects,
    ) -> Result<Vec<Settled>, Error> {
        self.decide_each(
            connection,
            settlements,
            |targets, settlement| targets.add_uid(settlement.uid),
            Machine::settle,
            effects,
        )
        .await
    }
}
