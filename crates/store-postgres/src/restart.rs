//! After a restart: a mailbox lane does not run far ahead of what was out before (MBX-G-9).
//!
//! On a shared database a restart is a process that begins to serve. The deliveries that are out when it first claims from the mailbox
//! were granted before it began, by whichever process; past the oldest of them the lane gives out at most 32 messages to processes that began,
//! until that delivery is settled or its visibility ends. What they gave out is in the table `ahead`, and a claim from such a lane holds the lane's
//! row there. A process that nothing holds back neither reads nor writes it. See ADR 0008.

mod ahead;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as Lock, PoisonError};

use oncebox_core::{Error, Namespace, Shard, Topic};
use sqlx::PgConnection;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) use self::ahead::{Ahead, Inherited, Limits};
use self::ahead::{Given, Out};
use crate::fast::columns;
use crate::fault;
use crate::hints::Lane;
use crate::locked::Failure;
use crate::rows::Cells;
use crate::store::PostgresStore;

/// What a process inherited when it began to serve.
#[derive(Default)]
pub(crate) struct Restart {
    /// None until the first claim from the mailbox. Claims go one by one while something inherited is out.
    inherited: Mutex<Option<Inherited>>,
    /// Nothing that was inherited is out any more, and nothing ever will be.
    over: AtomicBool,
    depths: Lock<BTreeMap<Shard, u64>>,
}

impl Restart {
    /// By shard, the most messages that a lane gave out past its oldest inherited delivery.
    pub(crate) fn depths(&self) -> BTreeMap<Shard, u64> {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what lanes that are held back gave out, under which fences.
    pub(crate) fn note(&self, inherited: &Inherited, ahead: &mut Ahead, given: &[(Lane, i64, i64)]) {
        let mut depths = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        for (lane, number, fence) in given {
            let depth = inherited.give(ahead, lane, *number, *fence) as u64;
            let shard = Shard(u16::try_from(lane.1).unwrap_or_default());
            if depth > 0 {
                let most = depths.entry(shard).or_default();
                *most = depth.max(*most);
            }
        }
    }
}

impl PostgresStore {
    /// What holds lanes of a namespace back, if anything does: what was inherited and is still out.
    pub(crate) async fn inherited(
        &self,
        connection: &mut PgConnection,
        space: Namespace,
        lanes: &[Lane],
    ) -> Result<Option<MutexGuard<'_, Option<Inherited>>>, Error> {
        if space != Namespace::Mailbox || self.restart.over.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut inherited = self.restart.inherited.lock().await;
        if inherited.is_none() {
            *inherited = Some(self.inherit(connection).await?);
        }
        let Some(known) = inherited.as_mut() else { return Ok(None) };
        let (uids, fences) = known.out(lanes);
        if !uids.is_empty() {
            let still = self.sql.still_out.query().bind(self.time()).bind(&uids).bind(&fences);
            let rows = still.fetch_all(&mut *connection).await.map_err(fault::told)?;
            let still = rows.iter().map(|row| Cells::new(row).next());
            known.retain(lanes, &still.collect::<Result<_, Error>>()?);
        }
        if known.is_empty() {
            self.restart.over.store(true, Ordering::Release);
            return Ok(None);
        }
        Ok(Some(inherited))
    }

    /// The deliveries of the mailbox that are out. What earlier starts left in the table `ahead` and is over goes.
    async fn inherit(&self, connection: &mut PgConnection) -> Result<Inherited, Error> {
        let forget = self.sql.ahead_forget.query().bind(self.time());
        forget.execute(&mut *connection).await.map_err(fault::told)?;
        let rows = self.sql.inherited.query().bind(self.time()).fetch_all(connection).await;
        let mut inherited = Inherited::default();
        for row in rows.map_err(fault::told)? {
            let mut cells = Cells::new(&row);
            let (uid, fence, extend_max, number) =
                (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
            let lane = (Topic::new(cells.next::<String>()?)?, cells.next()?);
            inherited.add(lane, number, Out { uid, fence, extend_max });
        }
        Ok(inherited)
    }

    /// Locks the rows of lanes that are held back, and reads what was given out of them.
    pub(crate) async fn lock_ahead(
        &self,
        transaction: &mut PgConnection,
        held: &BTreeMap<Lane, i64>,
    ) -> Result<Ahead, Failure> {
        let lanes: Vec<Lane> = held.keys().cloned().collect();
        let (topics, shards) = columns(&lanes);
        let untils: Vec<_> = held.values().copied().collect();
        let lock = self.sql.ahead_lock.query().bind(topics).bind(shards).bind(untils);
        let mut ahead = Ahead::new();
        for row in lock.fetch_all(transaction).await? {
            let mut cells = Cells::new(&row);
            let lane = (Topic::new(cells.next::<String>()?).map_err(Error::from)?, cells.next()?);
            ahead.insert(lane, Given::new(cells.next()?, cells.next()?));
        }
        Ok(ahead)
    }

    /// Writes what was given out of lanes whose rows are locked.
    pub(crate) async fn put_ahead(
        &self,
        transaction: &mut PgConnection,
        ahead: &Ahead,
        lanes: &BTreeSet<&Lane>,
    ) -> Result<(), Failure> {
        let given = lanes.iter().filter_map(|lane| Some((*lane, ahead.get(*lane)?)));
        let one = |(lane, given): (&Lane, &Given)| {
            given.iter().map(|(number, fence)| (lane.clone(), number, fence)).collect::<Vec<_>>()
        };
        let all: Vec<_> = given.flat_map(one).collect();
        if all.is_empty() {
            return Ok(());
        }
        let lanes: Vec<Lane> = all.iter().map(|(lane, ..)| lane.clone()).collect();
        let (topics, shards) = columns(&lanes);
        let (numbers, fences): (Vec<_>, Vec<_>) =
            all.iter().map(|(_, number, fence)| (*number, *fence)).unzip();
        let put = self.sql.ahead_put.query().bind(topics).bind(shards).bind(numbers).bind(fences);
        put.execute(transaction).await?;
        Ok(())
    }
}
