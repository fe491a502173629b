//! `Store` on engine and journal: calls are applied under the lock, then wait for the journal.

use std::time::Duration;

use async_trait::async_trait;
use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{
    Accepted, Begin, Begun, Budget, Capabilities, Claim, Counts, Error, Extended, Extension, Interest, Key,
    MaintenanceReport, MessagePage, MessageQuery, MessageRef, NewMessage, Observation, Observed, Omitted,
    Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome, Scope, Settlement, Snapshot, Store,
    Topic, TopicPage, TopicQuery, Usage, Wakeups, Worked, check_records, check_work,
};

use crate::call::{Call, CallClass, into_error, limit_claims, or_saturated};
use crate::reservation::{
    self, CLAIM_HEADROOM_BYTES, MAINTENANCE_HEADROOM_BYTES, Reservation, SETTLEMENT_HEADROOM_BYTES,
};
use crate::shared::Goal;
use crate::store::EmbeddedStore;

/// Maximum number of messages that one maintenance call removes, and journal bytes for each of them.
const REMOVED_MAX: u32 = 10_000;
const REMOVED_BYTES: u64 = reservation::RECORD_REMOVED_BYTES;
/// Retry hint for callers while the disk is full.
const DISK_FULL_RETRY: Duration = Duration::from_secs(1);

impl EmbeddedStore {
    async fn read<T>(
        &self,
        items: usize,
        run: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T + Send,
    ) -> Result<T, Error> {
        let read = Call::read(items);
        self.call(&read, |machine, context, _| run(machine, context)).await.map_err(into_error)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::NONE;
        capabilities.atomic_calls = true;
        capabilities.durable = true;
        capabilities
    }

    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups> {
        self.notifier.listen(interest)
    }

    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error> {
        let bytes = observations.iter().map(reservation::observation).sum();
        let call = Call::accept(observations.len(), bytes, self.reserve_bytes);
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            observations.iter().map(|item| machine.observe(context, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_saturated(outcome, observations.len(), |bound| Observed::Saturated {
            retry_after: DISK_FULL_RETRY,
            bound,
        })
    }

    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let bytes = messages.iter().map(reservation::message).sum();
        let call = Call::accept(messages.len(), bytes, self.reserve_bytes);
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            messages.iter().map(|item| machine.accept(context, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_saturated(outcome, messages.len(), |bound| Accepted::Saturated {
            retry_after: DISK_FULL_RETRY,
            bound,
        })
    }

    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error> {
        let bytes = begins.iter().map(|begin| reservation::key(&begin.key)).sum();
        let lease = begins.iter().map(|begin| begin.lease.get()).max().unwrap_or_default();
        let call = Call { lease, ..Call::accept(begins.len(), bytes, self.reserve_bytes) };
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            begins.iter().map(|item| machine.begin(context, item)).collect()
        };
        let outcome = self.call(&call, run).await;
        or_saturated(outcome, begins.len(), |bound| Begun::Saturated { retry_after: DISK_FULL_RETRY, bound })
    }

    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        check_work(settlements.len(), claims)?;
        let lease = claims.iter().map(|claim| claim.lease.get()).max().unwrap_or_default();
        let (class, headroom) = match settlements {
            [] => (CallClass::Lease, CLAIM_HEADROOM_BYTES),
            _ => (CallClass::Update, SETTLEMENT_HEADROOM_BYTES),
        };
        let bytes = settlements.iter().map(reservation::settlement).sum();
        let claimed = claims.iter().map(|claim| claim.batch.get()).sum();
        let name_bytes = claims.iter().map(reservation::worker).max().unwrap_or_default();
        let call = Call {
            items: 0,
            class,
            reservation: Reservation { bytes, claimed, name_bytes, headroom },
            lease,
        };
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, claimed| Worked {
            settled: settlements.iter().map(|item| machine.settle(context, item)).collect(),
            deliveries: limit_claims(claims, claimed)
                .map(|claim| claim.map_or_else(Vec::new, |claim| machine.claim(context, &claim)))
                .collect(),
        };
        self.call(&call, run).await.map_err(into_error)
    }

    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let bytes = extensions.len() as u64 * reservation::RECORD_BYTES;
        let lease = extensions.iter().map(|extension| extension.lease.get()).max().unwrap_or_default();
        let call = Call { class: CallClass::Lease, lease, ..Call::update(extensions.len(), bytes) };
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            extensions.iter().map(|item| machine.extend(context, item)).collect()
        };
        self.call(&call, run).await.map_err(into_error)
    }

    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error> {
        let call = Call::update(orders.len(), orders.iter().map(reservation::order).sum());
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            orders.iter().map(|item| machine.operate(context, item)).collect()
        };
        self.call(&call, run).await.map_err(into_error)
    }

    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error> {
        self.read(refs.len(), |machine, context| refs.iter().map(|item| machine.get(context, item)).collect())
            .await
    }

    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error> {
        self.read(1, |machine, context| machine.with_key(context, key, limit)).await
    }

    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error> {
        self.read(1, |machine, context| machine.page(context, query)).await
    }

    async fn counts(&self, scope: &Scope) -> Result<Counts, Error> {
        self.read(1, |machine, context| machine.counts(context, scope)).await
    }

    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error> {
        self.read(1, |machine, context| machine.ready_topics(context, query)).await
    }

    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error> {
        self.read(1, |machine, context| machine.topic_counts(context, query)).await
    }

    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        check_records(ops)?;
        let bytes = ops.iter().map(reservation::record_op).sum();
        let call = if bytes == 0 { Call::read(ops.len()) } else { Call::update(ops.len(), bytes) };
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            ops.iter().map(|op| machine.run_record_op(context, op)).collect()
        };
        self.call(&call, run).await.map_err(into_error)
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = self.read(1, Machine::usage).await?;
        let state = self.shared.lock();
        if let Some(disk_error) = state.space.disk_error() {
            usage.bounds.push(state.space.bound());
            usage.problem = (!disk_error.full).then(|| disk_error.text.clone());
        }
        Ok(usage)
    }

    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error> {
        // Uses at most half of the free space: on a full disk each call removes fewer messages.
        let space = self.shared.lock().space.free();
        let space = space.saturating_sub(MAINTENANCE_HEADROOM_BYTES) / 2 / REMOVED_BYTES;
        let fitting = u32::try_from(space).unwrap_or(u32::MAX).clamp(1, REMOVED_MAX);
        let items_max = budget.items_max.min(fitting);
        let bytes = u64::from(items_max) * REMOVED_BYTES;
        let reservation =
            Reservation { bytes, claimed: 0, name_bytes: 0, headroom: MAINTENANCE_HEADROOM_BYTES };
        let call = Call { items: 1, class: CallClass::Maintenance, reservation, lease: Duration::ZERO };
        let run = |machine: &mut Machine, context: &mut CallContext<'_>, _| {
            machine.maintain(context, Budget { items_max, ..budget })
        };
        self.call(&call, run).await.map_err(into_error)
    }

    async fn close(&self) -> Result<(), Error> {
        let goal = {
            let last = self.shared.start_closing();
            self.notifier.close();
            Goal { written: last, durable: last, wrote: false }
        };
        self.shared.wait(goal).await?;
        self.shut_down();
        Ok(())
    }
}
