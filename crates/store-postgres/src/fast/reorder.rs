//! Claims from mailbox lanes that are limited after a restart, while the record of their deliveries is locked.

use std::collections::BTreeSet;

use sqlx::{Acquire, PgConnection};

use super::settle::PendingSettlements;
use super::work_statement::{LaneScan, LockedAcks, Requests, WorkResult};
use crate::restart::{Ahead, Inherited};
use crate::row_transaction::Failure;
use crate::store::PostgresStore;

impl PostgresStore {
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
    ) -> Result<WorkResult, Failure> {
        let limited = inherited.limited_lanes(scan.lanes);
        let mut transaction = connection.begin().await?;
        let mut ahead = match self.lock_ahead(&mut transaction, &limited).await {
            Err(Failure::LockTimeout) => {
                transaction.rollback().await?;
                transaction = connection.begin().await?;
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
        transaction.commit().await?;
        result.mark_limited(&limits);
        Ok(result)
    }
}
