//! Settling deliveries: handled, not handled, not yet.

use std::collections::HashSet;
use std::time::Duration;

use oncebox_core::{
    DeadReason, Error, Extended, Kind, LastError, Namespace, Ref, Settled, Settlement, Snapshot, Span,
    StoreExt, Timestamp, Trace, Verdict,
};
use tracing::debug;

use super::handle::Handle;
use super::{Mailbox, Receive, Received, log};
use crate::lease_token::LeaseToken;

/// What is to become of a delivery.
#[derive(Debug, Clone)]
#[must_use]
pub struct Settle {
    delivery: Handle,
    wish: Wish,
}

#[derive(Debug, Clone)]
enum Wish {
    Ack,
    /// Without a delay, the topic's back-off decides.
    Nack {
        delay: Option<Duration>,
        reason: Option<LastError>,
    },
    Fail {
        reason: Option<LastError>,
    },
    Extend(Duration),
}

impl Settle {
    /// It was handled: the message is gone.
    pub fn ack(delivery: impl Into<Handle>) -> Self {
        Self { delivery: delivery.into(), wish: Wish::Ack }
    }

    /// It was not handled: the message comes again after a while, or is a dead letter if it came too often.
    pub fn nack(delivery: impl Into<Handle>, reason: Option<&str>) -> Self {
        let reason = reason.and_then(LastError::new);
        Self { delivery: delivery.into(), wish: Wish::Nack { delay: None, reason } }
    }

    /// The same, and the message comes again after this delay, in place of its topic's back-off. Its attempts are limited as ever.
    pub fn nack_after(delivery: impl Into<Handle>, delay: Duration, reason: Option<&str>) -> Self {
        let reason = reason.and_then(LastError::new);
        Self { delivery: delivery.into(), wish: Wish::Nack { delay: Some(delay), reason } }
    }

    /// It cannot be handled: the message is a dead letter at once, with [`oncebox_core::DeadReason::Failed`].
    pub fn fail(delivery: impl Into<Handle>, reason: Option<&str>) -> Self {
        Self { delivery: delivery.into(), wish: Wish::Fail { reason: reason.and_then(LastError::new) } }
    }

    /// It needs so much more time, from now on; ten times the visibility it was received with at most.
    pub fn extend(delivery: impl Into<Handle>, visibility: Duration) -> Self {
        Self { delivery: delivery.into(), wish: Wish::Extend(visibility) }
    }
}

/// What became of a delivery that was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It counts.
    Ok,
    /// It counts: the message came too often, or cannot be handled, and is a dead letter now.
    Dead,
    /// The delivery is held until this moment.
    Until(Timestamp),
    /// The delivery is not held any more, or never was; nothing changed.
    LeaseLost,
    /// The message was delivered more than once: only the receipt tells which delivery is meant.
    ReceiptRequired,
}

/// What a settlement asks of the store.
enum Step {
    /// With the trace of the message, if it was read.
    Settle(Settlement, Option<Trace>),
    Extend(LeaseToken, Span, Option<Trace>),
    Refused(Outcome),
}

impl Mailbox {
    /// The delivery was handled: the message is gone.
    ///
    /// *Repeat:* answers the same, for ten minutes at least.
    pub async fn ack(&self, delivery: impl Into<Handle>) -> Result<Outcome, Error> {
        self.settle(Settle::ack(delivery)).await
    }

    /// The delivery was not handled: it comes again after a while, or is a dead letter if it came too often.
    pub async fn nack(&self, delivery: impl Into<Handle>, reason: Option<&str>) -> Result<Outcome, Error> {
        self.settle(Settle::nack(delivery, reason)).await
    }

    /// The same, and it comes again after this delay, in place of its topic's back-off.
    pub async fn nack_after(
        &self,
        delivery: impl Into<Handle>,
        delay: Duration,
        reason: Option<&str>,
    ) -> Result<Outcome, Error> {
        self.settle(Settle::nack_after(delivery, delay, reason)).await
    }

    /// The delivery cannot be handled: the message is a dead letter at once, with the given reason as its last error.
    pub async fn fail(&self, delivery: impl Into<Handle>, reason: Option<&str>) -> Result<Outcome, Error> {
        self.settle(Settle::fail(delivery, reason)).await
    }

    /// The delivery needs so much more time, from now on; ten times the visibility it was received with at most.
    pub async fn extend(&self, delivery: impl Into<Handle>, visibility: Duration) -> Result<Outcome, Error> {
        self.settle(Settle::extend(delivery, visibility)).await
    }

    async fn settle(&self, settle: Settle) -> Result<Outcome, Error> {
        match self.settle_all(vec![settle]).await?.pop() {
            Some(outcome) => Ok(outcome),
            None => unreachable!("there is one outcome per delivery"),
        }
    }

    /// Settles many, in order, with one outcome each.
    pub async fn settle_all(&self, settles: Vec<Settle>) -> Result<Vec<Outcome>, Error> {
        let steps = self.steps(settles).await?;
        let extended = self.extend_first(&steps).await?;
        let settlements = settlements(&steps);
        let settled =
            if settlements.is_empty() { Vec::new() } else { self.shared.store.settle(&settlements).await? };
        Ok(self.outcomes(steps, settled, extended))
    }

    /// One round of a worker that is elsewhere: settles what it is done with, then gives what is next, in one step of the
    /// store. Waits for the first message as [`Mailbox::receive`] does. What is [`Kind::Invalid`], in a settlement or in what is to
    /// be received, changes nothing.
    ///
    /// *Repeat:* with [`Receive::request`] it answers the same while the deliveries are held.
    pub async fn work(&self, settles: Vec<Settle>, wish: Receive) -> Result<(Vec<Outcome>, Received), Error> {
        // What cannot be received is refused before anything changes.
        let claim = self.claim(&wish)?;
        let steps = self.steps(settles).await?;
        let extended = self.extend_first(&steps).await?;
        let (settled, received) = match self.settle_and_receive(&settlements(&steps), &claim, wish.wait).await
        {
            // What was extended must be answered: the next wish tells that too much is in flight.
            Err(error) if !extended.is_empty() && error.kind() == Kind::Saturated => {
                (Vec::new(), Received::default())
            }
            taken => taken?,
        };
        Ok((self.outcomes(steps, settled, extended), received))
    }

    /// What to ask of the store. Only messages that are needed are read: a receipt is enough to acknowledge, unless the log tells of it.
    async fn steps(&self, settles: Vec<Settle>) -> Result<Vec<Step>, Error> {
        let told = log::tells_settlements();
        let is_read = |settle: &Settle| told || settle.needs_lookup();
        let lookups: Vec<Ref> =
            settles.iter().filter(|settle| is_read(settle)).map(|settle| settle.delivery.message()).collect();
        // Even a call without items waits its turn.
        let found = if lookups.is_empty() { Vec::new() } else { self.shared.store.get(&lookups).await? };
        let mut found = found.into_iter();
        let steps = settles.into_iter().map(|settle| {
            let message = if is_read(&settle) { found.next().flatten() } else { None };
            self.step(settle, message)
        });
        let mut steps = steps.collect::<Result<Vec<_>, Error>>()?;
        refuse_what_is_settled(&mut steps);
        Ok(steps)
    }

    /// Carries out the extensions. They come first, whatever their place: what is received may be waited for, and a
    /// delivery that is settled earlier in the call is not among them.
    async fn extend_first(&self, steps: &[Step]) -> Result<Vec<Extended>, Error> {
        let extensions: Vec<_> = steps.iter().filter_map(Step::extension).collect();
        if extensions.is_empty() {
            return Ok(Vec::new());
        }
        self.shared.store.extend(&extensions).await
    }

    fn step(&self, settle: Settle, found: Option<Snapshot>) -> Result<Step, Error> {
        let found = found.filter(|found| found.key.namespace == Namespace::Mailbox);
        let deliveries = found.as_ref().map_or(0, |found| found.deliveries);
        let trace = found.as_ref().map(|found| found.trace.clone());
        let content = found.as_ref().and_then(|found| found.content.as_ref());
        let topic = content.map_or("", |content| content.topic.as_str());
        let backoff = self.settings().topic(topic).backoff()?;
        let token = match (settle.delivery, found.and_then(|found| found.grant)) {
            (Handle::Receipt(token), _) => token,
            (Handle::Message(_), _) if deliveries > 1 => return Ok(Step::Refused(Outcome::ReceiptRequired)),
            (Handle::Message(id), Some(grant)) => {
                LeaseToken { uid: id.uid(), owner: grant.lease.owner, fence: grant.lease.fence }
            }
            (Handle::Message(_), None) => return Ok(Step::Refused(Outcome::LeaseLost)),
        };
        Ok(match settle.wish {
            Wish::Ack => Step::Settle(token.settle(Verdict::Ack), trace),
            Wish::Nack { delay, reason } => {
                let delay = match delay {
                    Some(delay) => Span::delay(delay)?,
                    None => self.shared.delay(&backoff, deliveries),
                };
                Step::Settle(token.settle(Verdict::Abandon { delay, error: reason }), trace)
            }
            Wish::Fail { reason: error } => {
                let verdict = Verdict::Fail { reason: DeadReason::Failed, error };
                Step::Settle(token.settle(verdict), trace)
            }
            Wish::Extend(visibility) => {
                let visibility = Span::new("visibility", self.settings().checked_visibility(visibility)?)?;
                Step::Extend(token, visibility, trace)
            }
        })
    }

    /// Puts all outcomes in order.
    fn outcomes(&self, steps: Vec<Step>, settled: Vec<Settled>, extended: Vec<Extended>) -> Vec<Outcome> {
        let (mut settled, mut extended) = (settled.into_iter(), extended.into_iter());
        let outcomes = steps.into_iter().map(|step| match step {
            Step::Refused(outcome) => outcome,
            Step::Settle(_, trace) => {
                let settled = settled.next().unwrap_or(Settled::LeaseLost);
                log::settled(&self.shared.name, trace.as_ref(), settled);
                match settled {
                    Settled::LeaseLost => Outcome::LeaseLost,
                    Settled::Dead { .. } => Outcome::Dead,
                    _ => Outcome::Ok,
                }
            }
            Step::Extend(.., trace) => {
                let extended = extended.next();
                log::extended(&self.shared.name, trace.as_ref(), extended);
                match extended {
                    Some(Extended::Until(until)) => Outcome::Until(until),
                    _ => Outcome::LeaseLost,
                }
            }
        });
        let outcomes: Vec<_> = outcomes.collect();
        debug!(store = %self.shared.name, count = outcomes.len(), "settled");
        outcomes
    }
}

impl Settle {
    /// The back-off depends on the topic and on how often the message was delivered; a message's id does not tell the delivery.
    fn needs_lookup(&self) -> bool {
        matches!(self.delivery, Handle::Message(_)) || matches!(self.wish, Wish::Nack { delay: None, .. })
    }
}

impl Step {
    fn extension(&self) -> Option<oncebox_core::Extension> {
        match self {
            Self::Extend(token, visibility, _) => Some(token.extend(*visibility)),
            Self::Settle(..) | Self::Refused(_) => None,
        }
    }
}

/// A delivery that was settled is not held any more: who asks for more time later in the same call has lost it.
fn refuse_what_is_settled(steps: &mut [Step]) {
    let mut settled = HashSet::new();
    for step in steps {
        match step {
            Step::Settle(Settlement { uid, owner, fence, .. }, _) => {
                settled.insert(LeaseToken { uid: *uid, owner: *owner, fence: *fence });
            }
            Step::Extend(token, ..) if settled.contains(token) => *step = Step::Refused(Outcome::LeaseLost),
            Step::Extend(..) | Step::Refused(_) => {}
        }
    }
}

fn settlements(steps: &[Step]) -> Vec<Settlement> {
    let settlement = |step: &Step| match step {
        Step::Settle(settlement, _) => Some(settlement.clone()),
        Step::Extend(..) | Step::Refused(_) => None,
    };
    steps.iter().filter_map(settlement).collect()
}
