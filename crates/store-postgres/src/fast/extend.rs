//! Extending leases, with one statement.

use std::collections::HashMap;

use oncebox_core::{Error, Extended, Extension};
use uuid::Uuid;

use crate::codes::{bigint, millis, timestamp};
use crate::db_error;
use crate::rows::Cells;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Extends leases of distinct messages.
    pub(crate) async fn extend_all(&self, extensions: &[&Extension]) -> Result<Vec<Extended>, Error> {
        let uid = |extension: &&Extension| Uuid::from_u128(extension.uid.as_u128());
        let uids: Vec<_> = extensions.iter().map(uid).collect();
        let owners: Vec<_> = extensions.iter().map(|one| Uuid::from_u128(one.owner.as_u128())).collect();
        let fences: Vec<_> = extensions.iter().map(|one| bigint(one.fence.get())).collect();
        let leases: Vec<_> = extensions.iter().map(|one| millis(one.lease.get())).collect();
        let connection = self.reserve.for_heartbeats(&self.pool).await?;
        let mut connection = self.availability.track(connection);
        let rows = self
            .sql
            .extend
            .query()
            .bind(self.time())
            .bind(&uids)
            .bind(&owners)
            .bind(&fences)
            .bind(&leases)
            .fetch_all(&mut connection);
        let rows = rows.await.map_err(db_error::into_error);
        let rows = Self::release(connection, rows)?;
        let mut outcomes = HashMap::new();
        for row in &rows {
            let mut cells = Cells::new(row);
            let (uid, until): (Uuid, Option<i64>) = (cells.next()?, cells.next()?);
            outcomes.insert(uid, until.map_or(Extended::Locked, |until| Extended::Until(timestamp(until))));
        }
        Ok(uids.iter().map(|uid| outcomes.get(uid).copied().unwrap_or(Extended::LeaseLost)).collect())
    }
}
