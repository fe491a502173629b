//! The statement that acknowledges and claims: its parameters and its result.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use oncebox_core::{Claim, Delivery, Error, Lease, RequestId, WorkerName};
use oncebox_store_rows::StepFailure;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::pending::PendingSettlements;
use crate::codes::{ID_BLOCK_SIZE, bigint, corrupt_row, millis, namespace, timestamp};
use crate::db_error::step_failure;
use crate::hints::{Lane, NumberRange, ScanFrom, columns};
use crate::query::Query;
use crate::restart::ReorderLimits;
use crate::rows::{Cells, delivery, fence};
use crate::store::PostgresStore;

/// Timers of other processes may become visible later than their due time, so the timer check goes back by this many
/// milliseconds.
const TIMER_LAG_MS: i64 = 2_000;

/// The number of columns before those of a claimed message.
const HEADER_COLUMNS: usize = 7;

/// Claims that one statement serves, with the same namespace and topics. A claim with a limit on bytes is served
/// alone.
#[derive(Default)]
pub(crate) struct Requests<'a>(pub(crate) Vec<Request<'a>>);

pub(crate) struct Request<'a> {
    /// The claim's index in its call.
    pub(crate) index: usize,
    pub(crate) claim: &'a Claim,
    /// How many more messages the claim wants.
    pub(crate) remaining: u32,
    /// How many messages the claim has received.
    pub(crate) received: i64,
    /// How many more payload bytes the claim takes.
    pub(crate) bytes_left: Option<u64>,
}

/// The lanes to scan, and from where.
pub(crate) struct LaneSelection<'a> {
    pub(crate) names: &'a [Lane],
    pub(crate) from: ScanFrom,
}

impl LaneSelection<'_> {
    pub(crate) const NONE: Self = LaneSelection { names: &[], from: ScanFrom::Position };
}

/// The parameters of a lane scan.
#[derive(Clone, Copy)]
pub(super) struct LaneScan<'a> {
    pub(super) lanes: &'a [Lane],
    pub(super) floors: &'a [i64],
    pub(super) quota: i64,
    pub(super) limits: &'a ReorderLimits,
    pub(super) timers: Timers,
}

/// Whether the statement first checks for due timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timers {
    Check,
    Ignore,
}

/// Whether acknowledgements wait for messages that another transaction has locked, or skip them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockedAcks {
    Wait,
    Skip,
}

/// The result of one statement.
#[derive(Default)]
pub(crate) struct WorkResult {
    pub(crate) acked: HashSet<Uuid>,
    /// Timers are due, so nothing was claimed.
    pub(crate) timers_due: bool,
    /// Repeated claims that already have leases, so nothing was claimed.
    pub(crate) repeated: Vec<usize>,
    /// Claims that did not get all messages assigned to them, and may have conflicted with a concurrent attempt of
    /// themselves.
    pub(crate) conflicted: Vec<usize>,
    /// The maximum number of messages per lane.
    pub(crate) quota: i64,
    /// The number of messages found per lane, including those that another process leased first.
    pub(crate) found: Vec<i64>,
    /// Indexes of lanes whose next message this claim cannot have: it has too many bytes, or its lane is limited.
    pub(crate) unfit: Vec<usize>,
    pub(crate) deliveries: Vec<(usize, Delivery)>,
    pub(super) now: i64,
    /// Partitions became free.
    pub(super) partition_freed: bool,
    /// The range of numbers delivered from each lane.
    pub(super) ranges: HashMap<usize, NumberRange>,
}

impl PostgresStore {
    /// Sends the statement once. Its parameters are in groups, each bound next to where its arrays are made: the
    /// acknowledgements, the lanes, the claims, the timers. The function takes them one by one, as plain arrays: a
    /// composite type per group would be one more object to create, to grant and to keep at its version, and each item
    /// of its arrays would be encoded and decoded as a row.
    pub(super) async fn run_once(
        &self,
        connection: &mut PgConnection,
        pending: &PendingSettlements<'_>,
        requests: &Requests<'_>,
        scan: &LaneScan<'_>,
        locked_acks: LockedAcks,
    ) -> Result<WorkResult, StepFailure> {
        let columns = ClaimColumns::new(requests);
        let since = self.hints.timers_checked_until.load(Ordering::Relaxed).saturating_sub(TIMER_LAG_MS);
        let acks = pending.bind(self.sql.work.query().bind(self.time()));
        let lanes = scan.bind(requests, acks.bind(locked_acks == LockedAcks::Skip));
        let statement = columns.bind(lanes).bind(scan.timers == Timers::Check).bind(since);
        let rows = statement.fetch_all(&mut *connection);
        let rows = rows.await.map_err(step_failure)?;
        Ok(WorkResult::read(&rows, requests, scan.lanes.len(), &columns.starts, scan.quota)?)
    }
}

impl<'a> LaneScan<'a> {
    /// Binds what to claim from, as `work_1` takes it.
    fn bind<'q>(&self, requests: &Requests<'_>, query: Query<'q>) -> Query<'q>
    where
        'a: 'q,
    {
        let first = requests.0.first();
        let (topics, shards) = columns(self.lanes);
        let bytes = first.and_then(|request| request.bytes_left);
        query
            .bind(first.map_or(0, |request| namespace(request.claim.namespace)))
            .bind(topics)
            .bind(shards)
            .bind(self.floors)
            .bind(self.quota)
            .bind(requests.wanted())
            .bind(bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)))
            .bind_sparse(&self.limits.messages_max)
            .bind_sparse(&self.limits.number_max)
            .bind_sparse(&self.limits.unrestricted_below)
            .bind(&self.limits.redeliverable)
    }
}

/// The claims that receive the messages, one array per column.
struct ClaimColumns<'a> {
    owners: Vec<Uuid>,
    ids: Vec<Option<Uuid>>,
    attempts: Vec<Option<i32>>,
    workers: Vec<Option<&'a str>>,
    lease_ms: Vec<i64>,
    starts: Vec<i64>,
    received: Vec<i64>,
}

impl<'a> ClaimColumns<'a> {
    fn new(requests: &Requests<'a>) -> Self {
        Self {
            owners: requests.owners(),
            ids: requests.ids(),
            attempts: requests.attempts(),
            workers: requests.workers(),
            lease_ms: requests.0.iter().map(|request| millis(request.claim.lease.get())).collect(),
            starts: requests.starts(),
            received: requests.0.iter().map(|request| request.received).collect(),
        }
    }

    /// Binds the claims, as `work_1` takes them.
    fn bind<'q>(&'q self, query: Query<'q>) -> Query<'q>
    where
        'a: 'q,
    {
        query
            .bind(&self.owners)
            .bind_sparse(&self.ids)
            .bind_sparse(&self.attempts)
            .bind_sparse(&self.workers)
            .bind(&self.lease_ms)
            .bind(&self.starts)
            .bind(&self.received)
    }
}

pub(crate) fn uuid(request: RequestId) -> Uuid {
    Uuid::from_u128(request.as_u128())
}

impl<'a> Requests<'a> {
    pub(crate) fn new(start: usize, claims: &'a [Claim]) -> Self {
        let request = |(index, claim): (usize, &'a Claim)| Request {
            index,
            claim,
            remaining: claim.batch.get(),
            received: 0,
            bytes_left: claim.bytes_max,
        };
        Self((start..).zip(claims).map(request).collect())
    }

    pub(crate) fn owners(&self) -> Vec<Uuid> {
        self.0.iter().map(|request| Uuid::from_u128(request.claim.owner.as_u128())).collect()
    }

    pub(crate) fn ids(&self) -> Vec<Option<Uuid>> {
        self.0.iter().map(|request| request.claim.request_identity().map(uuid)).collect()
    }

    /// The limits on attempts that claims set.
    fn attempts(&self) -> Vec<Option<i32>> {
        let limit = |max: std::num::NonZeroU32| i32::try_from(max.get()).unwrap_or(i32::MAX);
        self.0.iter().map(|request| request.claim.attempts_max.map(limit)).collect()
    }

    /// The worker names of the claims.
    fn workers(&self) -> Vec<Option<&'a str>> {
        self.0.iter().map(|request| request.claim.worker.as_ref().map(WorkerName::as_str)).collect()
    }

    /// How many more messages all claims want in total.
    pub(crate) fn wanted(&self) -> i64 {
        self.0.iter().map(|request| i64::from(request.remaining)).sum()
    }

    /// For each claim, the number of messages assigned to the claims before it.
    fn starts(&self) -> Vec<i64> {
        let mut before = 0;
        let start = |request: &Request<'_>| {
            let start = before;
            before += i64::from(request.remaining);
            start
        };
        self.0.iter().map(start).collect()
    }

    /// How many messages each lane delivers at most, so that all lanes get their turn.
    pub(super) fn quota(&self, lanes: &[Lane]) -> i64 {
        let lanes = i64::try_from(lanes.len()).unwrap_or(i64::MAX).max(1);
        self.wanted() / lanes + i64::from(self.wanted() % lanes > 0)
    }
}

impl WorkResult {
    fn read(
        rows: &[PgRow],
        requests: &Requests<'_>,
        lanes: usize,
        starts: &[i64],
        quota: i64,
    ) -> Result<Self, Error> {
        let mut result = Self { quota, found: vec![0; lanes], ..Self::default() };
        let fences = result.read_header(rows)?;
        for row in rows {
            let mut cells = Cells::after(row, HEADER_COLUMNS);
            let (lane, ordinal): (Option<i32>, Option<i32>) = (cells.next()?, cells.next()?);
            let (Some(lane), Some(ordinal)) = (lane.and_then(|lane| usize::try_from(lane - 1).ok()), ordinal)
            else {
                continue;
            };
            let ordinal = i64::from(ordinal);
            *result.found.get_mut(lane).ok_or_else(|| corrupt_row("was claimed from an unknown lane"))? += 1;
            // The last claim that starts before this ordinal.
            let claim = starts.partition_point(|start| *start < ordinal).saturating_sub(1);
            let Request { claim: request, .. } =
                requests.0.get(claim).ok_or_else(|| corrupt_row("was assigned to an unknown claim"))?;
            let Some(granted) = fences.get(&ordinal) else {
                if request.request.is_some() && !result.conflicted.contains(&claim) {
                    result.conflicted.push(claim);
                }
                continue;
            };
            let until = timestamp(result.now.saturating_add(millis(request.lease.get())));
            let lease = Lease { owner: request.owner, fence: fence(*granted)?, until };
            let delivery = delivery(&mut cells, request.namespace, lease)?;
            let number = i64::try_from(delivery.number.0).unwrap_or(i64::MAX);
            let range = result.ranges.entry(lane).or_insert(NumberRange { lowest: number, highest: number });
            *range = range.with(number);
            result.deliveries.push((claim, delivery));
        }
        Ok(result)
    }

    /// Reads the columns that are set in one row only. Returns the granted fences by the ordinals of their messages.
    fn read_header(&mut self, rows: &[PgRow]) -> Result<HashMap<i64, i64>, Error> {
        for row in rows {
            let mut cells = Cells::new(row);
            self.now = cells.next()?;
            let Some(acked) = cells.next::<Option<Vec<Uuid>>>()? else { continue };
            self.acked.extend(acked);
            (self.partition_freed, self.timers_due) = (cells.next()?, cells.next()?);
            let (repeated, granted): (Option<Vec<i64>>, Option<Vec<i64>>) = (cells.next()?, cells.next()?);
            let unfit: Option<Vec<i32>> = cells.next()?;
            let ordinals = repeated.unwrap_or_default().into_iter();
            self.repeated.extend(ordinals.filter_map(|ordinal| usize::try_from(ordinal - 1).ok()));
            let lanes = unfit.unwrap_or_default().into_iter();
            self.unfit.extend(lanes.filter_map(|lane| usize::try_from(lane - 1).ok()));
            let granted = granted.unwrap_or_default().into_iter();
            return Ok(granted.map(|fence| (fence % ID_BLOCK_SIZE, fence)).collect());
        }
        Ok(HashMap::new())
    }

    /// What the lanes delivered: lane, message number and fence of each delivery.
    pub(super) fn delivered(&self) -> Vec<(Lane, i64, i64)> {
        let number = |delivery: &Delivery| i64::try_from(delivery.number.0).unwrap_or(i64::MAX);
        let lane = |delivery: &Delivery| {
            let content = &delivery.content;
            (content.topic.clone(), i32::from(content.shard.0))
        };
        let fence = |delivery: &Delivery| bigint(delivery.lease.fence.get());
        self.deliveries
            .iter()
            .map(|(_, delivery)| (lane(delivery), number(delivery), fence(delivery)))
            .collect()
    }

    /// Limited lanes that have delivered what they may have nothing more for this claim.
    pub(super) fn mark_limited(&mut self, limits: &ReorderLimits) {
        for (index, (max, number_max)) in limits.messages_max.iter().zip(&limits.number_max).enumerate() {
            let is_spent = max.is_some_and(|max| max < self.quota && self.found[index] >= max);
            if is_spent || number_max.is_some() {
                self.unfit.push(index);
            }
        }
    }

    /// Indexes of the lanes that had fewer messages than the quota.
    pub(crate) fn drained(&self) -> impl Iterator<Item = usize> {
        let drained = |lane: &usize| self.found[*lane] < self.quota && !self.unfit.contains(lane);
        (0..self.found.len()).filter(drained)
    }
}
