//! Records what the store does at the time it does it, whether or not the answer reaches the caller.

use oncebox_core::{
    Accepted, Claim, DeadReason, Delivery, Error, Extended, Extension, MessageState, NewMessage, RecordOp,
    RecordOutcome, RecordValue, Settled, Settlement, Store, Verdict, Worked,
};
use oncebox_store_memory::MemoryStore;

use super::number;
use crate::event::{EventKind, SimContent};
use crate::journal::Journal;
use crate::time::since_start;

pub(super) struct RecordingStore {
    pub(super) inner: MemoryStore,
    pub(super) journal: Journal,
}

impl RecordingStore {
    pub(super) async fn accept(
        &self,
        messages: &[NewMessage],
        asked_at: u64,
    ) -> Result<Vec<Accepted>, Error> {
        let accepted = self.inner.accept(messages).await?;
        for (message, accepted) in messages.iter().zip(&accepted) {
            let (outcome, summary) = match accepted {
                Accepted::New { summary, .. } => ("new", summary),
                Accepted::Duplicate { summary, .. } => ("duplicate", summary),
                Accepted::Replaced(summary) => ("replaced", summary),
                _ => continue,
            };
            self.journal.record(EventKind::Stored {
                key: message.key.id.as_str().to_owned(),
                uid: summary.uid.to_string(),
                outcome,
                asked_at,
                content: content(&message.content),
            });
        }
        Ok(accepted)
    }

    pub(super) async fn work(
        &self,
        settlements: &[Settlement],
        claims: &[Claim],
        asked_at: u64,
    ) -> Result<Worked, Error> {
        let worked = self.inner.work(settlements, claims).await?;
        for (settlement, settled) in settlements.iter().zip(&worked.settled) {
            let (fence, verdict) = (settlement.fence.get(), verdict(&settlement.verdict));
            self.journal.record(EventKind::Settled { fence, verdict, outcome: outcome(settled) });
        }
        for delivery in worked.deliveries.iter().flatten() {
            self.granted(delivery, asked_at);
        }
        Ok(worked)
    }

    fn granted(&self, delivery: &Delivery, asked_at: u64) {
        self.journal.record(EventKind::Granted {
            worker: number(delivery.lease.owner),
            fence: delivery.lease.fence.get(),
            uid: delivery.uid.to_string(),
            delivery: delivery.deliveries,
            attempts: delivery.attempts,
            until: since_start(delivery.lease.until),
            asked_at,
            content: content(&delivery.content),
        });
    }

    /// The only records of a simulation are pauses.
    pub(super) async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error> {
        let outcomes = self.inner.records(ops).await?;
        for (op, outcome) in ops.iter().zip(&outcomes) {
            let (id, paused) = match (op, outcome) {
                (RecordOp::Put { id, value, .. }, RecordOutcome::Written(_)) => (id, paused_parts(value)),
                (RecordOp::Delete { id, .. }, RecordOutcome::Deleted(true)) => (id, (false, false)),
                _ => continue,
            };
            let (topic, (sending, receiving)) = (id.as_str().to_owned(), paused);
            self.journal.record(EventKind::TopicPaused { topic, sending, receiving });
        }
        Ok(outcomes)
    }

    pub(super) async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error> {
        let extended = self.inner.extend(extensions).await?;
        for (extension, extended) in extensions.iter().zip(&extended) {
            let until = match extended {
                Extended::Until(until) => Some(since_start(*until)),
                Extended::LeaseLost => None,
                Extended::Locked => continue,
            };
            self.journal.record(EventKind::Extended { fence: extension.fence.get(), until });
        }
        Ok(extended)
    }
}

/// Whether a pause stops sending, and whether it stops receiving.
fn paused_parts(value: &RecordValue) -> (bool, bool) {
    let text = String::from_utf8_lossy(value.as_bytes());
    let is = |pause: &str| text.contains(&format!("\"pause\":\"{pause}\""));
    (is("sending") || is("both"), is("receiving") || is("both"))
}

fn content(content: &oncebox_core::Content) -> SimContent {
    SimContent {
        topic: content.topic.as_str().to_owned(),
        payload: String::from_utf8_lossy(content.payload.as_bytes()).into_owned(),
        partition: content.partition.as_ref().map(|partition| partition.as_str().to_owned()),
        due: content.due.map(since_start),
        expires: content.expires.map(since_start),
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

/// The state of a message; for a dead one, the reason.
pub(crate) fn state_text(state: MessageState, dead: Option<DeadReason>) -> &'static str {
    match (state, dead) {
        (MessageState::Seen, _) => "seen",
        (MessageState::Processing, _) => "processing",
        (MessageState::Done, _) => "done",
        (MessageState::Dead, Some(reason)) => reason_text(reason),
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
