//! Claims: from lanes in turn, until they are full or nothing is left.
//!
//! A claim goes through stages. It looks into the lanes whose turn it is, as far as this process knows them, each from where the last
//! look ended. A claim that is short then has all lanes searched for something claimable, and looks there from the beginning. So what
//! a process knows decides how many statements a claim takes, never what it gets.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use oncebox_core::{Claim, Delivery, Error, Namespace, Topics};
use oncebox_system::uptime;
use sqlx::PgConnection;
use uuid::Uuid;

use super::look::{Lanes, Look, Requests, Time, columns};
use super::search::Search;
use super::settle::Settling;
use crate::codes::namespace;
use crate::fault;
use crate::hints::{From, Lane, Plan};
use crate::locked::Locked;
use crate::rows::Cells;
use crate::store::PostgresStore;
use crate::upkeep::TICK_ITEMS;

/// Lanes that one statement looks into: as many as messages are asked for, but no fewer and no more than this.
const LANES_MIN: usize = 4;
const LANES_MAX: usize = 64;
/// How often a claim lets time happen before it takes what there is: another process may be at it.
const TICKS_MAX: u32 = 3;
/// How often a claim looks again because others were faster.
const COLLISIONS_MAX: u32 = 16;

/// What a claim does next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Looks into the lanes whose turn it is.
    Turns,
    /// Searches all lanes for something claimable: none of those in turn has more.
    Search,
    /// Looks into these lanes, from their beginnings.
    Rest(Vec<Lane>),
    /// Something claimable in these lanes is locked, and the claim has nothing yet: waits for it.
    Wait(Vec<Lane>),
    Done,
}

/// What became of one look, as far as it decides what is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It brought something, but not all that is asked for.
    Some,
    /// Others took all of it between our look and our grasp.
    Lost,
    Nothing,
}

/// A claim's way through its stages: what it has met, which decides what is next.
#[derive(Debug, Default)]
struct Course {
    ticks: u32,
    collisions: u32,
    /// It has got something.
    got: bool,
    waited: bool,
    /// Lanes that gave all they had, as far as they were read: they have no further turn in this claim.
    drained: HashSet<Lane>,
    /// Lanes whose next message has too many bytes for this claim.
    unfit: HashSet<Lane>,
}

impl Course {
    /// What comes after a look into the lanes of a stage.
    fn after(&mut self, stage: Stage, outcome: Outcome) -> Stage {
        self.got |= outcome == Outcome::Some;
        if outcome == Outcome::Lost {
            self.collisions += 1;
            if self.collisions > COLLISIONS_MAX {
                return Stage::Done;
            }
        }
        match (stage, outcome) {
            (Stage::Turns, _) => Stage::Turns,
            (Stage::Rest(_), Outcome::Some | Outcome::Lost) => Stage::Search,
            (Stage::Rest(lanes), Outcome::Nothing) if !self.got && !self.waited => {
                self.waited = true;
                Stage::Wait(lanes)
            }
            _ => Stage::Done,
        }
    }

    /// What comes after a search.
    fn found(&self, lanes: Vec<Lane>) -> Stage {
        let lanes: Vec<_> = lanes.into_iter().filter(|lane| !self.unfit.contains(lane)).collect();
        if lanes.is_empty() { Stage::Done } else { Stage::Rest(lanes) }
    }

    fn time(&self) -> Time {
        if self.ticks < TICKS_MAX { Time::Check } else { Time::Ignore }
    }
}

/// Claims of the same topics that are served together.
struct Serving<'a, 'c> {
    namespace: Namespace,
    topics: &'c Topics,
    requests: Requests<'a>,
    course: Course,
}

impl PostgresStore {
    /// Serves claims until they are full or nothing is left.
    pub(crate) async fn serve(
        &self,
        connection: &mut PgConnection,
        requests: Requests<'_>,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let Some(first) = requests.0.first().map(|request| request.claim) else { return Ok(()) };
        let served: Vec<usize> = requests.0.iter().map(|request| request.index).collect();
        let (namespace, topics) = (first.namespace, &first.topics);
        let mut serving = Serving { namespace, topics, requests, course: Course::default() };
        self.scan_if_due(connection, namespace, topics).await?;
        let mut stage = Stage::Turns;
        while stage != Stage::Done && !serving.requests.0.is_empty() {
            stage = self.step(connection, &mut serving, stage, settling, deliveries).await?;
        }
        for index in served {
            deliveries[index].sort_by_key(|delivery| delivery.lease.fence);
        }
        Ok(())
    }

    /// Makes one stage, and tells the next.
    async fn step(
        &self,
        connection: &mut PgConnection,
        serving: &mut Serving<'_, '_>,
        stage: Stage,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<Stage, Error> {
        match stage {
            Stage::Turns => {
                let lanes = self.lanes_in_turn(serving);
                if lanes.is_empty() {
                    return Ok(Stage::Search);
                }
                let read = Lanes { names: &lanes, from: From::Position };
                self.look_into(connection, serving, stage, read, settling, deliveries).await
            }
            Stage::Search => {
                self.ack(connection, settling).await?;
                let found = self.search(connection, &serving.requests, serving.namespace, serving.topics);
                let Search { pending, repeated, mut lanes } = found.await?;
                if pending && serving.course.ticks < TICKS_MAX {
                    self.let_time_happen(connection, &mut serving.course.ticks).await?;
                    return Ok(Stage::Search);
                }
                if repeated && lanes.is_empty() {
                    // It is told what it got, whatever there is now.
                    let none = Stage::Rest(Vec::new());
                    serving.course.waited = true;
                    return self
                        .look_into(connection, serving, none, Lanes::NONE, settling, deliveries)
                        .await;
                }
                if !lanes.is_empty() {
                    let first = self.hints.searches.fetch_add(1, Ordering::Relaxed) % lanes.len();
                    lanes.rotate_left(first);
                }
                self.hints.lanes.offer(serving.namespace, serving.topics, &lanes);
                Ok(serving.course.found(lanes))
            }
            Stage::Rest(ref lanes) => {
                let lanes = lanes.clone();
                let read = Lanes { names: &lanes, from: From::Beginning };
                self.look_into(connection, serving, stage, read, settling, deliveries).await
            }
            Stage::Wait(lanes) => {
                self.wait_for_locked(connection, serving.namespace, &lanes).await?;
                Ok(Stage::Search)
            }
            Stage::Done => Ok(Stage::Done),
        }
    }

    fn lanes_in_turn(&self, serving: &Serving<'_, '_>) -> Vec<Lane> {
        let wanted = usize::try_from(serving.requests.wanted()).unwrap_or(LANES_MAX);
        let most = wanted.clamp(LANES_MIN, LANES_MAX);
        let except: HashSet<Lane> = serving.course.drained.union(&serving.course.unfit).cloned().collect();
        self.hints.lanes.take_turn(serving.namespace, serving.topics, most, wanted.min(most), &except)
    }

    /// Looks into lanes, hands out what they gave, and tells what is next.
    async fn look_into(
        &self,
        connection: &mut PgConnection,
        serving: &mut Serving<'_, '_>,
        stage: Stage,
        lanes: Lanes<'_>,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<Stage, Error> {
        let (names, acks) = (lanes.names, settling.uids.len());
        let time = serving.course.time();
        let mut look = self.look(connection, settling, &serving.requests, lanes, time).await?;
        self.settle_rest(connection, settling, &look.acked).await?;
        if look.acked.len() < acks {
            return Ok(stage);
        }
        if look.pending {
            self.let_time_happen(connection, &mut serving.course.ticks).await?;
            return Ok(stage);
        }
        if !look.repeated.is_empty() {
            self.hand_out(connection, &mut look, &mut serving.requests, deliveries).await?;
            return Ok(stage);
        }
        let outcome = match (look.taken.is_empty(), look.given.iter().any(|given| *given > 0)) {
            (false, _) => Outcome::Some,
            (true, true) => Outcome::Lost,
            (true, false) => Outcome::Nothing,
        };
        self.hand_out(connection, &mut look, &mut serving.requests, deliveries).await?;
        if !serving.requests.0.is_empty() {
            let drained: Vec<&Lane> = look.drained().map(|place| &names[place]).collect();
            serving.course.unfit.extend(look.unfit.iter().map(|place| names[*place].clone()));
            self.hints.lanes.drained(serving.namespace, serving.topics, drained.iter().copied());
            serving.course.drained.extend(drained.into_iter().cloned());
        }
        Ok(serving.course.after(stage, outcome))
    }

    /// Gives claims what they got; those that ask for nothing more are left out from then on.
    async fn hand_out(
        &self,
        connection: &mut PgConnection,
        look: &mut Look,
        requests: &mut Requests<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        for place in look.repeated.iter().chain(&look.met).copied() {
            let request = &mut requests.0[place];
            let again = self.replay(connection, request.claim).await?;
            // What it met may have been another claim.
            if again.is_some() || look.repeated.contains(&place) {
                request.open = 0;
                deliveries[request.index] = again.unwrap_or_default();
            }
        }
        for (place, delivery) in look.taken.drain(..) {
            let request = &mut requests.0[place];
            // What a repeated claim has got is all there already.
            if request.open > 0 {
                request.open -= 1;
                request.had += 1;
                let bytes = delivery.content.payload.len() as u64;
                request.bytes = request.bytes.map(|left| left.saturating_sub(bytes));
                deliveries[request.index].push(delivery);
            }
        }
        requests.0.retain(|request| request.open > 0);
        Ok(())
    }

    /// Scans for lanes that this process does not know, if that is due: another process may have put something into them.
    async fn scan_if_due(
        &self,
        connection: &mut PgConnection,
        namespace: Namespace,
        topics: &Topics,
    ) -> Result<(), Error> {
        let began = uptime();
        let Plan::Scan(below) = self.hints.lanes.plan(namespace, topics, began) else { return Ok(()) };
        let piece = self.scan(connection, namespace, topics, below.as_ref()).await?;
        self.hints.lanes.scanned(namespace, topics, &piece, began, uptime());
        Ok(())
    }

    /// If something could be claimed that another transaction has locked, waits for it, but not for long.
    async fn wait_for_locked(
        &self,
        connection: &mut PgConnection,
        space: Namespace,
        lanes: &[Lane],
    ) -> Result<(), Error> {
        let (topics, shards) = columns(lanes);
        let missed = self.sql.missed.query().bind(self.time()).bind(namespace(space)).bind(topics);
        let missed = missed.bind(shards).fetch_all(&mut *connection).await.map_err(fault::told)?;
        if let Some(row) = missed.first() {
            let uid: Uuid = Cells::new(row).next()?;
            // It is free now, or was taken, or is held for longer than is worth waiting for.
            let _ = self.sql.wait.query().bind(uid).execute(&mut *connection).await;
        }
        Ok(())
    }

    /// Lets time happen before a claim goes on. Another process may be at it: then that is waited for, but not for long.
    async fn let_time_happen(&self, connection: &mut PgConnection, ticks: &mut u32) -> Result<(), Error> {
        *ticks += 1;
        if self.tick(connection, TICK_ITEMS, Locked::PassOver).await? == 0
            && self.tick(connection, TICK_ITEMS, Locked::WaitFor).await? == 0
        {
            *ticks = TICKS_MAX;
        }
        Ok(())
    }
}

/// How many claims at the head of the list one statement can serve: they have the same topics and no bounds of their own. A claim with
/// such bounds stands alone. A request that comes again is told what the first one got, so it waits for that.
pub(crate) fn served_together(claims: &[Claim]) -> usize {
    let first = &claims[0];
    let mut requests = HashSet::new();
    let is_plain = |claim: &Claim| claim.bytes_max.is_none() && claim.in_flight_max.is_none();
    let alike = |claim: &&Claim| {
        is_plain(claim)
            && claim.namespace == first.namespace
            && claim.topics == first.topics
            && claim.request_identity().is_none_or(|request| requests.insert((claim.owner, request)))
    };
    claims.iter().take_while(alike).count()
}

#[cfg(test)]
mod tests;
