//! Claims with limits of their own, and repeated claims.

use oncebox_core::{Claim, Delivery, Error, Lease};
use sqlx::PgConnection;
use uuid::Uuid;

use super::settle::PendingSettlements;
use super::work_statement::{Requests, uuid};
use crate::codes::{namespace, timestamp};
use crate::db_error;
use crate::rows::{Cells, delivery, fence};
use crate::store::PostgresStore;

impl PostgresStore {
    /// Serves a claim with a limit on bytes or on messages in flight.
    pub(crate) async fn claim_bounded(
        &self,
        connection: &mut PgConnection,
        index: usize,
        claim: &Claim,
        pending: &mut PendingSettlements<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let mut requests = Requests::new(index, std::slice::from_ref(claim));
        if let Some(max) = claim.in_flight_max {
            // Deliveries that this call acknowledges are no longer in flight, and a repeated claim returns its
            // earlier deliveries.
            self.ack(connection, pending).await?;
            if let Some(previous) = self.replay(connection, claim).await? {
                deliveries[index] = previous;
                return Ok(());
            }
            let left = self.in_flight_left(connection, claim, max).await?;
            if left == 0 {
                return Ok(());
            }
            for request in &mut requests.0 {
                request.remaining = request.remaining.min(left);
            }
        }
        self.serve(connection, requests, pending, deliveries).await
    }

    /// The deliveries that an earlier attempt of the same claim leased and still holds; `None` if there are none.
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
        let rows = rows.await.map_err(db_error::into_error)?;
        let mut deliveries = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut cells = Cells::new(row);
            cells.check_writable()?;
            let Some(granted) = cells.next()? else { return Ok(None) };
            let (granted, until) = (fence(granted)?, timestamp(cells.next()?));
            let superseded: bool = cells.next()?;
            let lease = Lease { owner: claim.owner, fence: granted, until };
            let delivery = delivery(&mut cells, claim.namespace, lease)?;
            if !superseded {
                deliveries.push(delivery);
            }
        }
        Ok(Some(deliveries))
    }

    /// How many more messages of the claim's namespace may be in flight.
    async fn in_flight_left(
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
        let row = counted.await.map_err(db_error::into_error)?;
        let mut cells = Cells::new(&row);
        cells.check_writable()?;
        let counted: i64 = cells.next()?;
        let left = max.saturating_sub(u64::try_from(counted).unwrap_or_default());
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }
}
