//! After a restart, a mailbox lane does not deliver far ahead of the deliveries that were outstanding before
//! (MBX-G-9).
//!
//! On a shared database, a restart is a process that starts to serve. The deliveries that are outstanding when it
//! first claims from the mailbox are *inherited*: some process made them before. Past the oldest of them, processes
//! that started deliver at most 32 messages of the lane together, until that delivery is settled or its visibility
//! timeout ends. The table `ahead` records what they delivered, and a claim from such a lane locks the lane's row
//! there. A process without inherited deliveries neither reads nor writes the table. See ADR 0008.

mod ahead;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as Lock, PoisonError};

use oncebox_core::{Error, Namespace, Shard, Topic};
use sqlx::PgConnection;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use self::ahead::{Ahead, Inherited, ReorderLimits};
use self::ahead::{Delivered, Outstanding};
use crate::db_error;
use crate::hints::Lane;
use crate::lanes::columns;
use crate::row_transaction::Failure;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// The deliveries that a process inherited when it started to serve.
#[derive(Default)]
pub(crate) struct Restart {
    /// `None` until the first claim from the mailbox. Claims run one at a time while an inherited delivery is
    /// outstanding.
    inherited: Mutex<Option<Inherited>>,
    /// No inherited delivery is outstanding any more, and none ever will be.
    finished: AtomicBool,
    depths: Lock<BTreeMap<Shard, u64>>,
}

impl Restart {
    /// By shard, the maximum number of messages that a lane delivered past its oldest inherited delivery.
    pub(crate) fn depths(&self) -> BTreeMap<Shard, u64> {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records what limited lanes delivered, with the fences.
    pub(crate) fn record(&self, inherited: &Inherited, ahead: &mut Ahead, delivered: &[(Lane, i64, i64)]) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, number, fence) in delivered {
            let depth = inherited.record_delivery(ahead, lane, *number, *fence) as u64;
            let shard = Shard(u16::try_from(lane.1).unwrap_or_default());
            if depth > 0 {
                let max_depth = depths.entry(shard).or_default();
                *max_depth = depth.max(*max_depth);
            }
        }
    }
}

impl PostgresStore {
    /// The inherited deliveries that are still outstanding, if any of them limits lanes of the namespace.
    pub(crate) async fn inherited(
        &self,
        connection: &mut PgConnection,
        namespace: Namespace,
        lanes: &[Lane],
    ) -> Result<Option<MutexGuard<'_, Option<Inherited>>>, Error> {
        if namespace != Namespace::Mailbox || self.restart.finished.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut inherited = self.restart.inherited.lock().await;
        if inherited.is_none() {
            *inherited = Some(self.inherit(connection).await?);
        }
        let Some(known) = inherited.as_mut() else { return Ok(None) };
        let (uids, fences) = known.outstanding(lanes);
        if !uids.is_empty() {
            let still = self.sql.still_outstanding.query().bind(self.time()).bind(&uids).bind(&fences);
            let rows = still.fetch_all(&mut *connection).await.map_err(db_error::into_error)?;
            let still = rows.iter().map(|row| Cells::new(row).next());
            known.retain(lanes, &still.collect::<Result<_, Error>>()?);
        }
        if known.is_empty() {
            self.restart.finished.store(true, Ordering::Release);
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

    /// Locks the rows of limited lanes and reads what was delivered from them.
    pub(crate) async fn lock_ahead(
        &self,
        transaction: &mut PgConnection,
        limited: &BTreeMap<Lane, i64>,
    ) -> Result<Ahead, Failure> {
        let lanes: Vec<Lane> = limited.keys().cloned().collect();
        let (topics, shards) = columns(&lanes);
        let untils: Vec<_> = limited.values().copied().collect();
        let lock = self.sql.ahead_lock.query().bind(topics).bind(shards).bind(untils);
        let mut ahead = Ahead::new();
        for row in lock.fetch_all(transaction).await? {
            let mut cells = Cells::new(&row);
            let lane = (Topic::new(cells.next::<String>()?).map_err(Error::from)?, cells.next()?);
            ahead.insert(lane, Delivered::new(cells.next()?, cells.next()?));
        }
        Ok(ahead)
    }

    /// Writes what was delivered from lanes whose rows are locked.
    pub(crate) async fn write_ahead(
        &self,
        transaction: &mut PgConnection,
        ahead: &Ahead,
        lanes: &BTreeSet<&Lane>,
    ) -> Result<(), Failure> {
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
        write.execute(transaction).await?;
        Ok(())
    }
}
