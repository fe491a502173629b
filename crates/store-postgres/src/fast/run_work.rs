//! Runs the statement that acknowledges and claims, with what this process knows about the lanes.

use std::sync::atomic::Ordering;

use oncebox_core::Error;
use oncebox_store_rows::StepFailure;
use oncebox_system::uptime;
use sqlx::PgConnection;

use super::pending::PendingSettlements;
use super::work_statement::{LaneScan, LaneSelection, LockedAcks, Requests, Timers, WorkResult};
use crate::db_error;
use crate::restart::{Inherited, ReorderLimits};
use crate::row_transaction::ATTEMPTS_MAX;
use crate::store::PostgresStore;

impl PostgresStore {
    /// Runs one statement: acknowledges, and claims from these lanes.
    pub(super) async fn run_work(
        &self,
        connection: &mut PgConnection,
        pending: &PendingSettlements<'_>,
        requests: &Requests<'_>,
        lanes: LaneSelection<'_>,
        timers: Timers,
    ) -> Result<WorkResult, Error> {
        let hints = &self.hints.lanes;
        let claim_namespace = requests.0.first().map(|request| request.claim.namespace);
        let starts = claim_namespace
            .map_or_else(Vec::new, |namespace| hints.starts(namespace, lanes.names, lanes.from, uptime()));
        let floors: Vec<i64> = starts.iter().map(|start| start.from).collect();
        let limiting = match claim_namespace {
            Some(namespace) => self.inherited(connection, namespace, lanes.names).await?,
            None => None,
        };
        let quota = requests.quota(lanes.names);
        let limits = ReorderLimits::default();
        let scan = LaneScan { lanes: lanes.names, floors: &floors, quota, limits: &limits, timers };
        let inherited = limiting.as_ref().and_then(|inherited| inherited.as_ref());
        let mut result = self.run_with_retries(connection, pending, requests, &scan, inherited).await?;
        drop(limiting);
        let ended = uptime();
        if timers == Timers::Check && !result.timers_due && result.acked.len() == pending.uids.len() {
            self.hints.timers_checked_until.fetch_max(result.now, Ordering::Relaxed);
        }
        for (index, (lane, start)) in lanes.names.iter().zip(&starts).enumerate() {
            if let (Some(namespace), Some(found)) = (claim_namespace, result.ranges.get(&index)) {
                hints.record_scan(namespace, lane, *start, *found, ended);
            }
        }
        if std::mem::take(&mut result.partition_freed) {
            // Messages of the freed partitions may be waiting in any lane.
            hints.invalidate_all();
        }
        Ok(result)
    }

    async fn run_with_retries(
        &self,
        connection: &mut PgConnection,
        pending: &PendingSettlements<'_>,
        requests: &Requests<'_>,
        scan: &LaneScan<'_>,
        inherited: Option<&Inherited>,
    ) -> Result<WorkResult, Error> {
        // Only inherited deliveries of these lanes matter.
        let inherited = inherited.filter(|inherited| !inherited.limited_lanes(scan.lanes).is_empty());
        let mut locked_acks = LockedAcks::Wait;
        for _ in 1..ATTEMPTS_MAX {
            let result = match inherited {
                Some(inherited) => {
                    self.run_with_reorder_limits(connection, pending, requests, scan, inherited, locked_acks)
                        .await
                }
                None => self.run_once(connection, pending, requests, scan, locked_acks).await,
            };
            match result {
                Ok(result) => return Ok(result),
                // Another transaction has locked a message or the table's extension lock, or there was a conflict:
                // nothing was changed.
                Err(StepFailure::LockTimeout | StepFailure::Conflict) => locked_acks = LockedAcks::Skip,
                Err(StepFailure::Failed(error)) => return Err(error),
            }
        }
        Err(db_error::blocked())
    }
}
