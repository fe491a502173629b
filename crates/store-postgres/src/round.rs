//! One statement that acknowledges and claims: what it is asked, and what it answers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use oncebox_core::{Claim, Delivery, Error, Lease, RequestId};
use oncebox_system::uptime;
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::codes::{TICKET, damaged, millis, moment, namespace};
use crate::fault;
use crate::lanes::{Lane, Span, columns};
use crate::locked::TRIES;
use crate::rows::{Cells, delivery, fence};
use crate::settle::Settling;
use crate::store::PostgresStore;

/// What others have written may be seen a little later than it says: so much of the past is looked at again.
const LOOK_BACK: i64 = 2_000;

/// Columns of a row before those of what was dealt.
const HEAD: usize = 6;

/// Claims that one statement serves: the same namespace and topics, and no further wishes.
#[derive(Default)]
pub(crate) struct Wishes<'a>(pub(crate) Vec<Wish<'a>>);

pub(crate) struct Wish<'a> {
    /// The claim's place in its call.
    pub(crate) index: usize,
    pub(crate) claim: &'a Claim,
    /// How many it still wants.
    pub(crate) open: u32,
    /// How many it has got.
    pub(crate) had: i64,
}

/// What one statement did.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) acked: HashSet<Uuid>,
    /// Time has brought something, so nothing was claimed.
    pub(crate) pending: bool,
    /// Claims that came before, so that nothing was claimed.
    pub(crate) repeated: Vec<usize>,
    /// Claims that did not get all that was dealt to them, and may have met themselves.
    pub(crate) met: Vec<usize>,
    /// The most that one lane was asked for.
    pub(crate) quota: i64,
    /// The most that one lane gave, also if somebody else was faster in the end.
    pub(crate) turns: i64,
    /// Some lanes were not looked at from their beginning.
    pub(crate) partly: bool,
    pub(crate) taken: Vec<(usize, Delivery)>,
    now: i64,
    freed: bool,
    /// The numbers that each lane gave.
    spans: HashMap<usize, Span>,
}

impl PostgresStore {
    /// One statement: acknowledges, and claims from these lanes, after a look for what time has brought, from where the last look ended
    /// or from their beginnings.
    pub(crate) async fn round(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        wishes: &Wishes<'_>,
        lanes: &[Lane],
        look: bool,
        fully: bool,
    ) -> Result<Round, Error> {
        let space = wishes.0.first().map(|wish| wish.claim.namespace);
        let starts =
            space.map_or_else(Vec::new, |space| self.ears.lanes.starts(space, lanes, fully, uptime()));
        let floors: Vec<i64> = starts.iter().map(|start| start.from).collect();
        let mut round = self.ask(connection, settling, wishes, lanes, &floors, look).await?;
        let ended = uptime();
        round.quota = wishes.quota(lanes);
        round.partly = floors.iter().any(|floor| *floor > 0);
        if look && !round.pending && round.acked.len() == settling.uids.len() {
            self.ears.quiet_until.fetch_max(round.now, Ordering::Relaxed);
        }
        for (place, (lane, start)) in lanes.iter().zip(&starts).enumerate() {
            if let (Some(space), Some(found)) = (space, round.spans.get(&place)) {
                self.ears.lanes.looked(space, lane, *start, *found, ended);
            }
        }
        if round.freed {
            // Others of the partition waited for it, wherever they are.
            self.ears.lanes.lower_all();
        }
        Ok(round)
    }

    async fn ask(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        wishes: &Wishes<'_>,
        lanes: &[Lane],
        floors: &[i64],
        look: bool,
    ) -> Result<Round, Error> {
        let space = wishes.0.first().map_or(0, |wish| namespace(wish.claim.namespace));
        let (topics, shards) = columns(lanes);
        let (owners, requests, limits) = (wishes.owners(), wishes.requests(), wishes.limits());
        let leases: Vec<i64> = wishes.0.iter().map(|wish| millis(wish.claim.lease.get())).collect();
        let (starts, had) = (wishes.starts(), wishes.0.iter().map(|wish| wish.had).collect::<Vec<_>>());
        let since = self.ears.quiet_until.load(Ordering::Relaxed).saturating_sub(LOOK_BACK);
        let mut careful = false;
        for _ in 1..TRIES {
            let rows = self
                .sql
                .work
                .query()
                .bind(self.time())
                .bind(&settling.uids)
                .bind(&settling.owners)
                .bind(&settling.fences)
                .bind(careful)
                .bind(space)
                .bind(&topics)
                .bind(&shards)
                .bind(floors)
                .bind(wishes.quota(lanes))
                .bind(wishes.wanted())
                .bind(&owners)
                .bind_sparse(&requests)
                .bind_sparse(&limits)
                .bind(&leases)
                .bind(&starts)
                .bind(&had)
                .bind(look)
                .bind(since)
                .fetch_all(&mut *connection);
            match rows.await {
                Ok(rows) => return Round::read(&rows, wishes, &starts),
                // Somebody else has a message, or the table that many want to grow at once, or it is a collision: nothing happened.
                Err(error) if fault::is_locked(&error) || fault::is_collision(&error) => careful = true,
                Err(error) => return Err(fault::told(error)),
            }
        }
        Err(fault::held_up())
    }
}

pub(crate) fn uuid(request: RequestId) -> Uuid {
    Uuid::from_u128(request.as_u128())
}

/// The limit of attempts that a claim brings.
pub(crate) fn limit(claim: &Claim) -> Option<i32> {
    claim.attempts_max.map(|max| i32::try_from(max.get()).unwrap_or(i32::MAX))
}

impl<'a> Wishes<'a> {
    pub(crate) fn new(start: usize, claims: &'a [Claim]) -> Self {
        let wish =
            |(index, claim): (usize, &'a Claim)| Wish { index, claim, open: claim.batch.get(), had: 0 };
        Self((start..).zip(claims).map(wish).collect())
    }

    pub(crate) fn owners(&self) -> Vec<Uuid> {
        self.0.iter().map(|wish| Uuid::from_u128(wish.claim.owner.as_u128())).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Option<Uuid>> {
        self.0.iter().map(|wish| wish.claim.request_identity().map(uuid)).collect()
    }

    fn limits(&self) -> Vec<Option<i32>> {
        self.0.iter().map(|wish| limit(wish.claim)).collect()
    }

    fn wanted(&self) -> i64 {
        self.0.iter().map(|wish| i64::from(wish.open)).sum()
    }

    /// After how many each claim gets what is dealt.
    fn starts(&self) -> Vec<i64> {
        let mut before = 0;
        let start = |wish: &Wish<'_>| {
            let start = before;
            before += i64::from(wish.open);
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

impl Round {
    fn read(rows: &[PgRow], wishes: &Wishes<'_>, starts: &[i64]) -> Result<Self, Error> {
        let mut round = Self::default();
        let fences = round.read_head(rows)?;
        let mut from_lanes: HashMap<usize, i64> = HashMap::new();
        for row in rows {
            let mut cells = Cells::after(row, HEAD);
            let (lane, place): (Option<i32>, Option<i32>) = (cells.next()?, cells.next()?);
            let (Some(lane), Some(place)) = (lane.and_then(|lane| usize::try_from(lane - 1).ok()), place)
            else {
                continue;
            };
            let place = i64::from(place);
            *from_lanes.entry(lane).or_default() += 1;
            // The last one that begins before it.
            let claim = starts.partition_point(|start| *start < place).saturating_sub(1);
            let Wish { claim: wish, .. } =
                wishes.0.get(claim).ok_or_else(|| damaged("was dealt to nobody"))?;
            let Some(granted) = fences.get(&place) else {
                if wish.request.is_some() && !round.met.contains(&claim) {
                    round.met.push(claim);
                }
                continue;
            };
            let until = moment(round.now.saturating_add(millis(wish.lease.get())));
            let lease = Lease { owner: wish.owner, fence: fence(*granted)?, until };
            let delivery = delivery(&mut cells, wish.namespace, lease)?;
            let number = i64::try_from(delivery.number.0).unwrap_or(i64::MAX);
            let span = round.spans.entry(lane).or_insert(Span { lowest: number, highest: number });
            *span = span.with(number);
            round.taken.push((claim, delivery));
        }
        round.turns = from_lanes.into_values().max().unwrap_or_default();
        Ok(round)
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
            let places = repeated.unwrap_or_default().into_iter();
            self.repeated.extend(places.filter_map(|place| usize::try_from(place - 1).ok()));
            return Ok(granted
                .unwrap_or_default()
                .into_iter()
                .map(|fence| (fence % TICKET, fence))
                .collect());
        }
        Ok(HashMap::new())
    }
}
