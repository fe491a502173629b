//! What the store really did, told at the moment it is done, whether or not anybody hears its answer.

use oncebox_core::{
    Accepted, Claim, DeadReason, Delivery, Error, Extended, Extension, NewMessage, Settled, Settlement,
    State, Store, Verdict, Worked,
};
use oncebox_store_memory::MemoryStore;

use super::number;
use crate::event::{Content, What};
use crate::journal::Journal;
use crate::time::since_beginning;

pub(super) struct Witness {
    pub(super) inner: MemoryStore,
    pub(super) journal: Journal,
}

impl Witness {
    pub(super) async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error> {
        let accepted = self.inner.accept(messages).await?;
        for (message, accepted) in messages.iter().zip(&accepted) {
            let (outcome, receipt) = match accepted {
                Accepted::New { receipt, .. } => ("new", receipt),
                Accepted::Duplicate { receipt, .. } => ("duplicate", receipt),
                Accepted::Replaced(receipt) => ("replaced", receipt),
                _ => continue,
            };
            self.journal.tell(What::Stored {
                key: message.key.id.as_str().to_owned(),
                uid: receipt.uid.to_string(),
                outcome,
                content: content(&message.content),
            });
        }
        Ok(accepted)
    }

    pub(super) async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error> {
        let worked = self.inner.work(settlements, claims).await?;
        for (settlement, settled) in settlements.iter().zip(&worked.settled) {
            let (fence, verdict) = (settlement.fence.get(), verdict(&settlement.verdict));
            self.journal.tell(What::Settled { fence, verdict, outcome: outcome(settled) });
        }
        for delivery in worked.deliveries.iter().flatten() {
            self.granted(delivery);
        }
        Ok(worked)
    }

    fn granted(&self, delivery: &Delivery) {
        self.journal.tell(What::Granted {
            worker: number(delivery.lease.owner),
            fence: delivery.lease.fence.get(),
            uid: delivery.uid.to_string(),
            delivery: delivery.deliveries,
            attempts: delivery.attempts,
            until: since_beginning(delivery.lease.until),
            content: content(&delivery.content),
        });
    }

    pub(super) async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let extended = self.inner.extend(extensions).await?;
        for (extension, extended) in extensions.iter().zip(&extended) {
            let until = match extended {
                Extended::Until(until) => Some(since_beginning(*until)),
                Extended::LeaseLost => None,
            };
            self.journal.tell(What::Extended { fence: extension.fence.get(), until });
        }
        Ok(extended)
    }
}

fn content(content: &oncebox_core::Content) -> Content {
    Content {
        topic: content.topic.as_str().to_owned(),
        payload: String::from_utf8_lossy(content.payload.as_bytes()).into_owned(),
        partition: content.partition.as_ref().map(|partition| partition.as_str().to_owned()),
        due: content.due.map(since_beginning),
        expires: content.expires.map(since_beginning),
    }
}

fn verdict(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ack => "ack",
        Verdict::Abandon { .. } => "abandon",
        Verdict::Release => "release",
        Verdict::Fail { reason, .. } => reason_text(*reason),
        _ => "unknown",
    }
}

pub(super) fn outcome(settled: &Settled) -> &'static str {
    match settled {
        Settled::Done => "done",
        Settled::Retrying { .. } => "retrying",
        Settled::Released => "released",
        Settled::Superseded => "superseded",
        Settled::LeaseLost => "lost",
        Settled::Dead { reason } => reason_text(*reason),
        _ => "unknown",
    }
}

/// How a message stands; a dead one by its reason.
pub(crate) fn state_text(state: State, dead: Option<DeadReason>) -> &'static str {
    match (state, dead) {
        (State::Seen, _) => "seen",
        (State::Processing, _) => "processing",
        (State::Done, _) => "done",
        (State::Dead, Some(reason)) => reason_text(reason),
        _ => "unknown",
    }
}

fn reason_text(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Failed => "failed",
        DeadReason::Exhausted => "exhausted",
        DeadReason::Expired => "expired",
        DeadReason::Cancelled => "cancelled",
        DeadReason::Integrity => "integrity",
        DeadReason::Unhandled => "unhandled",
        DeadReason::Undecodable => "undecodable",
        _ => "unknown",
    }
}
