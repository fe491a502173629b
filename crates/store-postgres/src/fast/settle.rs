//! Settling: acknowledgements with the statement that claims, everything else on the slow path.

use std::collections::HashSet;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{Claim, Delivery, Error, Settled, Settlement, Verdict, Worked};
use sqlx::PgConnection;
use uuid::Uuid;

use super::claim::group_len;
use super::work_statement::{LaneSelection, Requests, Timers};
use crate::codes::bigint;
use crate::hints::Effects;
use crate::row_transaction::Targets;
use crate::slow::Body;
use crate::store::PostgresStore;

/// Settlements of a call that are not finished: acknowledgements go with the next statement, and those that it could
/// not apply take the slow path.
pub(crate) struct PendingSettlements<'a> {
    settlements: &'a [Settlement],
    outcomes: Vec<Option<Settled>>,
    pub(crate) uids: Vec<Uuid>,
    pub(crate) owners: Vec<Uuid>,
    pub(crate) fences: Vec<i64>,
}

impl PostgresStore {
    pub(crate) async fn settle_and_claim(
        &self,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let connection = self.reserve.for_work(&self.pool).await?;
        let mut connection = self.availability.track(connection);
        let worked = self.settle_and_claim_on(&mut connection, settlements, claims).await;
        Self::release(connection, worked)
    }

    async fn settle_and_claim_on(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let mut deliveries: Vec<Vec<Delivery>> = claims.iter().map(|_| Vec::new()).collect();
        let mut pending = PendingSettlements::new(settlements);
        if pending.uids.is_empty() {
            self.settle_rest(connection, &mut pending, &HashSet::new()).await?;
        }
        let mut index = 0;
        while index < claims.len() {
            let group = group_len(&claims[index..]);
            if group == 0 {
                let claim = &claims[index];
                self.claim_bounded(connection, index, claim, &mut pending, &mut deliveries).await?;
                index += 1;
                continue;
            }
            let requests = Requests::new(index, &claims[index..index + group]);
            self.serve(connection, requests, &mut pending, &mut deliveries).await?;
            index += group;
        }
        self.ack(connection, &mut pending).await?;
        let settled = pending.outcomes.into_iter().map(|outcome| outcome.expect("all are settled"));
        Ok(Worked { settled: settled.collect(), deliveries })
    }

    /// Acknowledges what was not acknowledged together with a claim.
    pub(crate) async fn ack(
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
    pub(crate) async fn settle_rest(
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
        let target = |targets: &mut Targets, settlement: &Settlement| targets.add_uid(settlement.uid);
        let settle = |machine: &mut Machine<Body>,
                      context: &mut CallContext<'_, Body>,
                      settlement: &Settlement| { machine.settle(context, settlement) };
        self.decide_each(connection, settlements, target, settle, effects).await
    }
}

impl<'a> PendingSettlements<'a> {
    /// Only acknowledgements of distinct messages go with a statement; any other settlement sends all of them to the
    /// slow path.
    pub(crate) fn new(settlements: &'a [Settlement]) -> Self {
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

    /// Records what was acknowledged; returns the indexes of the settlements that are left.
    fn record_acks(&mut self, acked: &HashSet<Uuid>) -> Vec<usize> {
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
