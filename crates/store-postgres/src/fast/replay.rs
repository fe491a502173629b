//! Claims with bounds of their own, and claims that came before.

use oncebox_core::{Claim, Delivery, Error, Lease};
use sqlx::PgConnection;
use uuid::Uuid;

use super::look::{Requests, uuid};
use super::settle::Settling;
use crate::codes::{moment, namespace};
use crate::fault;
use crate::rows::{Cells, delivery, fence};
use crate::store::PostgresStore;

impl PostgresStore {
    /// A claim with a bound on bytes, or on what is in flight.
    pub(crate) async fn claim_alone(
        &self,
        connection: &mut PgConnection,
        index: usize,
        claim: &Claim,
        settling: &mut Settling<'_>,
        deliveries: &mut [Vec<Delivery>],
    ) -> Result<(), Error> {
        let mut requests = Requests::new(index, std::slice::from_ref(claim));
        if let Some(max) = claim.in_flight_max {
            // What this call acknowledges is no longer in flight, and what it got before is not asked for again.
            self.ack(connection, settling).await?;
            if let Some(again) = self.replay(connection, claim).await? {
                deliveries[index] = again;
                return Ok(());
            }
            let left = self.left_in_flight(connection, claim, max).await?;
            if left == 0 {
                return Ok(());
            }
            for request in &mut requests.0 {
                request.open = request.open.min(left);
            }
        }
        self.serve(connection, requests, settling, deliveries).await
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
            cells.check_writable()?;
            let Some(granted) = cells.next()? else { return Ok(None) };
            let (granted, until) = (fence(granted)?, moment(cells.next()?));
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
    async fn left_in_flight(
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
        let row = counted.await.map_err(fault::told)?;
        let mut cells = Cells::new(&row);
        cells.check_writable()?;
        let counted: i64 = cells.next()?;
        let left = max.saturating_sub(u64::try_from(counted).unwrap_or_default());
        Ok(u32::try_from(left).unwrap_or(u32::MAX))
    }
}
