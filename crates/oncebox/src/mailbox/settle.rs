//! Settling deliveries: ack, nack, fail and extend.

mod request;

use std::collections::HashSet;
use std::time::Duration;

use oncebox_core::{
    DeadReason, Error, ErrorKind, Extended, MessageRef, Namespace, Settled, Settlement, Snapshot, Span,
    StoreExt, Timestamp, Trace, Verdict,
};
use tokio::time::sleep;
use tracing::debug;

use super::delivery_ref::DeliveryRef;
use super::receive::Wait;
use super::{Mailbox, Receive, Received, log};
use crate::lease_token::LeaseToken;

use request::SettleAction;

pub use request::Settle;

/// The outcome of settling a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettleOutcome {
    /// The settlement was applied.
    Ok,
    /// The settlement was applied, and the message is now a dead letter: its attempts are used up, or it was failed.
    Dead,
    /// The delivery was extended and is held until this time.
    Until(Timestamp),
    /// The delivery is no longer held, or never was; nothing changed.
    LeaseLost,
    /// The message was delivered more than once, so its id does not identify the delivery: use the receipt.
    ReceiptRequired,
}

/// How often leases that another transaction has locked are extended again.
const LOCKED_RETRIES: u32 = 20;
const LOCKED_RETRY: Duration = Duration::from_millis(50);

/// One settle request, translated to a call of the store.
enum Step {
    /// The trace of the message is present if the message was read.
    Settle(Settlement, Option<Trace>),
    Extend(LeaseToken, Span, Option<Trace>),
    Rejected(SettleOutcome),
}

impl Mailbox {
    /// Acknowledges the delivery: the message was handled and is not delivered again.
    ///
    /// *Repeat:* returns the same outcome, for at least ten minutes.
    pub async fn ack(&self, delivery: impl Into<DeliveryRef>) -> Result<SettleOutcome, Error> {
        self.settle(Settle::ack(delivery)).await
    }

    /// Rejects the delivery: the message is delivered again after the backoff of its topic, or becomes a dead letter if
    /// its attempts are used up.
    pub async fn nack(
        &self,
        delivery: impl Into<DeliveryRef>,
        reason: Option<&str>,
    ) -> Result<SettleOutcome, Error> {
        self.settle(Settle::nack(delivery, reason)).await
    }

    /// Rejects the delivery like [`Mailbox::nack`], with this delay instead of the backoff of its topic.
    pub async fn nack_after(
        &self,
        delivery: impl Into<DeliveryRef>,
        delay: Duration,
        reason: Option<&str>,
    ) -> Result<SettleOutcome, Error> {
        self.settle(Settle::nack_after(delivery, delay, reason)).await
    }

    /// Fails the delivery for good: the message becomes a dead letter at once, with the given reason as its last error.
    pub async fn fail(
        &self,
        delivery: impl Into<DeliveryRef>,
        reason: Option<&str>,
    ) -> Result<SettleOutcome, Error> {
        self.settle(Settle::fail(delivery, reason)).await
    }

    /// Extends the visibility timeout: it ends this long from now. At most ten times the visibility that the message
    /// was received with.
    pub async fn extend(
        &self,
        delivery: impl Into<DeliveryRef>,
        visibility: Duration,
    ) -> Result<SettleOutcome, Error> {
        self.settle(Settle::extend(delivery, visibility)).await
    }

    async fn settle(&self, settle: Settle) -> Result<SettleOutcome, Error> {
        match self.settle_all(vec![settle]).await?.pop() {
            Some(outcome) => Ok(outcome),
            None => unreachable!("there is one outcome per delivery"),
        }
    }

    /// Settles many deliveries, in order, with one outcome each.
    pub async fn settle_all(&self, settles: Vec<Settle>) -> Result<Vec<SettleOutcome>, Error> {
        let steps = self.steps(settles).await?;
        let extended = self.apply_extensions(&steps).await?;
        let settlements = settlements(&steps);
        let settled =
            if settlements.is_empty() { Vec::new() } else { self.shared.store.settle(&settlements).await? };
        Ok(self.outcomes(steps, settled, extended))
    }

    /// One round of a remote worker: settles finished deliveries and receives the next messages in one call of the
    /// store. Waits for the first message like [`Mailbox::receive`]. If a settlement or the request fails with
    /// [`ErrorKind::Invalid`], nothing changes.
    ///
    /// *Repeat:* with [`Receive::request`] it returns the same result while the deliveries are held.
    pub async fn work(
        &self,
        settles: Vec<Settle>,
        request: Receive,
    ) -> Result<(Vec<SettleOutcome>, Received), Error> {
        // An invalid request is rejected before anything changes.
        let claim = self.claim(&request)?;
        let steps = self.steps(settles).await?;
        let extended = self.apply_extensions(&steps).await?;
        let (settled, received) =
            match self.settle_and_receive(&settlements(&steps), &claim, &Wait::of(&request)).await {
                // The outcomes of the extensions must be returned: the next request fails with `Saturated` instead.
                Err(error) if !extended.is_empty() && error.kind() == ErrorKind::Saturated => {
                    (Vec::new(), Received::default())
                }
                result => result?,
            };
        Ok((self.outcomes(steps, settled, extended), received))
    }

    /// Translates settle requests to calls of the store. Reads messages only if necessary: a receipt is enough to
    /// acknowledge, unless settlements are logged.
    async fn steps(&self, settles: Vec<Settle>) -> Result<Vec<Step>, Error> {
        let logged = log::logs_settlements();
        let is_read = |settle: &Settle| logged || settle.needs_lookup();
        let lookups: Vec<MessageRef> =
            settles.iter().filter(|settle| is_read(settle)).map(|settle| settle.delivery.message()).collect();
        // Skip the call if there are no items: even an empty call would be queued.
        let found = if lookups.is_empty() { Vec::new() } else { self.shared.store.get(&lookups).await? };
        let mut found = found.into_iter();
        let steps = settles.into_iter().map(|settle| {
            let message = if is_read(&settle) { found.next().flatten() } else { None };
            self.step(settle, message)
        });
        let mut steps = steps.collect::<Result<Vec<_>, Error>>()?;
        reject_extends_after_settle(&mut steps);
        Ok(steps)
    }

    /// Applies the extensions before all settlements, regardless of their order in the call, because receiving may
    /// wait. Extensions of deliveries that are settled earlier in the call are already rejected.
    async fn apply_extensions(&self, steps: &[Step]) -> Result<Vec<Extended>, Error> {
        let extensions: Vec<_> = steps.iter().filter_map(Step::extension).collect();
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        let mut outcomes = self.shared.store.extend(&extensions).await?;
        for _ in 0..LOCKED_RETRIES {
            let is_locked = |index: &usize| outcomes[*index] == Extended::Locked;
            let locked: Vec<usize> = (0..outcomes.len()).filter(is_locked).collect();
            if locked.is_empty() {
                return Ok(outcomes);
            }
            sleep(LOCKED_RETRY).await;
            let again: Vec<_> = locked.iter().map(|index| extensions[*index]).collect();
            for (index, outcome) in locked.into_iter().zip(self.shared.store.extend(&again).await?) {
                outcomes[index] = outcome;
            }
        }
        Err(Error::blocked(
            "another transaction has locked a delivery that is to be extended: repeat the call",
        ))
    }

    fn step(&self, settle: Settle, found: Option<Snapshot>) -> Result<Step, Error> {
        let found = found.filter(|found| found.key.namespace == Namespace::Mailbox);
        let deliveries = found.as_ref().map_or(0, |found| found.deliveries);
        let trace = found.as_ref().map(|found| found.trace.clone());
        let content = found.as_ref().and_then(|found| found.content.as_ref());
        let topic = content.map_or("", |content| content.topic.as_str());
        let backoff = self.settings().topic(topic).backoff()?;
        let token = match (settle.delivery, found.and_then(|found| found.grant)) {
            (DeliveryRef::Receipt(token), _) => token,
            (DeliveryRef::Message(_), _) if deliveries > 1 => {
                return Ok(Step::Rejected(SettleOutcome::ReceiptRequired));
            }
            (DeliveryRef::Message(id), Some(grant)) => {
                LeaseToken { uid: id.uid(), owner: grant.lease.owner, fence: grant.lease.fence }
            }
            (DeliveryRef::Message(_), None) => return Ok(Step::Rejected(SettleOutcome::LeaseLost)),
        };
        Ok(match settle.action {
            SettleAction::Ack => Step::Settle(token.settle(Verdict::Ack), trace),
            SettleAction::Nack { delay, reason } => {
                let delay = match delay {
                    Some(delay) => Span::delay(delay)?,
                    None => self.shared.delay(&backoff, deliveries),
                };
                Step::Settle(token.settle(Verdict::Abandon { delay, error: reason }), trace)
            }
            SettleAction::Fail { reason: error } => {
                let verdict = Verdict::Fail { reason: DeadReason::Failed, error };
                Step::Settle(token.settle(verdict), trace)
            }
            SettleAction::Extend(visibility) => {
                let visibility = Span::new("visibility", self.settings().checked_visibility(visibility)?)?;
                Step::Extend(token, visibility, trace)
            }
        })
    }

    /// Merges the outcomes in the order of the steps.
    fn outcomes(
        &self,
        steps: Vec<Step>,
        settled: Vec<Settled>,
        extended: Vec<Extended>,
    ) -> Vec<SettleOutcome> {
        let (mut settled, mut extended) = (settled.into_iter(), extended.into_iter());
        let outcomes = steps.into_iter().map(|step| match step {
            Step::Rejected(outcome) => outcome,
            Step::Settle(_, trace) => {
                let settled = settled.next().unwrap_or(Settled::LeaseLost);
                log::settled(&self.shared.name, trace.as_ref(), settled);
                match settled {
                    Settled::LeaseLost => SettleOutcome::LeaseLost,
                    Settled::Dead { .. } => SettleOutcome::Dead,
                    _ => SettleOutcome::Ok,
                }
            }
            Step::Extend(.., trace) => {
                let extended = extended.next();
                log::extended(&self.shared.name, trace.as_ref(), extended);
                match extended {
                    Some(Extended::Until(until)) => SettleOutcome::Until(until),
                    _ => SettleOutcome::LeaseLost,
                }
            }
        });
        let outcomes: Vec<_> = outcomes.collect();
        debug!(store = %self.shared.name, count = outcomes.len(), "settled");
        outcomes
    }
}

impl Step {
    fn extension(&self) -> Option<oncebox_core::Extension> {
        match self {
            Self::Extend(token, visibility, _) => Some(token.extend(*visibility)),
            Self::Settle(..) | Self::Rejected(_) => None,
        }
    }
}

/// Rejects extensions of deliveries that are settled earlier in the same call, because they are no longer held.
fn reject_extends_after_settle(steps: &mut [Step]) {
    let mut settled = HashSet::new();
    for step in steps {
        match step {
            Step::Settle(Settlement { uid, owner, fence, .. }, _) => {
                settled.insert(LeaseToken { uid: *uid, owner: *owner, fence: *fence });
            }
            Step::Extend(token, ..) if settled.contains(token) => {
                *step = Step::Rejected(SettleOutcome::LeaseLost);
            }
            Step::Extend(..) | Step::Rejected(_) => {}
        }
    }
}

fn settlements(steps: &[Step]) -> Vec<Settlement> {
    let settlement = |step: &Step| match step {
        Step::Settle(settlement, _) => Some(settlement.clone()),
        Step::Extend(..) | Step::Rejected(_) => None,
    };
    steps.iter().filter_map(settlement).collect()
}
