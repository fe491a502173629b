//! Repeated claims.

use oncebox_core::{Claim, Delivery, Error, Lease};
use sqlx::PgConnection;
use uuid::Uuid;

use super::work_statement::uuid;
use crate::codes::{namespace, timestamp};
use crate::db_error;
use crate::rows::{Cells, delivery, fence};
use crate::store::PostgresStore;

impl PostgresStore {
    /// The deliveries that an earlier attempt of the same claim leased and still holds; `None` if there are none.
    pub(super) async fn replay(
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
}
