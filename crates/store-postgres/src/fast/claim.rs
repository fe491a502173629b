//! Claims: takes messages from lanes in turn until the claims are full or nothing is left.
//!
//! A claim runs in stages. It first scans the lanes that are next in this process's queue, each from where the last
//! scan ended. If the claim still has too few messages, it searches all lanes for claimable messages and scans the
//! lanes that it finds from the beginning. So what a process knows determines how many statements a claim takes,
//! never which messages it gets.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use oncebox_core::{Delivery, Error, Namespace, Topics};
use oncebox_store_rows::LockedRows;
use oncebox_system::uptime;
use sqlx::PgConnection;
use uuid::Uuid;

use super::pending::PendingSettlements;
use super::search::Search;
use super::work_statement::{LaneSelection, Requests, Timers, WorkResult};
use crate::codes::namespace;
use crate::db_error;
use crate::hints::{Lane, Plan, ScanFrom, columns};
use crate::rows::Cells;
use crate::slow::TIMER_STEP_MAX;
use crate::store::PostgresStore;

/// Lanes that one statement scans: as many as messages are wanted, within these limits.
const LANES_MIN: usize = 4;
const LANES_MAX: usize = 64;
/// How often a claim runs due timers before it claims anyway: another process may be running them.
const TIMER_RUNS_MAX: u32 = 3;
/// How often a claim is retried because other processes were faster.
const CONFLICTS_MAX: u32 = 16;

/// The next stage of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// Scan the lanes that are next in the queue.
    Queued,
    /// Search all lanes for claimable messages: the queued lanes have no more.
    Search,
    /// Scan these lanes from their beginnings.
    Found(Vec<Lane>),
    /// A claimable message in these lanes is locked, and the claim has received nothing yet: wait for the lock.
    Wait(Vec<Lane>),
    Done,
}

/// The result of one statement, as far as it decides the next stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    /// Some messages were claimed, but fewer than wanted.
    Claimed,
    /// Other processes leased all of the messages found.
    Lost,
    Empty,
}

/// The progress of a claim through its stages, which decides the next stage.
#[derive(Debug, Default)]
struct Progress {
    timer_runs: u32,
    conflicts: u32,
    /// The claim has received a message.
    has_claimed: bool,
    waited: bool,
    /// Lanes that had fewer messages than the claim wanted: this claim does not scan them again.
    drained: HashSet<Lane>,
    /// Lanes whose next message has too many bytes for this claim.
    unfit: HashSet<Lane>,
}

impl Progress {
    /// The stage after a scan of the lanes of a stage.
    fn after(&mut self, stage: Stage, outcome: StepOutcome) -> Stage {
        self.has_claimed |= outcome == StepOutcome::Claimed;
        if outcome == StepOutcome::Lost {
            self.conflicts += 1;
            if self.conflicts > CONFLICTS_MAX {
                return Stage::Done;
            }
        }
        match (stage, outcome) {
            (Stage::Queued, _) => Stage::Queued,
            (Stage::Found(_), StepOutcome::Claimed | StepOutcome::Lost) => Stage::Search,
            (Stage::Found(lanes), StepOutcome::Empty) if !self.has_claimed && !self.waited => {
                self.waited = true;
                Stage::Wait(lanes)
            }
            _ => Stage::Done,
        }
    }

    /// The stage after a search.
    fn found(&self, lanes: Vec<Lane>) -> Stage {
        let lanes: Vec<_> = lanes.into_iter().filter(|lane| !self.unfit.contains(lane)).collect();
        if lanes.is_empty() { Stage::Done } else { Stage::Found(lanes) }
    }

    fn timers(&self) -> Timers {
        if self.timer_runs < TIMER_RUNS_MAX { Timers::Check } else { Timers::Ignore }
    }
}

/// Claims of the same topics that are served together.
struct ClaimGroup<'a, 'c> {
    namespace: Namespace,
    topics: &'c Topics,
    requests: Requests<'a>,
    progress: Progress,
}

impl PostgresStore {
    /// Serves claims until they are full or nothing is left.
    pub(super) async fn serve(
        &self,
        connection: &mut PgConnection,
        requests: Requests<'_>,
        pending: &mut PendingSettlements<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let Some(first) = requests.0.first().map(|request| request.claim) else { return Ok(()) };
        let indexes: Vec<usize> = requests.0.iter().map(|request| request.index).collect();
        let (namespace, topics) = (first.namespace, &first.topics);
        let mut group = ClaimGroup { namespace, topics, requests, progress: Progress::default() };
        self.scan_if_due(connection, namespace, topics).await?;
        let mut stage = Stage::Queued;
        while stage != Stage::Done && !group.requests.0.is_empty() {
            stage = self.step(connection, &mut group, stage, pending, deliveries).await?;
        }
        for index in indexes {
            deliveries[index].sort_by_key(|delivery| delivery.lease.fence);
        }
        Ok(())
    }

    /// Runs one stage and returns the next one.
    async fn step(
        &self,
        connection: &mut PgConnection,
        group: &mut ClaimGroup<'_, '_>,
        stage: Stage,
        pending: &mut PendingSettlements<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<Stage, Error> {
        match stage {
            Stage::Queued => {
                let lanes = self.next_lanes(group);
                if lanes.is_empty() {
                    return Ok(Stage::Search);
                }
                let selection = LaneSelection { names: &lanes, from: ScanFrom::Position };
                self.claim_from(connection, group, stage, selection, pending, deliveries).await
            }
            Stage::Search => {
                self.ack(connection, pending).await?;
                let found = self.search(connection, &group.requests, group.namespace, group.topics);
                let Search { timers_due, repeated, mut lanes } = found.await?;
                if timers_due && group.progress.timer_runs < TIMER_RUNS_MAX {
                    self.run_due_timers(connection, &mut group.progress.timer_runs).await?;
                    return Ok(Stage::Search);
                }
                if repeated && lanes.is_empty() {
                    // A repeated claim returns its earlier deliveries, whatever is claimable now.
                    let none = Stage::Found(Vec::new());
                    group.progress.waited = true;
                    return self
                        .claim_from(connection, group, none, LaneSelection::NONE, pending, deliveries)
                        .await;
                }
                if !lanes.is_empty() {
                    let first = self.hints.searches.fetch_add(1, Ordering::Relaxed) % lanes.len();
                    lanes.rotate_left(first);
                }
                self.hints.lanes.offer(group.namespace, group.topics, &lanes);
                Ok(group.progress.found(lanes))
            }
            Stage::Found(ref lanes) => {
                let lanes = lanes.clone();
                let selection = LaneSelection { names: &lanes, from: ScanFrom::Beginning };
                self.claim_from(connection, group, stage, selection, pending, deliveries).await
            }
            Stage::Wait(lanes) => {
                self.wait_for_locked(connection, group.namespace, &lanes).await?;
                Ok(Stage::Search)
            }
            Stage::Done => Ok(Stage::Done),
        }
    }

    fn next_lanes(&self, group: &ClaimGroup<'_, '_>) -> Vec<Lane> {
        let wanted = usize::try_from(group.requests.wanted()).unwrap_or(LANES_MAX);
        let lanes_max = wanted.clamp(LANES_MIN, LANES_MAX);
        let except: HashSet<Lane> = group.progress.drained.union(&group.progress.unfit).cloned().collect();
        self.hints.lanes.next_lanes(group.namespace, group.topics, lanes_max, wanted.min(lanes_max), &except)
    }

    /// Claims from lanes, distributes the deliveries, and returns the next stage.
    async fn claim_from(
        &self,
        connection: &mut PgConnection,
        group: &mut ClaimGroup<'_, '_>,
        stage: Stage,
        lanes: LaneSelection<'_>,
        pending: &mut PendingSettlements<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<Stage, Error> {
        let (names, acks) = (lanes.names, pending.uids.len());
        let timers = group.progress.timers();
        let mut result = self.run_work(connection, pending, &group.requests, lanes, timers).await?;
        self.settle_rest(connection, pending, &result.acked).await?;
        if result.acked.len() < acks {
            return Ok(stage);
        }
        if result.timers_due {
            self.run_due_timers(connection, &mut group.progress.timer_runs).await?;
            return Ok(stage);
        }
        if !result.repeated.is_empty() {
            self.distribute(connection, &mut result, &mut group.requests, deliveries).await?;
            return Ok(stage);
        }
        let outcome = match (result.deliveries.is_empty(), result.found.iter().any(|count| *count > 0)) {
            (false, _) => StepOutcome::Claimed,
            (true, true) => StepOutcome::Lost,
            (true, false) => StepOutcome::Empty,
        };
        self.distribute(connection, &mut result, &mut group.requests, deliveries).await?;
        if !group.requests.0.is_empty() {
            let drained: Vec<&Lane> = result.drained().map(|index| &names[index]).collect();
            group.progress.unfit.extend(result.unfit.iter().map(|index| names[*index].clone()));
            self.hints.lanes.remove_drained(group.namespace, group.topics, drained.iter().copied());
            group.progress.drained.extend(drained.into_iter().cloned());
        }
        Ok(group.progress.after(stage, outcome))
    }

    /// Distributes deliveries to their claims and removes claims that are complete.
    async fn distribute(
        &self,
        connection: &mut PgConnection,
        result: &mut WorkResult,
        requests: &mut Requests<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        for index in result.repeated.iter().chain(&result.conflicted).copied() {
            let request = &mut requests.0[index];
            let previous = self.replay(connection, request.claim).await?;
            // The conflicting lease may belong to another claim.
            if previous.is_some() || result.repeated.contains(&index) {
                request.remaining = 0;
                deliveries[request.index] = previous.unwrap_or_default();
            }
        }
        for (index, delivery) in result.deliveries.drain(..) {
            let request = &mut requests.0[index];
            // The replay of a repeated claim is already complete.
            if request.remaining > 0 {
                request.remaining -= 1;
                request.received += 1;
                let bytes = delivery.content.payload.len() as u64;
                request.bytes_left = request.bytes_left.map(|left| left.saturating_sub(bytes));
                deliveries[request.index].push(delivery);
            }
        }
        requests.0.retain(|request| request.remaining > 0);
        Ok(())
    }

    /// Scans for lanes that this process does not know, if a scan is due: another process may have added messages to
    /// them.
    async fn scan_if_due(
        &self,
        connection: &mut PgConnection,
        namespace: Namespace,
        topics: &Topics,
    ) -> Result<(), Error> {
        let started = uptime();
        let Plan::Scan(below) = self.hints.lanes.plan(namespace, topics, started) else { return Ok(()) };
        let batch = self.scan(connection, namespace, topics, below.as_ref()).await?;
        self.hints.lanes.scanned(namespace, topics, &batch, started, uptime());
        Ok(())
    }

    /// Waits at most 50 ms for a claimable message that another transaction has locked, if there is one.
    async fn wait_for_locked(
        &self,
        connection: &mut PgConnection,
        in_namespace: Namespace,
        lanes: &[Lane],
    ) -> Result<(), Error> {
        let (topics, shards) = columns(lanes);
        let candidate =
            self.sql.locked_candidate.query().bind(self.time()).bind(namespace(in_namespace)).bind(topics);
        let candidate =
            candidate.bind(shards).fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
        if let Some(row) = candidate.first() {
            let uid: Uuid = Cells::new(row).next()?;
            // The message is free now, was claimed, or stays locked for longer than the claim waits.
            let _ = self.sql.wait_for_message.query().bind(uid).execute(&mut *connection).await;
        }
        Ok(())
    }

    /// Runs due timers before a claim continues. If another process is running them, waits for it for at most 50 ms.
    async fn run_due_timers(&self, connection: &mut PgConnection, timer_runs: &mut u32) -> Result<(), Error> {
        *timer_runs += 1;
        if self.run_timers(connection, TIMER_STEP_MAX, LockedRows::Skip).await? == 0
            && self.run_timers(connection, TIMER_STEP_MAX, LockedRows::Wait).await? == 0
        {
            *timer_runs = TIMER_RUNS_MAX;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
