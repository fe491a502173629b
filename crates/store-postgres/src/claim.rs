//! Working: acknowledgements and claims with one statement, everything else at the desk.

use std::collections::HashSet;

use oncebox_core::machine::{Machine, Turn};
use oncebox_core::{
    Claim, Delivery, Error, Fence, Lease, Owner, Payload, RequestId, Settled, Settlement, Snapshot, Topic,
    Verdict, Worked,
};
use sqlx::postgres::PgRow;
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::codes::{count, counted, damaged, millis, moment, namespace};
use crate::desk::{Locked, Wanted};
use crate::ears::Heard;
use crate::fault;
use crate::lanes::{LANES_MAX, Lane};
use crate::row::{Cells, Message};
use crate::store::PostgresStore;

/// How often a claim lets time happen before it takes what there is: somebody else may be at it.
const TICKS_MAX: u32 = 3;
/// How often a claim looks again because others were faster.
const COLLISIONS_MAX: u32 = 16;
/// Messages that a claim lets time happen to at once.
const TICK_ITEMS: u32 = 1_000;
/// Messages of one lane that a claim with a bound on bytes looks at, at most.
const PICKS_MAX: i64 = 1_000;

/// Settlements on their way: acknowledgements go with the next statement, and what that could not do goes to the desk.
struct Settling<'a> {
    settlements: &'a [Settlement],
    outcomes: Vec<Option<Settled>>,
    uids: Vec<Uuid>,
    owners: Vec<Uuid>,
    fences: Vec<i64>,
}

/// Claims that one statement serves: the same namespace and topics, and no further wishes.
struct Wishes<'a> {
    claims: Vec<(usize, &'a Claim)>,
    /// How many each still wants.
    open: Vec<u32>,
    /// How many each has got.
    had: Vec<i64>,
}

/// What one statement did.
struct Round {
    acked: HashSet<Uuid>,
    /// Partitions have become free, which its claim could not see.
    freed: bool,
    /// Time has brought something, so nothing was claimed.
    pending: bool,
    /// The most that one lane gave.
    turns: i64,
    /// Claims that came before, or come twice at once: what they get is what they got.
    repeated: Vec<usize>,
    /// Nothing was taken, though this one could have been: somebody has it locked.
    missed: Option<Uuid>,
    taken: Vec<(usize, Delivery)>,
}

impl PostgresStore {
    pub(crate) async fn work_on(
        &self,
        settlements: &[Settlement],
        claims: &[Claim],
    ) -> Result<Worked, Error> {
        let mut deliveries: Vec<Vec<Delivery>> = claims.iter().map(|_| Vec::new()).collect();
        let mut connection = self.connection().await?;
        let connection = &mut *connection;
        let mut settling = Settling::new(settlements);
        if settling.uids.is_empty() {
            self.settle_rest(connection, &mut settling, &HashSet::new()).await?;
        }
        let mut place = 0;
        while place < claims.len() {
            let run = run_of(&claims[place..]);
            if run == 0 {
                self.ack(connection, &mut settling).await?;
                deliveries[place] = self.claim_alone(connection, &claims[place]).await?;
                place += 1;
                continue;
            }
            let wishes = Wishes::new(place, &claims[place..place + run]);
            self.serve(connection, wishes, &mut settling, &mut deliveries).await?;
            place += run;
        }
        self.ack(connection, &mut settling).await?;
        let settled = settling.outcomes.into_iter().map(|outcome| outcome.expect("all are settled"));
        Ok(Worked { settled: settled.collect(), deliveries })
    }

    /// Acknowledges what has not been acknowledged with a claim.
    async fn ack(&self, connection: &mut PgConnection, settling: &mut Settling<'_>) -> Result<(), Error> {
        if settling.uids.is_empty() {
            return Ok(());
        }
        let nobody = Wishes { claims: Vec::new(), open: Vec::new(), had: Vec::new() };
        let round = self.round(connection, settling, &nobody, &[], false).await?;
        self.settle_rest(connection, settling, &round.acked).await
    }

    /// Notes what was acknowledged, and settles the rest at the desk.
    async fn settle_rest(
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
        let mut heard = Heard::default();
        let settled = self.settle(connection, &doubtful, &mut heard).await?;
        self.ears.hear(heard);
        for (place, outcome) in rest.into_iter().zip(settled) {
            settling.outcomes[place] = Some(outcome);
        }
        Ok(())
    }

    /// Settles at the desk, in order.
    pub(crate) async fn settle(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
        heard: &mut Heard,
    ) -> Result<Vec<Settled>, Error> {
        let mut wanted = Wanted::default();
        for settlement in settlements {
            wanted.add_uid(settlement.uid);
        }
        let settle = |machine: &mut Machine, turn: &mut Turn<'_>| {
            settlements.iter().map(|item| machine.settle(turn, item)).collect()
        };
        self.sit(connection, &wanted, heard, settle).await
    }

    /// Serves claims until they are full or nothing is left.
    async fn serve(
        &self,
        connection: &mut PgConnection,
        mut wishes: Wishes<'_>,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let Some((_, first)) = wishes.claims.first().copied() else { return Ok(()) };
        let (mut ticks, mut searched, mut waited, mut collisions) = (0, false, false, 0);
        while wishes.open.iter().any(|open| *open > 0) {
            let lanes = self.ears.lanes.in_turn(first.namespace, &first.topics);
            if lanes.is_empty() {
                self.ack(connection, settling).await?;
                if !self.search(connection, first, &mut ticks, &mut searched).await? {
                    break;
                }
                continue;
            }
            let acks = settling.uids.len();
            let round = self.round(connection, settling, &wishes, &lanes, ticks < TICKS_MAX).await?;
            self.settle_rest(connection, settling, &round.acked).await?;
            if round.acked.len() < acks {
                continue;
            }
            if round.pending {
                self.let_time_happen(connection, &mut ticks).await?;
                continue;
            }
            for claim in round.repeated {
                let (index, repeated) = wishes.claims[claim];
                wishes.open[claim] = 0;
                deliveries[index] = self.replay(connection, repeated).await?.unwrap_or_default();
            }
            let quota = wishes.quota(&lanes);
            let progress = !round.taken.is_empty();
            for (claim, delivery) in round.taken {
                wishes.open[claim] = wishes.open[claim].saturating_sub(1);
                wishes.had[claim] += 1;
                deliveries[wishes.claims[claim].0].push(delivery);
            }
            if progress && round.turns >= quota || round.freed {
                continue;
            }
            // Others took all of it between our look and our grasp: look again.
            if !progress && round.turns > 0 && collisions < COLLISIONS_MAX {
                collisions += 1;
                continue;
            }
            if let Some(missed) = round.missed.filter(|_| !waited) {
                waited = true;
                // It is free now, or was taken, or somebody has it for longer than is worth waiting for.
                let _ = self.sql.wait.query().bind(missed).execute(&mut *connection).await;
                continue;
            }
            // These lanes have nothing more for now. Others may.
            self.ears.lanes.remove(first.namespace, &lanes);
            if !self.search(connection, first, &mut ticks, &mut searched).await? {
                break;
            }
        }
        for (index, _) in &wishes.claims {
            deliveries[*index].sort_by_key(|delivery| delivery.lease.fence);
        }
        Ok(())
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

    /// Looks for lanes that have something, once per claim. Answers whether there may be some.
    async fn search(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        ticks: &mut u32,
        searched: &mut bool,
    ) -> Result<bool, Error> {
        let known = self.ears.lanes.in_turn(claim.namespace, &claim.topics);
        if *searched {
            return Ok(!known.is_empty());
        }
        loop {
            let (pending, lanes) = self.find_lanes(connection, claim).await?;
            if pending && *ticks < TICKS_MAX {
                self.let_time_happen(connection, ticks).await?;
                continue;
            }
            *searched = true;
            let found = !lanes.is_empty();
            self.ears.lanes.add(claim.namespace, lanes);
            return Ok(found || !known.is_empty());
        }
    }

    async fn find_lanes(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
    ) -> Result<(bool, Vec<Lane>), Error> {
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
        let rows = query.bind(most).fetch_all(&mut *connection).await.map_err(fault::told)?;
        let mut pending = false;
        let mut lanes = Vec::new();
        for row in rows {
            let mut cells = Cells::new(&row);
            pending |= cells.next::<bool>()?;
            let (topic, shard): (Option<String>, Option<i32>) = (cells.next()?, cells.next()?);
            if let (Some(topic), Some(shard)) = (topic, shard) {
                lanes.push((Topic::new(topic)?, shard));
            }
        }
        Ok((pending, lanes))
    }

    /// One statement: acknowledges, and claims from these lanes.
    async fn round(
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
            .bind(wishes.had.iter().all(|had| *had == 0))
            .fetch_all(&mut *connection);
        let rows = rows.await.map_err(fault::told)?;
        Round::read(&rows, &owners)
    }

    /// A claim with wishes of its own: a repeat, a bound on bytes or on what is in flight.
    async fn claim_alone(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
    ) -> Result<Vec<Delivery>, Error> {
        if let Some(again) = self.replay(connection, claim).await? {
            return Ok(again);
        }
        let mut batch = claim.batch.get();
        if let Some(max) = claim.in_flight_max {
            batch = batch.min(self.room_in_flight(connection, claim, max).await?);
        }
        if batch == 0 {
            return Ok(Vec::new());
        }
        if let Some(bytes_max) = claim.bytes_max {
            return self.claim_bytes(connection, claim, batch, bytes_max).await;
        }
        let mut deliveries = vec![Vec::new()];
        let wishes = Wishes { claims: vec![(0, claim)], open: vec![batch], had: vec![0] };
        self.serve(connection, wishes, &mut Settling::new(&[]), &mut deliveries).await?;
        Ok(deliveries.pop().unwrap_or_default())
    }

    /// What the same claim got before and still has; none if it has nothing.
    async fn replay(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
    ) -> Result<Option<Vec<Delivery>>, Error> {
        let Some(request) = claim.request else { return Ok(None) };
        let rows = self
            .sql
            .replay
            .query()
            .bind(self.time())
            .bind(namespace(claim.namespace))
            .bind(Uuid::from_u128(claim.owner.as_u128()))
            .bind(uuid(request))
            .fetch_all(&mut *connection);
        let rows = rows.await.map_err(fault::told)?;
        let mut deliveries = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut cells = Cells::new(row);
            let (fence, until) = (cells.next()?, cells.next()?);
            let superseded: bool = cells.next()?;
            let delivery = deliver(&mut cells, claim.owner, fence, until)?;
            if !superseded {
                deliveries.push(delivery);
            }
        }
        Ok((!rows.is_empty()).then_some(deliveries))
    }

    async fn room_in_flight(
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
        let counted: i64 = Cells::new(&counted.await.map_err(fault::told)?).next()?;
        let room = max.saturating_sub(u64::try_from(counted).unwrap_or_default());
        Ok(u32::try_from(room).unwrap_or(u32::MAX))
    }

    /// Locks what may be taken, chooses what fits, and leases that, in one transaction.
    async fn claim_bytes(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
        batch: u32,
        bytes_max: u64,
    ) -> Result<Vec<Delivery>, Error> {
        let (mut ticks, mut searched) = (0, false);
        let mut lanes = Vec::new();
        if self.search(connection, claim, &mut ticks, &mut searched).await? {
            lanes = self.ears.lanes.in_turn(claim.namespace, &claim.topics);
        }
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let topics: Vec<&str> = lanes.iter().map(|(topic, _)| topic.as_str()).collect();
        let shards: Vec<i32> = lanes.iter().map(|(_, shard)| *shard).collect();
        let mut transaction = connection.begin().await.map_err(fault::told)?;
        let rows = self
            .sql
            .pick
            .query()
            .bind(self.time())
            .bind(namespace(claim.namespace))
            .bind(&topics)
            .bind(&shards)
            .bind(i64::from(batch).min(PICKS_MAX))
            .fetch_all(&mut *transaction);
        let rows = rows.await.map_err(fault::told)?;
        let chosen = choose(&rows, batch, bytes_max)?;
        let granted = self
            .sql
            .grant
            .query()
            .bind(self.time())
            .bind(&chosen)
            .bind(Uuid::from_u128(claim.owner.as_u128()))
            .bind(claim.request.map(uuid))
            .bind(millis(claim.lease.get()))
            .fetch_all(&mut *transaction);
        let granted = granted.await.map_err(fault::told)?;
        transaction.commit().await.map_err(fault::told)?;
        let deliveries = granted.iter().map(|row| {
            let mut cells = Cells::new(row);
            let (fence, until) = (cells.next()?, cells.next()?);
            deliver(&mut cells, claim.owner, fence, until)
        });
        deliveries.collect()
    }
}

/// Whether others with the same topics can be served by the same statement.
fn is_plain(claim: &Claim) -> bool {
    claim.bytes_max.is_none() && claim.in_flight_max.is_none()
}

fn uuid(request: RequestId) -> Uuid {
    Uuid::from_u128(request.as_u128())
}

/// Takes lane by lane in turn what fits; a lane whose first does not fit is passed over.
fn choose(rows: &[PgRow], batch: u32, bytes_max: u64) -> Result<Vec<Uuid>, Error> {
    let mut lanes: Vec<Vec<(Uuid, u64)>> = Vec::new();
    let mut last = None;
    for row in rows {
        let mut cells = Cells::new(row);
        let (uid, place, bytes): (Uuid, i64, i64) = (cells.next()?, cells.next()?, cells.next()?);
        if last != Some(place) {
            lanes.push(Vec::new());
            last = Some(place);
        }
        if let Some(lane) = lanes.last_mut() {
            lane.push((uid, u64::try_from(bytes).unwrap_or_default()));
        }
    }
    let mut lanes: Vec<_> = lanes.into_iter().map(|lane| lane.into_iter().peekable()).collect();
    let (mut chosen, mut bytes) = (Vec::new(), 0_u64);
    while !lanes.is_empty() && chosen.len() < batch as usize {
        lanes.retain_mut(|lane| {
            if chosen.len() >= batch as usize {
                return false;
            }
            let fits = |next: &(Uuid, u64)| chosen.is_empty() || bytes + next.1 <= bytes_max;
            let Some((uid, size)) = lane.next_if(fits) else { return false };
            chosen.push(uid);
            bytes += size;
            true
        });
    }
    Ok(chosen)
}

impl<'a> Settling<'a> {
    /// Only acknowledgements of different messages go with a statement; one that is something else sends all to the desk.
    fn new(settlements: &'a [Settlement]) -> Self {
        let outcomes = vec![None; settlements.len()];
        let (uids, owners, fences) = (Vec::new(), Vec::new(), Vec::new());
        let mut settling = Self { settlements, outcomes, uids, owners, fences };
        let mut seen = HashSet::new();
        let plain = |item: &Settlement| item.verdict == Verdict::Ack && seen.insert(item.uid);
        if settlements.iter().all(plain) {
            settling.uids = settlements.iter().map(|item| Uuid::from_u128(item.uid.as_u128())).collect();
            settling.owners = settlements.iter().map(|item| Uuid::from_u128(item.owner.as_u128())).collect();
            settling.fences = settlements.iter().map(|item| count(item.fence.get())).collect();
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

/// How many claims at the head of the list one statement can serve; none if the first has wishes of its own.
fn run_of(claims: &[Claim]) -> usize {
    let first = &claims[0];
    let alike = |claim: &&Claim| {
        is_plain(claim) && claim.namespace == first.namespace && claim.topics == first.topics
    };
    claims.iter().take_while(alike).count()
}

impl<'a> Wishes<'a> {
    fn new(start: usize, claims: &'a [Claim]) -> Self {
        let open = claims.iter().map(|claim| claim.batch.get()).collect();
        Self {
            claims: claims.iter().enumerate().map(|(place, claim)| (start + place, claim)).collect(),
            open,
            had: vec![0; claims.len()],
        }
    }

    /// How many messages each lane gives at most, so that all get their turn.
    fn quota(&self, lanes: &[Lane]) -> i64 {
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
fn deliver(cells: &mut Cells<'_>, owner: Owner, fence: i64, until: i64) -> Result<Delivery, Error> {
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
