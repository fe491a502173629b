//! Settles and claims: the whole call, on one connection. Acknowledgements go with the statement that claims, all other
//! settlements take the slow path.

use std::collections::HashSet;

use oncebox_core::machine::Machine;
use oncebox_core::{Claim, Delivery, Error, Settled, Settlement, Worked};
use sqlx::PgConnection;
use uuid::Uuid;

use super::pending::PendingSettlements;
use super::work_statement::{LaneSelection, Requests, Timers};
use crate::codes::namespace;
use crate::db_error;
use crate::hints::Effects;
use crate::rows::Cells;
use crate::store::PostgresStore;

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

    /// Serves a claim with a limit on bytes or on messages in flight.
    async fn claim_bounded(
        &self,
        connection: &mut PgConnection,
        index: usize,
        claim: &Claim,
        pending: &mut PendingSettlements<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let mut requests = Requests::new(index, std::slice::from_ref(claim));
        if let Some(max) = claim.in_flight_max {
            // Deliveries that this call acknowledges are no longer in flight, and a repeated claim returns its
            // earlier deliveries.
            self.ack(connection, pending).await?;
            if let Some(previous) = self.replay(connection, claim).await? {
                deliveries[index] = previous;
                return Ok(());
            }
            let left = self.in_flight_left(connection, claim, max).await?;
            if left == 0 {
                return Ok(());
            }
            for request in &mut requests.0 {
                request.remaining = request.remaining.min(left);
            }
        }
        self.serve(connection, requests, pending, deliveries).await
    }

    /// How many more messages of the claim's namespace may be in flight.
    async fn in_flight_left(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        max: u64,
    ) -> Result<u32, Error> {
        let counted = self
            .sql
            .in_flight
            .query()
            .bind(self.time())
            .bind(namespace(claim.namespace))
            .bind(i64::try_from(max).unwrap_or(i64::MAX))
            .fetch_one(&mut *connection);
        let row = counted.await.map_err(db_error::into_error)?;
        let mut cells = Cells::new(&row);
        cells.check_writable()?;
        let counted: i64 = cells.next()?;
        let left = max.saturating_sub(u64::try_from(counted).unwrap_or_default());
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }

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

/// How many claims at the head of the list one statement can serve: they have the same topics and no limits of their
/// own. A claim with limits is served alone. A repeated request waits for the first one, because it returns the same
/// deliveries.
fn group_len(claims: &[Claim]) -> usize {
    let first = &claims[0];
    let mut requests = HashSet::new();
    let is_unlimited = |claim: &Claim| claim.bytes_max.is_none() && claim.in_flight_max.is_none();
    let same_group = |claim: &&Claim| {
        is_unlimited(claim)
            && claim.namespace == first.namespace
            && claim.topics == first.topics
            && claim.request_identity().is_none_or(|request| requests.insert((claim.owner, request)))
    };
    claims.iter().take_while(same_group).count()
}
