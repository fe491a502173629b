//! The primitives of the engine on the shared table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oncebox_core::machine::{CallContext, Effect, Journal, RecordChange, RecordJournal, TimedEffect};
use oncebox_core::{
    Attributes, Budget, Error, ErrorKind, MessageState, Namespace, Number, Payload, Snapshot, Timestamp,
    Topics, Uid,
};
use oncebox_store_rows::{
    Admission, Body, Changes, ClaimIdentity, LaneKey, LanePosition, LockWait, Rows, Search, Sought,
    StepFailure, TICKET_SIZE, Ticket, Wanted, Write, lane_key_of_snapshot, machine,
};
use oncebox_testkit::SplitMix;

use crate::table::{Contents, ReadVersions, Row, RowWrite, Table};

/// A connection to the table.
pub(crate) struct TableRows {
    pub(crate) table: Arc<Table>,
    wait: LockWait,
    versions: ReadVersions,
    writes: Vec<RowWrite>,
    now: Timestamp,
}

impl TableRows {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let (versions, writes) = (ReadVersions::default(), Vec::new());
        Self { table, wait: LockWait::Block, versions, writes, now: Timestamp::EPOCH }
    }

    /// Every statement may fail, and lets other tasks run.
    async fn statement(&self) -> Result<(), StepFailure> {
        tokio::task::yield_now().await;
        if self.table.fails() { Err(StepFailure::Conflict) } else { Ok(()) }
    }

    /// Waits until the key is not locked.
    async fn wait_for(&self, key: &oncebox_core::Key) -> Result<(), StepFailure> {
        loop {
            let unlocked = self.table.unlocked.notified();
            if !self.table.is_locked(key) {
                return Ok(());
            }
            if self.wait == LockWait::FailFast {
                return Err(StepFailure::LockTimeout);
            }
            self.table.waiting.notify_one();
            unlocked.await;
        }
    }
}

impl Rows for TableRows {
    // Sixteen racing callers and some conflicts without a cause.
    const ATTEMPTS_MAX: u32 = 200;

    async fn begin(&mut self, wait: LockWait) -> Result<(), StepFailure> {
        (self.wait, self.versions) = (wait, ReadVersions::default());
        self.writes.clear();
        self.statement().await
    }

    async fn load(&mut self, wanted: Wanted<'_>) -> Result<Vec<Snapshot<Body>>, StepFailure> {
        self.statement().await?;
        if let Wanted::Named(targets) = wanted {
            for key in &targets.keys {
                self.wait_for(key).await?;
            }
        }
        let contents = self.table.contents();
        let uids: BTreeSet<Uid> = match wanted {
            Wanted::Named(targets) => {
                let holders = targets.keys.iter().filter_map(|key| contents.holder(key));
                targets.uids.iter().copied().chain(holders).collect()
            }
            Wanted::Due { items_max, .. } => due(&contents, self.table.clock.now(), items_max as usize),
        };
        Ok(uids.into_iter().filter_map(|uid| contents.read(uid, &mut self.versions)).collect())
    }

    async fn ticket(&mut self) -> Result<Ticket, StepFailure> {
        self.statement().await?;
        let floor = self.table.contents().next_ticket() * TICKET_SIZE;
        Ok(Ticket { now: self.table.clock.now(), floor, admission: Admission::Open })
    }

    async fn count_unfinished(&mut self, lanes: &[(LaneKey, u64)]) -> Result<Vec<u64>, StepFailure> {
        self.statement().await?;
        let contents = self.table.contents();
        let count = |(lane, most): &(LaneKey, u64)| {
            let is_in = |row: &&Row| {
                row.message.state == MessageState::Processing
                    && lane_key_of_snapshot(&row.message).as_ref() == Some(lane)
            };
            (contents.rows.values().filter(is_in).count() as u64).min(*most)
        };
        Ok(lanes.iter().map(count).collect())
    }

    async fn store(&mut self, changes: Changes<'_>) -> Result<(), StepFailure> {
        self.statement().await?;
        self.now = changes.now;
        let write = |write: &Write| match write {
            Write::Changed(message) | Write::Added(message) => (message.uid, Some(message.clone())),
            Write::Removed(uid) => (*uid, None),
        };
        self.writes.extend(changes.writes.iter().map(write));
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), StepFailure> {
        self.statement().await?;
        let (versions, writes) = (std::mem::take(&mut self.versions), std::mem::take(&mut self.writes));
        self.table.contents().commit(&versions, writes, self.now).map_err(|_| StepFailure::Conflict)
    }
}

impl Search for TableRows {
    async fn find(&mut self, sought: Sought<'_>) -> Result<Vec<Uid>, StepFailure> {
        self.statement().await?;
        let (contents, now) = (self.table.contents(), self.table.clock.now());
        Ok(match sought {
            Sought::Claimable { namespace, topics, after, items_max } => {
                let lanes = claimable(&contents, now, namespace, topics);
                in_turn(lanes, after, items_max)
            }
            Sought::Removable { budget, items_max } => {
                let messages: Vec<_> = contents.rows.values().map(|row| row.message.clone()).collect();
                let mut removable = removable(&messages, now, budget)?;
                removable.truncate(items_max);
                removable
            }
        })
    }

    async fn load_request(&mut self, identity: &ClaimIdentity) -> Result<Vec<Snapshot<Body>>, StepFailure> {
        self.statement().await?;
        let contents = self.table.contents();
        let uids = contents.read_request(identity, &mut self.versions);
        Ok(uids.into_iter().filter_map(|uid| contents.read(uid, &mut self.versions)).collect())
    }

    async fn count_in_flight(&mut self, namespace: Namespace) -> Result<u64, StepFailure> {
        self.statement().await?;
        let now = self.table.clock.now();
        let in_flight = |row: &&Row| {
            let lease = row.message.lease().filter(|lease| lease.until > now);
            row.message.key.namespace == namespace
                && row.message.state == MessageState::Processing
                && lease.is_some()
        };
        Ok(self.table.contents().rows.values().filter(in_flight).count() as u64)
    }

    async fn contents(&mut self, uids: &[Uid]) -> Result<Vec<(Payload, Attributes)>, StepFailure> {
        self.statement().await?;
        let contents = self.table.contents();
        let content = |uid| {
            let content = contents.rows.get(uid).and_then(|row| row.message.content.clone());
            // Another transaction has erased the message: the commit would fail, too.
            let content = content.ok_or(StepFailure::Conflict)?;
            Ok((content.payload, content.attributes))
        };
        uids.iter().map(content).collect()
    }
}

/// The messages with the timers that have been due for longest.
fn due(contents: &Contents, now: Timestamp, items_max: usize) -> BTreeSet<Uid> {
    let timers = contents.rows.values().filter_map(|row| Some((row.timer?, row.message.uid)));
    let mut due: Vec<_> = timers.filter(|(at, _)| *at <= now).collect();
    due.sort();
    due.into_iter().take(items_max).map(|(_, uid)| uid).collect()
}

/// The claimable messages of each lane, in order.
fn claimable(
    contents: &Contents,
    now: Timestamp,
    namespace: Namespace,
    topics: &Topics,
) -> BTreeMap<LanePosition, BTreeMap<Number, Uid>> {
    let messages = || {
        let messages = contents.rows.values().map(|row| &row.message);
        messages.filter(|message| message.key.namespace == namespace)
    };
    let partitions_in_flight: BTreeSet<_> = messages()
        .filter_map(|message| message.grant.as_ref().filter(|grant| grant.end.is_none())?.partition.as_ref())
        .collect();
    let mut first_in_partition = BTreeMap::new();
    let mut lanes: BTreeMap<LanePosition, BTreeMap<Number, Uid>> = BTreeMap::new();
    let queued = || {
        messages().filter_map(|message| {
            let content = message.content.as_ref()?;
            let is_queued = message.state == MessageState::Processing
                && message.lease().is_none()
                && content.due.is_none_or(|due| due <= now);
            is_queued.then_some((message, content))
        })
    };
    for (message, content) in queued() {
        if let Some(partition) = &content.partition {
            let first = first_in_partition.entry(partition).or_insert(message.number);
            *first = message.number.min(*first);
        }
    }
    for (message, content) in queued() {
        let is_blocked = content.partition.as_ref().is_some_and(|partition| {
            partitions_in_flight.contains(partition) || first_in_partition[partition] != message.number
        });
        let waits = message.retry_at.is_some_and(|at| at > now);
        let has_expired = content.expires.is_some_and(|at| at <= now);
        if !is_blocked && !waits && !has_expired && topics.contains(&content.topic) {
            let lane = (content.topic.clone(), content.shard);
            lanes.entry(lane).or_default().insert(message.number, message.uid);
        }
    }
    lanes
}

/// The lanes take turns, beginning after `after`.
fn in_turn(
    lanes: BTreeMap<LanePosition, BTreeMap<Number, Uid>>,
    after: Option<&LanePosition>,
    items_max: usize,
) -> Vec<Uid> {
    let (later, earlier): (Vec<_>, Vec<_>) =
        lanes.into_iter().partition(|(lane, _)| after.is_none_or(|after| lane > after));
    let mut lanes: Vec<_> =
        later.into_iter().chain(earlier).map(|(_, messages)| messages.into_values()).collect();
    let mut found = Vec::new();
    while found.len() < items_max && !lanes.is_empty() {
        lanes.retain_mut(|lane| {
            let next = lane.next();
            found.extend(next);
            next.is_some()
        });
    }
    found.truncate(items_max);
    found
}

/// Notes which messages a machine drops.
#[derive(Default)]
struct Dropped(Vec<Uid>);

impl RecordJournal for Dropped {
    fn record_change(&mut self, _: &str, _: RecordChange<'_>) {}
}

impl<P> Journal<P> for Dropped {
    fn record(&mut self, record: TimedEffect<'_, P>) {
        if matches!(record.effect, Effect::Dropped) {
            self.0.push(record.uid);
        }
    }
}

/// The messages that maintenance with unlimited time would forget.
fn removable(messages: &[Snapshot], now: Timestamp, budget: &Budget) -> Result<Vec<Uid>, Error> {
    let mut machine = machine(messages, now, 1, Admission::Open)?;
    let (mut ids, mut dropped) = (SplitMix::new(1), Dropped::default());
    let mut context = CallContext { now, ids: &mut ids, journal: &mut dropped };
    machine.maintain(&mut context, Budget { items_max: u32::MAX, ..budget.clone() });
    Ok(dropped.0)
}

/// The error of a closed store.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed: open it again")
}
