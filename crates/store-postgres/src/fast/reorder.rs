//! Claims from mailbox lanes that are limited after a restart, while the record of their deliveries is locked.

use std::collections::{BTreeMap, BTreeSet};

use oncebox_core::{Error, Namespace, Topic};
use oncebox_store_rows::StepFailure;
use oncebox_system::uptime;
use sqlx::{Acquire, PgConnection};
use tokio::sync::MutexGuard;

use super::pending::PendingSettlements;
use super::work_statement::{LaneScan, LockedAcks, Requests, WorkResult};
use crate::db_error::{self, step_failure};
use crate::hints::{Lane, columns};
use crate::restart::{Ahead, Delivered, Inherited, Outstanding};
use crate::rows::Cells;
use crate::store::PostgresStore;

impl PostgresStore {
    /// The inherited deliveries that are still outstanding, if any of them limits lanes of the namespace.
    pub(super) async fn inherited(
        &self,
        connection: &mut PgConnection,
        namespace: Namespace,
        lanes: &[Lane],
    ) -> Result<Option<MutexGuard<'_, Option<Inherited>>>, Error> {
        if namespace != Namespace::Mailbox {
            return Ok(None);
        }
        let Some(mut inherited) = self.restart.inherited().await else { return Ok(None) };
        if inherited.is_none() {
            *inherited = Some(self.inherit(connection).await?);
        }
        let Some(known) = inherited.as_mut() else { return Ok(None) };
        let mut lanes = lanes.to_vec();
        lanes.extend(known.lanes_to_check(uptime()));
        let (uids, fences) = known.outstanding(&lanes);
        if !uids.is_empty() {
            let still = self.sql.still_outstanding.query().bind(self.time()).bind(&uids).bind(&fences);
            let rows = still.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
            let still = rows.iter().map(|row| Cells::new(row).next());
            known.retain(&lanes, &still.collect::<Result<_, Error>>()?);
        }
        if known.is_empty() {
            self.restart.finish();
            return Ok(None);
        }
        Ok(Some(inherited))
    }

    /// Reads the outstanding deliveries of the mailbox. Deletes rows of the table `ahead` that earlier starts left
    /// behind and that have expired.
    async fn inherit(&self, connection: &mut PgConnection) -> Result<Inherited, Error> {
        let delete = self.sql.ahead_delete.query().bind(self.time());
        delete.execute(&mut *connection).await.map_err(db_error::into_error)?;
        let rows = self.sql.inherited.query().bind(self.time()).fetch_all(connection).await;
        let mut inherited = Inherited::default();
        for row in rows.map_err(db_error::into_error)? {
            let mut cells = Cells::new(&row);
            let (uid, fence, extend_max, number) =
                (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
            let lane = (Topic::new(cells.next::<String>()?)?, cells.next()?);
            inherited.add(lane, number, Outstanding { uid, fence, extend_max });
        }
        Ok(inherited)
    }

    /// Locks the record of deliveries of the limited lanes, claims, and writes the new deliveries. If another process
    /// holds the lock for more than 50 ms, these lanes deliver nothing this time.
    pub(super) async fn run_with_reorder_limits(
        &self,
        connection: &mut PgConnection,
        pending: &PendingSettlements<'_>,
        requests: &Requests<'_>,
        scan: &LaneScan<'_>,
        inherited: &Inherited,
        locked_acks: LockedAcks,
    ) -> Result<WorkResult, StepFailure> {
        let limited = inherited.limited_lanes(scan.lanes);
        let mut transaction = connection.begin().await.map_err(step_failure)?;
        let mut ahead = match self.lock_ahead(&mut transaction, &limited).await {
            Err(StepFailure::LockTimeout) => {
                transaction.rollback().await.map_err(step_failure)?;
                transaction = connection.begin().await.map_err(step_failure)?;
                Ahead::new()
            }
            locked => locked?,
        };
        let limits = inherited.limits(scan.lanes, scan.quota, &ahead);
        let scan = LaneScan { limits: &limits, ..*scan };
        let mut result = self.run_once(&mut transaction, pending, requests, &scan, locked_acks).await?;
        let delivered = result.delivered();
        self.restart.record(inherited, &mut ahead, &delivered);
        let lanes: BTreeSet<_> = delivered.iter().map(|(lane, ..)| lane).collect();
        self.write_ahead(&mut transaction, &ahead, &lanes).await?;
        transaction.commit().await.map_err(step_failure)?;
        result.mark_limited(&limits);
        Ok(result)
    }

    /// Locks the rows of limited lanes and reads what was delivered from them.
    async fn lock_ahead(
        &self,
        transaction: &mut PgConnection,
        limited: &BTreeMap<Lane, i64>,
    ) -> Result<Ahead, StepFailure> {
        let lanes: Vec<Lane> = limited.keys().cloned().collect();
        let (topics, shards) = columns(&lanes);
        let untils: Vec<_> = limited.values().copied().collect();
        let lock = self.sql.ahead_lock.query().bind(topics).bind(shards).bind(untils);
        let mut ahead = Ahead::new();
        for row in lock.fetch_all(transaction).await.map_err(step_failure)? {
            let mut cells = Cells::new(&row);
            let lane = (Topic::new(cells.next::<String>()?).map_err(Error::from)?, cells.next()?);
            ahead.insert(lane, Delivered::new(cells.next()?, cells.next()?));
        }
        Ok(ahead)
    }

    /// Writes what was delivered from lanes whose rows are locked.
    async fn write_ahead(
        &self,
        transaction: &mut PgConnection,
        ahead: &Ahead,
        lanes: &BTreeSet<&Lane>,
    ) -> Result<(), StepFailure> {
        let delivered = lanes.iter().filter_map(|lane| Some((*lane, ahead.get(*lane)?)));
        let one = |(lane, delivered): (&Lane, &Delivered)| {
            delivered.iter().map(|(number, fence)| (lane.clone(), number, fence)).collect::<Vec<_>>()
        };
        let all: Vec<_> = delivered.flat_map(one).collect();
        if all.is_empty() {
            return Ok(());
        }
        let lanes: Vec<Lane> = all.iter().map(|(lane, ..)| lane.clone()).collect();
        let (topics, shards) = columns(&lanes);
        let (numbers, fences): (Vec<_>, Vec<_>) =
            all.iter().map(|(_, number, fence)| (*number, *fence)).unzip();
        let write = self.sql.ahead_write.query().bind(topics).bind(shards).bind(numbers).bind(fences);
        write.execute(transaction).await.map_err(step_failure)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
