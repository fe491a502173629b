//! Settling: acknowledgements with the statement that claims, everything else on the slow path.

use std::collections::HashSet;

use oncebox_core::machine::Machine;
use oncebox_core::{Error, Settled, Settlement, Verdict};
use sqlx::PgConnection;
use uuid::Uuid;

use super::work_statement::{LaneSelection, Requests, Timers};
use crate::codes::bigint;
use crate::hints::Effects;
use crate::query::Query;
use crate::store::PostgresStore;

/// Settlements of a call that are not finished: acknowledgements go with the next statement, and those that it could
/// not apply take the slow path.
pub(super) struct PendingSettlements<'a> {
    pub(super) settlements: &'a [Settlement],
    pub(super) outcomes: Vec<Option<Settled>>,
    pub(super) uids: Vec<Uuid>,
    owners: Vec<Uuid>,
    fences: Vec<i64>,
}

impl<'a> PendingSettlements<'a> {
    /// Only acknowledgements of distinct messages go with a statement; any other settlement sends all of them to the
    /// slow path.
    pub(super) fn new(settlements: &'a [Settlement]) -> Self {
        let outcomes = vec![None; settlements.len()];
        let (uids, owners, fences) = (Vec::new(), Vec::new(), Vec::new());
        let mut pending = Self { settlements, outcomes, uids, owners, fences };
        let mut seen = HashSet::new();
        let is_distinct_ack = |item: &Settlement| item.verdict == Verdict::Ack && seen.insert(item.uid);
        if settlements.iter().all(is_distinct_ack) {
            // Sorted, so that two calls that acknowledge the same messages do not deadlock.
            let mut items: Vec<_> = settlements.iter().collect();
            items.sort_unstable_by_key(|item| item.uid);
            pending.uids = items.iter().map(|item| Uuid::from_u128(item.uid.as_u128())).collect();
            pending.owners = items.iter().map(|item| Uuid::from_u128(item.owner.as_u128())).collect();
            pending.fences = items.iter().map(|item| bigint(item.fence.get())).collect();
        }
        pending
    }

    /// Binds the acknowledgements, as `work_1` takes them.
    pub(super) fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q> {
        query.bind(&self.uids).bind(&self.owners).bind(&self.fences)
    }

    /// Records what was acknowledged; returns the indexes of the settlements that are left.
    pub(super) fn record_acks(&mut self, acked: &HashSet<Uuid>) -> Vec<usize> {
        for (settlement, outcome) in self.settlements.iter().zip(&mut self.outcomes) {
            if acked.contains(&Uuid::from_u128(settlement.uid.as_u128())) {
                *outcome = Some(Settled::Done);
            }
        }
        self.uids.clear();
        self.owners.clear();
        self.fences.clear();
        (0..self.outcomes.len()).filter(|index| self.outcomes[*index].is_none()).collect()
    }
}

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
