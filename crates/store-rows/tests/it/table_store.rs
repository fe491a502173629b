//! A store on the shared table. Its writing operations are the engine's; its reads load rows into a machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Notifier, Observation, Observed,
    Omitted, Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Rng, Scope, Settlement,
    Snapshot, Store, Timestamp, Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked, check_call,
    check_records, check_work,
};
use oncebox_store_rows::{Admission, Call, LockWait, PendingReport, Rotation, machine};
use oncebox_testkit::SplitMix;

use crate::table::{Row, Table};
use crate::table_rows::{TableRows, closed};

/// A handle to a table. Handles share nothing but the table.
pub(crate) struct TableStore {
    table: Arc<Table>,
    lock_wait: LockWait,
    ids: std::sync::Mutex<SplitMix>,
    notifier: Notifier,
    pending: PendingReport,
    rotation: Rotation,
    is_closed: AtomicBool,
}

impl TableStore {
    pub(crate) fn new(table: Arc<Table>, seed: u64, lock_wait: LockWait) -> Self {
        Self {
            table,
            lock_wait,
            ids: std::sync::Mutex::new(SplitMix::new(seed)),
            notifier: Notifier::default(),
            pending: PendingReport::default(),
            rotation: Rotation::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }

    fn check(&self, items: usize) -> Result<(), Error> {
        self.check_open()?;
        check_call(items)
    }

    /// Runs a call of the engine, then applies what it has caused.
    async fn call<T>(
        &self,
        run: impl AsyncFnOnce(&mut Call<'_, TableRows>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let seed = self.ids.lock().unwrap_or_else(PoisonError::into_inner).next_u64();
        let mut ids = SplitMix::new(seed);
        let mut call = Call::new(TableRows::new(self.table.clone()), &mut ids, self.lock_wait);
        let outcome = run(&mut call).await;
        for events in call.into_events() {
            self.pending.add(events.report);
            for (namespace, topic) in &events.woken {
                self.notifier.notify(*namespace, topic);
            }
        }
        outcome
    }

    /// Reads from a machine that holds some of the messages.
    fn read<T>(
        &self,
        is_wanted: impl Fn(&Row) -> bool,
        read: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T,
    ) -> Result<T, Error> {
        self.check_open()?;
        let now = self.table.clock.now();
        let wanted = |row: &Row| is_wanted(row).then(|| row.message.clone());
        let messages: Vec<_> = self.table.contents().rows.values().filter_map(wanted).collect();
        let mut machine = machine(&messages, now, 1, Admission::Open)?;
        let mut ids = SplitMix::new(1);
        Ok(read(&mut machine, &mut CallContext { now, ids: &mut ids, journal: &mut () }))
    }

    /// When the next maintenance is due.
    fn next_due(&self, budget: &Budget) -> Result<Option<Timestamp>, Error> {
        self.read(
            |_| true,
            |machine, context| {
                let all = Budget { items_max: u32::MAX, ..budget.clone() };
                let now = context.now;
                let MaintenanceReport { lapsed, expired, forgotten, next_due, .. } =
                    machine.maintain(context, all);
                // Something was left for the next run.
                if lapsed + expired + forgotten > 0 { Some(now) } else { next_due }
            },
        )
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for TableStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.shared = true;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.notifier.listen(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        self.check(observations.len())?;
        self.call(async |call| call.observe(observations).await).await
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        self.check(messages.len())?;
        self.call(async |call| call.accept(messages).await).await
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        self.check(begins.len())?;
        self.call(async |call| call.begin(begins).await).await
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        self.check_open()?;
        check_work(settlements.len(), claims)?;
        self.call(async |call| call.work(&self.rotation, settlements, claims).await).await
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        self.check(extensions.len())?;
        self.call(async |call| call.extend(extensions).await).await
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        self.check(orders.len())?;
        self.call(async |call| call.operate(orders).await).await
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.check(refs.len())?;
        let is_wanted = |row: &Row| {
            let message = &row.message;
            refs.iter().any(|target| match target {
                MessageRef::Uid(uid) => message.uid == *uid,
                MessageRef::Key(key) => message.keyed && message.key == *key,
            })
        };
        self.read(is_wanted, |machine, context| {
            refs.iter().map(|target| machine.get(context, target)).collect()
        })
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.read(|row| row.message.key == *key, |machine, context| machine.with_key(context, key, limit))
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.read(|_| true, |machine, context| machine.page(context, query))
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.read(|_| true, |machine, context| machine.counts(context, scope))
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.read(|_| true, |machine, context| machine.ready_topics(context, query))
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.read(|_| true, |machine, context| machine.topic_counts(context, query))
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        self.check(ops.len())?;
        check_records(ops)?;
        let mut records = self.table.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = SplitMix::new(1);
        let mut context = CallContext { now: self.table.clock.now(), ids: &mut ids, journal: &mut () };
        Ok(ops.iter().map(|op| records.run_record_op(&mut context, op)).collect())
    }

    async fn usage(&self) -> Result<Usage, Error> {
        self.check_open()?;
        Ok(Usage::new(Vec::new()))
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        self.check_open()?;
        let forgotten = self.call(async |call| call.maintain(&budget).await).await?;
        let mut report = self.pending.take();
        report.forgotten = forgotten.forgotten;
        report.dead_letters_forgotten = forgotten.dead_letters_forgotten;
        report.next_due = self.next_due(&budget)?;
        Ok(report)
    }

    async fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::SeqCst);
        self.notifier.close();
        Ok(())
    }
}
