//! Claims that statements serve together: from lanes in turn, until they are full or nothing is left.

use oncebox_core::{Claim, Delivery, Error, Topic};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::codes::namespace;
use crate::fault;
use crate::lanes::{LANES_MAX, Lane, columns};
use crate::locked::Locked;
use crate::round::{Round, Wishes};
use crate::rows::Cells;
use crate::settle::Settling;
use crate::store::PostgresStore;
use crate::upkeep::TICK_ITEMS;

/// How often a claim lets time happen before it takes what there is: somebody else may be at it.
const TICKS_MAX: u32 = 3;
/// How often a claim looks again because others were faster.
const COLLISIONS_MAX: u32 = 16;

/// What a search found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Lanes that may have something.
    Lanes,
    /// No lanes, but one of the claims came before.
    Repeated,
    Nothing,
}

impl PostgresStore {
    /// Serves claims until they are full or nothing is left.
    pub(crate) async fn serve(
        &self,
        connection: &mut PgConnection,
        mut wishes: Wishes<'_>,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let Some(first) = wishes.0.first().map(|wish| wish.claim) else { return Ok(()) };
        let served: Vec<usize> = wishes.0.iter().map(|wish| wish.index).collect();
        let (mut ticks, mut collisions) = (0, 0);
        let (mut fully, mut searched, mut waited) = (false, false, false);
        while !wishes.0.is_empty() {
            let lanes = self.ears.lanes.in_turn(first.namespace, &first.topics);
            if lanes.is_empty() {
                self.ack(connection, settling).await?;
                match self.search(connection, &wishes, &mut ticks, &mut searched).await? {
                    Found::Nothing => break,
                    Found::Lanes => continue,
                    // It is told what it got, whatever there is now.
                    Found::Repeated => {}
                }
            }
            let acks = settling.uids.len();
            let mut round =
                self.round(connection, settling, &wishes, &lanes, ticks < TICKS_MAX, fully).await?;
            self.settle_rest(connection, settling, &round.acked).await?;
            if round.acked.len() < acks {
                continue;
            }
            if round.pending {
                self.let_time_happen(connection, &mut ticks).await?;
                continue;
            }
            let progress = !round.taken.is_empty();
            self.hand_out(connection, &mut round, &mut wishes, deliveries).await?;
            if wishes.0.is_empty() {
                break;
            }
            if !round.repeated.is_empty() || progress && round.turns >= round.quota {
                continue;
            }
            // Others took all of it between our look and our grasp: look again.
            if !progress && round.turns > 0 && collisions < COLLISIONS_MAX {
                collisions += 1;
                continue;
            }
            if round.partly {
                fully = true;
                continue;
            }
            if !progress && !waited {
                waited = true;
                if self.wait_for_missed(connection, first, &lanes).await? {
                    continue;
                }
            }
            // These lanes have nothing more for now. Others may.
            self.ears.lanes.remove(first.namespace, &lanes);
            if self.search(connection, &wishes, &mut ticks, &mut searched).await? == Found::Nothing {
                break;
            }
        }
        for index in served {
            deliveries[index].sort_by_key(|delivery| delivery.lease.fence);
        }
        Ok(())
    }

    /// Gives claims what they got; those that want nothing more are left out from then on.
    async fn hand_out(
        &self,
        connection: &mut PgConnection,
        round: &mut Round,
        wishes: &mut Wishes<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        for place in round.repeated.iter().chain(&round.met).copied() {
            let wish = &mut wishes.0[place];
            let again = self.replay(connection, wish.claim).await?;
            // What it met may have been somebody else.
            if again.is_some() || round.repeated.contains(&place) {
                wish.open = 0;
                deliveries[wish.index] = again.unwrap_or_default();
            }
        }
        for (place, delivery) in round.taken.drain(..) {
            let wish = &mut wishes.0[place];
            // What a repeated claim has got is all there already.
            if wish.open > 0 {
                wish.open -= 1;
                wish.had += 1;
                deliveries[wish.index].push(delivery);
            }
        }
        wishes.0.retain(|wish| wish.open > 0);
        Ok(())
    }

    /// If something could be claimed that somebody has locked, waits for it, but not for long. Answers whether there was something.
    async fn wait_for_missed(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        lanes: &[Lane],
    ) -> Result<bool, Error> {
        let (topics, shards) = columns(lanes);
        let missed = self.sql.missed.query().bind(self.time()).bind(namespace(claim.namespace)).bind(topics);
        let missed = missed.bind(shards).fetch_all(&mut *connection).await.map_err(fault::told)?;
        let Some(row) = missed.first() else { return Ok(false) };
        let uid: Uuid = Cells::new(row).next()?;
        // It is free now, or was taken, or somebody has it for longer than is worth waiting for.
        let _ = self.sql.wait.query().bind(uid).execute(&mut *connection).await;
        Ok(true)
    }

    /// Lets time happen before a claim goes on. Somebody else may be at it: then that is waited for, but not for long.
    async fn let_time_happen(&self, connection: &mut PgConnection, ticks: &mut u32) -> Result<(), Error> {
        *ticks += 1;
        if self.tick(connection, TICK_ITEMS, Locked::PassOver).await? == 0
            && self.tick(connection, TICK_ITEMS, Locked::WaitFor).await? == 0
        {
            *ticks = TICKS_MAX;
        }
        Ok(())
    }

    /// Looks for lanes that have something, once per claim.
    pub(crate) async fn search(
        &self,
        connection: &mut PgConnection,
        wishes: &Wishes<'_>,
        ticks: &mut u32,
        searched: &mut bool,
    ) -> Result<Found, Error> {
        let Some(claim) = wishes.0.first().map(|wish| wish.claim) else { return Ok(Found::Nothing) };
        let known = !self.ears.lanes.in_turn(claim.namespace, &claim.topics).is_empty();
        if *searched {
            return Ok(if known { Found::Lanes } else { Found::Nothing });
        }
        loop {
            let (pending, repeated, lanes) = self.find_lanes(connection, wishes, claim).await?;
            if pending && *ticks < TICKS_MAX {
                self.let_time_happen(connection, ticks).await?;
                continue;
            }
            *searched = true;
            let found = !lanes.is_empty();
            self.ears.lanes.add(claim.namespace, lanes);
            return Ok(match found || known {
                true => Found::Lanes,
                false if repeated => Found::Repeated,
                false => Found::Nothing,
            });
        }
    }

    async fn find_lanes(
        &self,
        connection: &mut PgConnection,
        wishes: &Wishes<'_>,
        claim: &Claim,
    ) -> Result<(bool, bool, Vec<Lane>), Error> {
        let most = i64::try_from(LANES_MAX).unwrap_or(i64::MAX) * 4;
        let query = match claim.topics.named() {
            Some(topics) => {
                let names: Vec<String> = topics.iter().map(|topic| topic.as_str().to_owned()).collect();
                self.sql.lanes_of.query().bind(self.time()).bind(namespace(claim.namespace)).bind(names)
            }
            None => {
                self.sql.lanes.query().bind(self.time()).bind(namespace(claim.namespace)).bind("").bind(-1)
            }
        };
        let query = query.bind(most).bind(wishes.owners()).bind(wishes.requests());
        let rows = query.fetch_all(&mut *connection).await.map_err(fault::told)?;
        let (mut pending, mut repeated) = (false, false);
        let mut lanes = Vec::new();
        for row in rows {
            let mut cells = Cells::new(&row);
            (pending, repeated) = (cells.next()?, cells.next()?);
            let (topic, shard): (Option<String>, Option<i32>) = (cells.next()?, cells.next()?);
            if let (Some(topic), Some(shard)) = (topic, shard) {
                lanes.push((Topic::new(topic)?, shard));
            }
        }
        Ok((pending, repeated, lanes))
    }
}
