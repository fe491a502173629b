//! Claims with wishes of their own: a bound on bytes, or on what is in flight.

use oncebox_core::{Claim, Delivery, Error, Lease};
use sqlx::postgres::PgRow;
use sqlx::{Acquire, PgConnection};
use uuid::Uuid;

use crate::codes::{millis, moment, namespace};
use crate::fault;
use crate::lanes::columns;
use crate::round::{Wish, Wishes, limit, uuid};
use crate::rows::{Cells, delivery, fence};
use crate::settle::Settling;
use crate::store::PostgresStore;

/// Messages of one lane that a claim with a bound on bytes looks at, at most.
const PICKS_MAX: i64 = 1_000;

impl PostgresStore {
    /// A claim with wishes of its own: a repeat, a bound on bytes or on what is in flight.
    pub(crate) async fn claim_alone(
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
        let wishes = Wishes(vec![Wish { index: 0, claim, open: batch, had: 0 }]);
        self.serve(connection, wishes, &mut Settling::new(&[]), &mut deliveries).await?;
        Ok(deliveries.pop().unwrap_or_default())
    }

    /// What the same claim got before and still has; none if it has nothing.
    pub(crate) async fn replay(
        &self,
        connection: &mut PgConnection,
        claim: &Claim,
    ) -> Result<Option<Vec<Delivery>>, Error> {
        let Some(request) = claim.request_identity() else { return Ok(None) };
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
            let (granted, until) = (fence(cells.next()?)?, moment(cells.next()?));
            let superseded: bool = cells.next()?;
            let lease = Lease { owner: claim.owner, fence: granted, until };
            let delivery = delivery(&mut cells, claim.namespace, lease)?;
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
        let wishes = Wishes::new(0, std::slice::from_ref(claim));
        self.search(connection, &wishes, &mut ticks, &mut searched).await?;
        let lanes = self.ears.lanes.in_turn(claim.namespace, &claim.topics);
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let (topics, shards) = columns(&lanes);
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
            .fetch_all(&mut transaction);
        let rows = rows.await.map_err(fault::told)?;
        let chosen = choose(&rows, batch, bytes_max)?;
        let granted = self
            .sql
            .grant
            .query()
            .bind(self.time())
            .bind(&chosen)
            .bind(Uuid::from_u128(claim.owner.as_u128()))
            .bind(claim.request_identity().map(uuid))
            .bind(millis(claim.lease.get()))
            .bind(limit(claim))
            .fetch_all(&mut transaction);
        let granted = granted.await.map_err(fault::told)?;
        transaction.commit().await.map_err(fault::told)?;
        let deliveries = granted.iter().map(|row| {
            let mut cells = Cells::new(row);
            let (granted, until) = (fence(cells.next()?)?, moment(cells.next()?));
            delivery(&mut cells, claim.namespace, Lease { owner: claim.owner, fence: granted, until })
        });
        deliveries.collect()
    }
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
