//! Claims with limits of their own.

use oncebox_core::{Claim, Delivery, Error};
use sqlx::PgConnection;

use super::pending::PendingSettlements;
use super::work_statement::Requests;
use crate::codes::namespace;
use crate::db_error;
use crate::rows::Cells;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Serves a claim with a limit on bytes or on messages in flight.
    pub(super) async fn claim_bounded(
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
