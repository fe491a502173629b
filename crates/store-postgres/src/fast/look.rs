//! One statement that acknowledges and claims: what it is asked, and what it answers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use oncebox_core::{Claim, Delivery, Error, Lease, RequestId, WorkerName};
use oncebox_system::uptime;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::settle::Settling;
use crate::codes::{TICKET, count, damaged, millis, moment, namespace};
use crate::fault;
use crate::hints::{From, Lane, Span};
use crate::locked::{Failure, TRIES};
use crate::restart::{Inherited, Limits};
use crate::rows::{Cells, delivery, fence};
use crate::store::PostgresStore;

/// What others have written may be seen a little later than it says: so much of the past is asked about again.
const LOOK_BACK: i64 = 2_000;

/// Columns of a row before those of what was dealt.
const HEAD: usize = 7;

/// Claims that one statement serves: the same namespace and topics. One with a bound on bytes stands alone.
#[derive(Default)]
pub(crate) struct Requests<'a>(pub(crate) Vec<Request<'a>>);

pub(crate) struct Request<'a> {
    /// The claim's place in its call.
    pub(crate) index: usize,
    pub(crate) claim: &'a Claim,
    /// How many messages it still asks for.
    pub(crate) open: u32,
    /// How many it has got.
    pub(crate) had: i64,
    /// How many more payload bytes it takes.
    pub(crate) bytes: Option<u64>,
}

/// Which lanes are read, and how.
pub(crate) struct Lanes<'a> {
    pub(crate) names: &'a [Lane],
    pub(crate) from: From,
}

impl Lanes<'_> {
    pub(crate) const NONE: Self = Lanes { names: &[], from: From::Position };
}

/// What of lanes is read.
#[derive(Clone, Copy)]
pub(super) struct Read<'a> {
    pub(super) lanes: &'a [Lane],
    pub(super) floors: &'a [i64],
    pub(super) quota: i64,
    pub(super) limits: &'a Limits,
    pub(super) time: Time,
}

/// Whether the statement looks first for what time has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    Check,
    Ignore,
}

/// Whether acknowledgements wait for messages that another transaction has locked, or pass them over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    Quick,
    Careful,
}

/// What one statement did.
#[derive(Default)]
pub(crate) struct Look {
    pub(crate) acked: HashSet<Uuid>,
    /// Time has brought something, so nothing was claimed.
    pub(crate) pending: bool,
    /// Claims that came before, so that nothing was claimed.
    pub(crate) repeated: Vec<usize>,
    /// Claims that did not get all that was dealt to them, and may have met themselves.
    pub(crate) met: Vec<usize>,
    /// The most that each lane was asked for.
    pub(crate) quota: i64,
    /// How many each lane gave, also if another process was faster in the end.
    pub(crate) given: Vec<i64>,
    /// Lanes, by their places, whose next message this claim cannot have: it has too many bytes, or its lane is held back.
    pub(crate) unfit: Vec<usize>,
    pub(crate) taken: Vec<(usize, Delivery)>,
    now: i64,
    /// Partitions became free.
    freed: bool,
    /// The numbers that each lane gave.
    spans: HashMap<usize, Span>,
}

impl PostgresStore {
    /// One statement: acknowledges, and claims from these lanes.
    pub(crate) async fn look(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        requests: &Requests<'_>,
        lanes: Lanes<'_>,
        time: Time,
    ) -> Result<Look, Error> {
        let hints = &self.hints.lanes;
        let space = requests.0.first().map(|request| request.claim.namespace);
        let starts =
            space.map_or_else(Vec::new, |space| hints.starts(space, lanes.names, lanes.from, uptime()));
        let floors: Vec<i64> = starts.iter().map(|start| start.from).collect();
        let held = match space {
            Some(space) => self.inherited(connection, space, lanes.names).await?,
            None => None,
        };
        let quota = requests.quota(lanes.names);
        let limits = Limits::default();
        let read = Read { lanes: lanes.names, floors: &floors, quota, limits: &limits, time };
        let inherited = held.as_ref().and_then(|held| held.as_ref());
        let mut look = self.ask(connection, settling, requests, &read, inherited).await?;
        drop(held);
        let ended = uptime();
        if time == Time::Check && !look.pending && look.acked.len() == settling.uids.len() {
            self.hints.quiet_until.fetch_max(look.now, Ordering::Relaxed);
        }
        for (place, (lane, start)) in lanes.names.iter().zip(&starts).enumerate() {
            if let (Some(space), Some(found)) = (space, look.spans.get(&place)) {
                hints.read(space, lane, *start, *found, ended);
            }
        }
        if std::mem::take(&mut look.freed) {
            // Others of the partition waited for it, in any lane.
            hints.lower_all();
        }
        Ok(look)
    }

    async fn ask(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        requests: &Requests<'_>,
        read: &Read<'_>,
        inherited: Option<&Inherited>,
    ) -> Result<Look, Error> {
        // Only what holds these lanes back is of interest.
        let inherited = inherited.filter(|inherited| !inherited.held(read.lanes).is_empty());
        let mut care = Care::Quick;
        for _ in 1..TRIES {
            let look = match inherited {
                Some(inherited) => self.ask_held(connection, settling, requests, read, inherited, care).await,
                None => self.ask_once(connection, settling, requests, read, care).await,
            };
            match look {
                Ok(look) => return Ok(look),
                // Another transaction has a message, or the table that many want to grow at once, or it is a collision: nothing happened.
                Err(Failure::Locked | Failure::Collision) => care = Care::Careful,
                Err(Failure::Failed(error)) => return Err(error),
            }
        }
        Err(fault::held_up())
    }

    pub(super) async fn ask_once(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        requests: &Requests<'_>,
        read: &Read<'_>,
        care: Care,
    ) -> Result<Look, Failure> {
        let Read { lanes, floors, quota, limits, time } = *read;
        let space = requests.0.first().map_or(0, |request| namespace(request.claim.namespace));
        let (topics, shards) = columns(lanes);
        let (owners, ids, attempts) = (requests.owners(), requests.ids(), requests.attempts());
        let workers = requests.workers();
        let leases: Vec<i64> = requests.0.iter().map(|request| millis(request.claim.lease.get())).collect();
        let had = requests.0.iter().map(|request| request.had).collect::<Vec<_>>();
        let bytes = requests.0.first().and_then(|request| request.bytes);
        let bytes = bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let starts = requests.starts();
        let since = self.hints.quiet_until.load(Ordering::Relaxed).saturating_sub(LOOK_BACK);
        let rows = self
            .sql
            .work
            .query()
            .bind(self.time())
            .bind(&settling.uids)
            .bind(&settling.owners)
            .bind(&settling.fences)
            .bind(care == Care::Careful)
            .bind(space)
            .bind(&topics)
            .bind(&shards)
            .bind(floors)
            .bind(quota)
            .bind(requests.wanted())
            .bind(bytes)
            .bind_sparse(&limits.messages)
            .bind_sparse(&limits.tops)
            .bind_sparse(&limits.free_below)
            .bind(&limits.again)
            .bind(&owners)
            .bind_sparse(&ids)
            .bind_sparse(&attempts)
            .bind_sparse(&workers)
            .bind(&leases)
            .bind(&starts)
            .bind(&had)
            .bind(time == Time::Check)
            .bind(since)
            .fetch_all(&mut *connection);
        Ok(Look::read(&rows.await?, requests, lanes.len(), &starts, quota)?)
    }
}

/// Lanes as they are bound to a statement: their topics, and their shards.
pub(crate) fn columns(lanes: &[Lane]) -> (Vec<&str>, Vec<i32>) {
    lanes.iter().map(|(topic, shard)| (topic.as_str(), *shard)).unzip()
}

pub(crate) fn uuid(request: RequestId) -> Uuid {
    Uuid::from_u128(request.as_u128())
}

impl<'a> Requests<'a> {
    pub(crate) fn new(start: usize, claims: &'a [Claim]) -> Self {
        let request = |(index, claim): (usize, &'a Claim)| Request {
            index,
            claim,
            open: claim.batch.get(),
            had: 0,
            bytes: claim.bytes_max,
        };
        Self((start..).zip(claims).map(request).collect())
    }

    pub(crate) fn owners(&self) -> Vec<Uuid> {
        self.0.iter().map(|request| Uuid::from_u128(request.claim.owner.as_u128())).collect()
    }

    pub(crate) fn ids(&self) -> Vec<Option<Uuid>> {
        self.0.iter().map(|request| request.claim.request_identity().map(uuid)).collect()
    }

    /// The limits of attempts that claims bring.
    fn attempts(&self) -> Vec<Option<i32>> {
        let limit = |max: std::num::NonZeroU32| i32::try_from(max.get()).unwrap_or(i32::MAX);
        self.0.iter().map(|request| request.claim.attempts_max.map(limit)).collect()
    }

    /// What claimers call themselves.
    fn workers(&self) -> Vec<Option<&'a str>> {
        self.0.iter().map(|request| request.claim.worker.as_ref().map(WorkerName::as_str)).collect()
    }

    /// How many messages all of them still ask for.
    pub(crate) fn wanted(&self) -> i64 {
        self.0.iter().map(|request| i64::from(request.open)).sum()
    }

    /// After how many each claim gets what is dealt.
    fn starts(&self) -> Vec<i64> {
        let mut before = 0;
        let start = |request: &Request<'_>| {
            let start = before;
            before += i64::from(request.open);
            start
        };
        self.0.iter().map(start).collect()
    }

    /// How many messages each lane gives at most, so that all get their turn.
    fn quota(&self, lanes: &[Lane]) -> i64 {
        let lanes = i64::try_from(lanes.len()).unwrap_or(i64::MAX).max(1);
        self.wanted() / lanes + i64::from(self.wanted() % lanes > 0)
    }
}

impl Look {
    fn read(
        rows: &[PgRow],
        requests: &Requests<'_>,
        lanes: usize,
        starts: &[i64],
        quota: i64,
    ) -> Result<Self, Error> {
        let mut look = Self { quota, given: vec![0; lanes], ..Self::default() };
        let fences = look.read_head(rows)?;
        for row in rows {
            let mut cells = Cells::after(row, HEAD);
            let (lane, place): (Option<i32>, Option<i32>) = (cells.next()?, cells.next()?);
            let (Some(lane), Some(place)) = (lane.and_then(|lane| usize::try_from(lane - 1).ok()), place)
            else {
                continue;
            };
            let place = i64::from(place);
            *look.given.get_mut(lane).ok_or_else(|| damaged("came from no lane"))? += 1;
            // The last one that begins before it.
            let claim = starts.partition_point(|start| *start < place).saturating_sub(1);
            let Request { claim: request, .. } =
                requests.0.get(claim).ok_or_else(|| damaged("was dealt to no claim"))?;
            let Some(granted) = fences.get(&place) else {
                if request.request.is_some() && !look.met.contains(&claim) {
                    look.met.push(claim);
                }
                continue;
            };
            let until = moment(look.now.saturating_add(millis(request.lease.get())));
            let lease = Lease { owner: request.owner, fence: fence(*granted)?, until };
            let delivery = delivery(&mut cells, request.namespace, lease)?;
            let number = i64::try_from(delivery.number.0).unwrap_or(i64::MAX);
            let span = look.spans.entry(lane).or_insert(Span { lowest: number, highest: number });
            *span = span.with(number);
            look.taken.push((claim, delivery));
        }
        Ok(look)
    }

    /// What one of the rows tells about all of it. Answers the fences that were granted, by the places of what was dealt.
    fn read_head(&mut self, rows: &[PgRow]) -> Result<HashMap<i64, i64>, Error> {
        for row in rows {
            let mut cells = Cells::new(row);
            self.now = cells.next()?;
            let Some(acked) = cells.next::<Option<Vec<Uuid>>>()? else { continue };
            self.acked.extend(acked);
            (self.freed, self.pending) = (cells.next()?, cells.next()?);
            let (repeated, granted): (Option<Vec<i64>>, Option<Vec<i64>>) = (cells.next()?, cells.next()?);
            let unfit: Option<Vec<i32>> = cells.next()?;
            let places = repeated.unwrap_or_default().into_iter();
            self.repeated.extend(places.filter_map(|place| usize::try_from(place - 1).ok()));
            let lanes = unfit.unwrap_or_default().into_iter();
            self.unfit.extend(lanes.filter_map(|lane| usize::try_from(lane - 1).ok()));
            let granted = granted.unwrap_or_default().into_iter();
            return Ok(granted.map(|fence| (fence % TICKET, fence)).collect());
        }
        Ok(HashMap::new())
    }

    /// What lanes gave out: the numbers of messages, and the fences of their deliveries.
    pub(super) fn numbers(&self) -> Vec<(Lane, i64, i64)> {
        let number = |delivery: &Delivery| i64::try_from(delivery.number.0).unwrap_or(i64::MAX);
        let lane = |delivery: &Delivery| {
            let content = &delivery.content;
            (content.topic.clone(), i32::from(content.shard.0))
        };
        let fence = |delivery: &Delivery| count(delivery.lease.fence.get());
        self.taken.iter().map(|(_, one)| (lane(one), number(one), fence(one))).collect()
    }

    /// Lanes that are held back, and gave what they may, have nothing more for this claim.
    pub(super) fn held_back(&mut self, limits: &Limits) {
        for (place, (max, top)) in limits.messages.iter().zip(&limits.tops).enumerate() {
            let is_spent = max.is_some_and(|max| max < self.quota && self.given[place] >= max);
            if is_spent || top.is_some() {
                self.unfit.push(place);
            }
        }
    }

    /// The places of the lanes that gave all they had, as far as they were read.
    pub(crate) fn drained(&self) -> impl Iterator<Item = usize> {
        let drained = |lane: &usize| self.given[*lane] < self.quota && !self.unfit.contains(lane);
        (0..self.given.len()).filter(drained)
    }
}
