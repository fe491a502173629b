//! One statement that acknowledges and claims: what it is asked, and what it answers.

use std::collections::HashSet;

use oncebox_core::{Claim, Delivery, Error, Fence, Lease, Owner, Payload, RequestId, Snapshot};
use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::codes::{counted, damaged, millis, moment, namespace};
use crate::desk::TRIES;
use crate::fault;
use crate::lanes::Lane;
use crate::row::{Cells, Message};
use crate::settle::Settling;
use crate::store::PostgresStore;

/// Claims that one statement serves: the same namespace and topics, and no further wishes.
pub(crate) struct Wishes<'a> {
    pub(crate) claims: Vec<(usize, &'a Claim)>,
    /// How many each still wants.
    pub(crate) open: Vec<u32>,
    /// How many each has got.
    pub(crate) had: Vec<i64>,
}

/// What one statement did.
pub(crate) struct Round {
    pub(crate) acked: HashSet<Uuid>,
    /// Partitions have become free, which its claim could not see.
    pub(crate) freed: bool,
    /// Time has brought something, so nothing was claimed.
    pub(crate) pending: bool,
    /// The most that one lane gave.
    pub(crate) turns: i64,
    /// Claims that came before, or come twice at once: what they get is what they got.
    pub(crate) repeated: Vec<usize>,
    /// Nothing was taken, though this one could have been: somebody has it locked.
    pub(crate) missed: Option<Uuid>,
    pub(crate) taken: Vec<(usize, Delivery)>,
}

impl PostgresStore {
    /// One statement: acknowledges, and claims from these lanes.
    pub(crate) async fn round(
        &self,
        connection: &mut PgConnection,
        settling: &Settling<'_>,
        wishes: &Wishes<'_>,
        lanes: &[Lane],
        look_for_pending: bool,
    ) -> Result<Round, Error> {
        let space = wishes.claims.first().map_or(0, |(_, claim)| namespace(claim.namespace));
        let topics: Vec<&str> = lanes.iter().map(|(topic, _)| topic.as_str()).collect();
        let shards: Vec<i32> = lanes.iter().map(|(_, shard)| *shard).collect();
        let floors = vec![0_i64; lanes.len()];
        let wanted: Vec<i64> = wishes.open.iter().map(|open| i64::from(*open)).collect();
        let owner = |(_, claim): &(usize, &Claim)| Uuid::from_u128(claim.owner.as_u128());
        let owners: Vec<Uuid> = wishes.claims.iter().map(owner).collect();
        let requests: Vec<Option<Uuid>> =
            wishes.claims.iter().map(|(_, claim)| claim.request.map(uuid)).collect();
        let leases: Vec<i64> = wishes.claims.iter().map(|(_, claim)| millis(claim.lease.get())).collect();
        let first = wishes.had.iter().all(|had| *had == 0);
        for _ in 1..TRIES {
            let rows = self
                .sql
                .work
                .query()
                .bind(self.time())
                .bind(&settling.uids)
                .bind(&settling.owners)
                .bind(&settling.fences)
                .bind(space)
                .bind(&topics)
                .bind(&shards)
                .bind(&floors)
                .bind(wishes.quota(lanes))
                .bind(&owners)
                .bind(&requests)
                .bind(&leases)
                .bind(&wanted)
                .bind(look_for_pending)
                .bind(&wishes.had)
                .bind(first)
                .fetch_all(&mut *connection);
            match rows.await {
                Ok(rows) => return Round::read(&rows, &owners),
                // It locks no message that others have, so it is the table that many want to grow at once, or a collision:
                // nothing happened.
                Err(error) if fault::is_locked(&error) || fault::is_collision(&error) => {}
                Err(error) => return Err(fault::told(error)),
            }
        }
        Err(fault::held_up())
    }
}

pub(crate) fn uuid(request: RequestId) -> Uuid {
    Uuid::from_u128(request.as_u128())
}

impl<'a> Wishes<'a> {
    pub(crate) fn new(start: usize, claims: &'a [Claim]) -> Self {
        let open = claims.iter().map(|claim| claim.batch.get()).collect();
        Self {
            claims: claims.iter().enumerate().map(|(place, claim)| (start + place, claim)).collect(),
            open,
            had: vec![0; claims.len()],
        }
    }

    /// How many messages each lane gives at most, so that all get their turn.
    pub(crate) fn quota(&self, lanes: &[Lane]) -> i64 {
        let wanted: i64 = self.open.iter().map(|open| i64::from(*open)).sum();
        let lanes = i64::try_from(lanes.len()).unwrap_or(i64::MAX).max(1);
        wanted / lanes + i64::from(wanted % lanes > 0)
    }
}

impl Round {
    fn read(rows: &[PgRow], owners: &[Uuid]) -> Result<Self, Error> {
        let mut round = Self {
            acked: HashSet::new(),
            freed: false,
            pending: false,
            turns: 0,
            missed: None,
            repeated: Vec::new(),
            taken: Vec::new(),
        };
        for (index, row) in rows.iter().enumerate() {
            let mut cells = Cells::new(row);
            let _now: i64 = cells.next()?;
            round.pending = cells.next()?;
            let acked: Option<Vec<Uuid>> = cells.next()?;
            if index == 0 {
                round.acked.extend(acked.unwrap_or_default());
            }
            (round.freed, round.turns) = (cells.next()?, cells.next()?);
            let repeated: Option<Vec<i64>> = cells.next()?;
            if index == 0 {
                let places = repeated.unwrap_or_default().into_iter();
                round.repeated.extend(places.filter_map(|place| usize::try_from(place - 1).ok()));
            }
            round.missed = cells.next()?;
            let (claim, _place): (Option<i64>, Option<i64>) = (cells.next()?, cells.next()?);
            let (fence, until): (Option<i64>, Option<i64>) = (cells.next()?, cells.next()?);
            let (Some(claim), Some(fence), Some(until)) = (claim, fence, until) else { continue };
            let claim = usize::try_from(claim - 1).map_err(|_| damaged("was dealt to nobody"))?;
            let owner = owners.get(claim).ok_or_else(|| damaged("was dealt to nobody"))?;
            let owner = Owner::new(owner.as_u128())?;
            round.taken.push((claim, deliver(&mut cells, owner, fence, until)?));
        }
        Ok(round)
    }
}

/// A message that has just been leased, or was before.
pub(crate) fn deliver(
    cells: &mut Cells<'_>,
    owner: Owner,
    fence: i64,
    until: i64,
) -> Result<Delivery, Error> {
    let message: Snapshot<Payload> = Message::read(cells)?.with(None);
    let lease = Lease { owner, fence: Fence::new(counted(fence)?)?, until: moment(until) };
    let content = message.content.ok_or_else(|| damaged("was leased without content"))?;
    let fingerprint = message.fingerprint.ok_or_else(|| damaged("has content without a fingerprint"))?;
    Ok(Delivery {
        uid: message.uid,
        number: message.number,
        key: message.key,
        content,
        fingerprint,
        hash: message.hash,
        trace: message.trace,
        accepted_at: message.accepted_at,
        last_seen_at: message.last_seen_at,
        attempts: message.attempts,
        deliveries: message.deliveries.saturating_add(1),
        last_error: message.last_error,
        lease,
    })
}
