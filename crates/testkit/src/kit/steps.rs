//! Common steps of cases: each makes one call to the store and checks its outcome.

use std::time::Duration;

use oncebox_core::{
    Accepted, Action, Begin, Begun, Budget, Claim, Delivery, Extended, Extension, Key, Lease, MessageQuery,
    MessageRef, MessageSummary, NewMessage, Observation, Observed, Omitted, Operated, Order, Owner, Policy,
    Settled, Settlement, Snapshot, StoreExt, Timestamp, Uid,
};

use super::{Checked, LEASE, TICK, claim, claim_in, ids, owner, span};
use crate::fixture::{Fixture, TestResult};

impl Fixture {
    pub(crate) async fn now(&self) -> Timestamp {
        self.time.now().await
    }

    pub(crate) async fn advance(&self, by: Duration) {
        self.time.advance(by).await;
    }

    /// Advances to one tick before `by` has passed.
    pub(crate) async fn advance_almost(&self, by: Duration) {
        self.advance(by.saturating_sub(TICK)).await;
    }

    /// Accepts a message whose content must be new.
    pub(crate) async fn accept(&self, message: &NewMessage) -> Checked<MessageSummary> {
        match self.store.accept_one(message).await? {
            Accepted::New { summary, diverged: false } => Ok(summary),
            other => Err(format!("{} was not new: {other:?}", message.key.id).into()),
        }
    }

    /// Accepts new messages, one call each.
    pub(crate) async fn accept_all(&self, messages: &[NewMessage]) -> TestResult {
        for message in messages {
            self.accept(message).await?;
        }
        Ok(())
    }

    /// Accepts a message, whatever the outcome.
    pub(crate) async fn accept_again(&self, message: &NewMessage) -> Checked<Accepted> {
        Ok(self.store.accept_one(message).await?)
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Checked<Vec<Delivery>> {
        Ok(self.store.claim(claim).await?)
    }

    /// Claims exactly one message.
    pub(crate) async fn claim_one_by(&self, claim: &Claim) -> Checked<Delivery> {
        let deliveries = self.claim(claim).await?;
        let [delivery] = <[Delivery; 1]>::try_from(deliveries)
            .map_err(|other| format!("claimed {:?} instead of one message", ids(&other)))?;
        Ok(delivery)
    }

    /// Claims exactly one message of the inbox.
    pub(crate) async fn claim_one(&self) -> Checked<Delivery> {
        self.claim_one_by(&claim(1)).await
    }

    /// Checks which messages of the inbox are claimable, in order, and releases them again.
    pub(crate) async fn expect_claimable(&self, expected: &[&str]) -> TestResult {
        self.expect_claimable_by(&claim(100), expected).await
    }

    pub(crate) async fn expect_claimable_by(&self, claim: &Claim, expected: &[&str]) -> TestResult {
        let deliveries = self.claim(claim).await?;
        let releases: Vec<_> = deliveries.iter().map(Delivery::release).collect();
        self.store.settle(&releases).await?;
        let found = ids(&deliveries);
        if found == expected {
            Ok(())
        } else {
            Err(format!("{found:?} was claimable, not {expected:?}").into())
        }
    }

    pub(crate) async fn settle(&self, settlement: Settlement) -> Checked<Settled> {
        let settled = self.store.settle(&[settlement]).await?;
        settled.first().copied().ok_or_else(|| "a settlement had no outcome".into())
    }

    pub(crate) async fn extend(&self, extension: Extension) -> Checked<Extended> {
        let extended = self.store.extend(&[extension]).await?;
        extended.first().copied().ok_or_else(|| "an extension had no outcome".into())
    }

    /// Accepts a message of the inbox and acknowledges it at once.
    pub(crate) async fn finish(&self, message: &NewMessage) -> Checked<Delivery> {
        self.accept(message).await?;
        let claim = claim_in(message.key.namespace, 1);
        let delivery = self.claim_one_by(&claim).await?;
        self.settle(delivery.ack()).await?;
        Ok(delivery)
    }

    pub(crate) async fn find(&self, target: impl Into<MessageRef>) -> Checked<Option<Snapshot>> {
        Ok(self.store.get_one(&target.into()).await?)
    }

    /// Reads a message that must exist.
    pub(crate) async fn read(&self, target: impl Into<MessageRef>) -> Checked<Snapshot> {
        let target = target.into();
        let found = self.store.get_one(&target).await?;
        found.ok_or_else(|| format!("{target:?} is unknown").into())
    }

    pub(crate) async fn order(&self, target: impl Into<MessageRef>, action: Action) -> Checked<Operated> {
        Ok(self.store.operate_one(&Order { target: target.into(), action }).await?)
    }

    /// Executes an order that must change something.
    pub(crate) async fn change(
        &self,
        target: impl Into<MessageRef>,
        action: Action,
    ) -> Checked<MessageSummary> {
        match self.order(target, action).await? {
            Operated::Changed(summary) => Ok(summary),
            other => Err(format!("the order changed nothing: {other:?}").into()),
        }
    }

    pub(crate) async fn observe(&self, observation: Observation) -> Checked<Observed> {
        let observed = self.store.observe(&[observation]).await?;
        observed.into_iter().next().ok_or_else(|| "an observation had no outcome".into())
    }

    /// Observes a key that must be new.
    pub(crate) async fn observe_new(&self, observation: Observation) -> Checked<MessageSummary> {
        match self.observe(observation).await? {
            Observed::First(summary) => Ok(summary),
            other => Err(format!("the key was known: {other:?}").into()),
        }
    }

    pub(crate) async fn try_begin(&self, key: &Key, owner: Owner) -> Checked<Begun> {
        let request = Begin { key: key.clone(), owner, lease: span(LEASE), hold: Policy::LEDGER.hold };
        let begun = self.store.begin(&[request]).await?;
        begun.into_iter().next().ok_or_else(|| "a begin had no outcome".into())
    }

    /// Leases a key that must be free.
    pub(crate) async fn begin(&self, key: &Key) -> Checked<(Uid, Lease)> {
        match self.try_begin(key, owner(1)).await? {
            Begun::Acquired { uid, lease } => Ok((uid, lease)),
            other => Err(format!("the key was not free: {other:?}").into()),
        }
    }

    /// Runs maintenance until nothing is due.
    pub(crate) async fn maintain(&self, budget: &Budget) -> TestResult {
        for _ in 0..1_000 {
            let (report, now) = (self.store.maintain(budget.clone()).await?, self.now().await);
            if report.next_due.is_none_or(|due| due > now) {
                return Ok(());
            }
        }
        Err("maintenance does not end".into())
    }

    /// Reads a whole listing, page by page.
    pub(crate) async fn list(&self, query: &MessageQuery) -> Checked<Vec<Snapshot<Omitted>>> {
        let mut query = query.clone();
        let mut messages = Vec::new();
        for _ in 0..1_000 {
            let page = self.store.page(&query).await?;
            if page.messages.len() > query.size.get() as usize {
                return Err(format!("a page of {} messages", page.messages.len()).into());
            }
            messages.extend(page.messages);
            if page.next.is_none() {
                return Ok(messages);
            }
            query.after = page.next;
        }
        Err("the listing does not end".into())
    }
}
