//! Settling: acknowledgements with the statement that claims, everything else on the slow path.

use std::collections::HashSet;

use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{Claim, Delivery, Error, Settled, Settlement, Verdict, Worked};
use sqlx::PgConnection;
use uuid::Uuid;

use super::claim::served_together;
use super::look::{Lanes, Requests, Time};
use crate::codes::count;
use crate::hints::Effects;
use crate::locked::Targets;
use crate::slow::Body;
use crate::store::PostgresStore;

/// Settlements on their way: acknowledgements go with the next statement, and what that could not do takes the slow path.
pub(crate) struct Settling<'a> {
    settlements: &'a [Settlement],
    outcomes: Vec<Option<Settled>>,
    pub(crate) uids: Vec<Uuid>,
    pub(crate) owners: Vec<Uuid>,
    pub(crate) fences: Vec<i64>,
}

impl PostgresStore {
    pub(crate) async fn work_on(
        &self,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let connection = self.reserve.for_work(&self.pool).await?;
        let mut connection = self.availability.lend(connection);
        let worked = self.work_with(&mut connection, settlements, claims).await;
        Self::give_back(connection, worked)
    }

    async fn work_with(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let mut deliveries: Vec<Vec<Delivery>> = claims.iter().map(|_| Vec::new()).collect();
        let mut settling = Settling::new(settlements);
        if settling.uids.is_empty() {
            self.settle_rest(connection, &mut settling, &HashSet::new()).await?;
        }
        let mut place = 0;
        while place < claims.len() {
            let together = served_together(&claims[place..]);
            if together == 0 {
                let claim = &claims[place];
                self.claim_alone(connection, place, claim, &mut settling, &mut deliveries).await?;
                place += 1;
                continue;
            }
            let requests = Requests::new(place, &claims[place..place + together]);
            self.serve(connection, requests, &mut settling, &mut deliveries).await?;
            place += together;
        }
        self.ack(connection, &mut settling).await?;
        let settled = settling.outcomes.into_iter().map(|outcome| outcome.expect("all are settled"));
        Ok(Worked { settled: settled.collect(), deliveries })
    }

    /// Acknowledges what has not been acknowledged with a claim.
    pub(crate) async fn ack(
        &self,
        connection: &mut PgConnection,
        settling: &mut Settling<'_>,
    ) -> Result<(), Error> {
        if settling.uids.is_empty() {
            return Ok(());
        }
        let none = Requests::default();
        let look = self.look(connection, settling, &none, Lanes::NONE, Time::Ignore).await?;
        self.settle_rest(connection, settling, &look.acked).await
    }

    /// Notes what was acknowledged, and settles the rest on the slow path.
    pub(crate) async fn settle_rest(
        &self,
        connection: &mut PgConnection,
        settling: &mut Settling<'_>,
        acked: &HashSet<Uuid>,
    ) -> Result<(), Error> {
        let rest = settling.note(acked);
        if rest.is_empty() {
            return Ok(());
        }
        let doubtful: Vec<_> = rest.iter().map(|place| settling.settlements[*place].clone()).collect();
        let mut effects = Effects::default();
        let settled = self.settle(connection, &doubtful, &mut effects).await;
        self.hints.note(effects);
        for (place, outcome) in rest.into_iter().zip(settled?) {
            settling.outcomes[place] = Some(outcome);
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
        let settle = |machine: &mut Machine<Body>, turn: &mut Turn<'_, Body>, settlement: &Settlement| {
            machine.settle(turn, settlement)
        };
        self.decide_each(connection, settlements, target, settle, effects).await
    }
}

impl<'a> Settling<'a> {
    /// Only acknowledgements of different messages go with a statement; one that is something else sends all to the slow path.
    pub(crate) fn new(settlements: &'a [Settlement]) -> Self {
        let outcomes = vec![None; settlements.len()];
        let (uids, owners, fences) = (Vec::new(), Vec::new(), Vec::new());
        let mut settling = Self { settlements, outcomes, uids, owners, fences };
        let mut seen = HashSet::new();
        let plain = |item: &Settlement| item.verdict == Verdict::Ack && seen.insert(item.uid);
        if settlements.iter().all(plain) {
            // Two who acknowledge the same wait for each other in one order.
            let mut items: Vec<_> = settlements.iter().collect();
            items.sort_unstable_by_key(|item| item.uid);
            settling.uids = items.iter().map(|item| Uuid::from_u128(item.uid.as_u128())).collect();
            settling.owners = items.iter().map(|item| Uuid::from_u128(item.owner.as_u128())).collect();
            settling.fences = items.iter().map(|item| count(item.fence.get())).collect();
        }
        settling
    }

    /// Notes what was acknowledged; answers the places of those that still have to be settled.
    fn note(&mut self, acked: &HashSet<Uuid>) -> Vec<usize> {
        for (settlement, outcome) in self.settlements.iter().zip(&mut self.outcomes) {
            if acked.contains(&Uuid::from_u128(settlement.uid.as_u128())) {
                *outcome = Some(Settled::Done);
            }
        }
        self.uids.clear();
        self.owners.clear();
        self.fences.clear();
        (0..self.outcomes.len()).filter(|place| self.outcomes[*place].is_none()).collect()
    }
}
