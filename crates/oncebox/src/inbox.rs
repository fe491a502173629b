//! The inbox: accepts messages and deduplicates them.

mod receipt;
mod transaction;

use std::sync::Arc;

use oncebox_core::{
    Accepted, Action, CallerHash, Error, Invalid, Key, LastError, NewMessage, Observation, Operated, Order,
};
use tracing::{debug, info, warn};

use crate::message::Message;
use crate::shared::{Oncebox, Shared};
use crate::telemetry;

pub use oncebox_core::{MessageSummary, Observed};
pub use receipt::{EnqueueOutcome, EnqueueReceipt};

/// Accepts messages, each key once. Cheap to clone.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

/// The key of a received message, for [`Inbox::observe`].
#[derive(Debug, Clone)]
pub struct ObservedKey {
    source: Arc<str>,
    id: Arc<str>,
    hash: Option<CallerHash>,
    problem: Option<Invalid>,
}

impl ObservedKey {
    /// The key of the message that `source` identifies by `id`.
    pub fn new(source: impl AsRef<str>, id: impl AsRef<str>) -> Self {
        Self { source: source.as_ref().into(), id: id.as_ref().into(), hash: None, problem: None }
    }

    /// Adds a hash of the message's content. It is stored, and compared when the key is observed again.
    #[must_use]
    pub fn hash(mut self, algorithm: &str, hash: &[u8]) -> Self {
        match CallerHash::new(algorithm, hash) {
            Ok(hash) => self.hash = Some(hash),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }
}

/// The state that [`Inbox::mark`] gives a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// A Seen or Dead message becomes Processing; a message leased by a worker becomes ready again.
    Processing,
    /// The message becomes Done; an unknown key is recorded as Done.
    Processed,
    /// A Seen or Processing message becomes Dead.
    Dead,
}

impl Oncebox {
    /// The handle for accepting messages.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.shared())
    }
}

impl Inbox {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Whether the message that `source` identifies by `id` has been processed; records that the key was observed.
    ///
    /// An unknown key is recorded as Seen. *Repeat:* harmless.
    pub async fn already_processed(&self, source: &str, id: &str) -> Result<bool, Error> {
        self.observe_one(ObservedKey::new(source, id)).await
    }

    /// As [`Inbox::already_processed`], with a hash of the content by the caller's own algorithm, such as `sha256`.
    /// Logs a warning if the key was observed with another hash before.
    pub async fn already_processed_with_hash(
        &self,
        source: &str,
        id: &str,
        (algorithm, hash): (&str, &[u8]),
    ) -> Result<bool, Error> {
        self.observe_one(ObservedKey::new(source, id).hash(algorithm, hash)).await
    }

    async fn observe_one(&self, key: ObservedKey) -> Result<bool, Error> {
        match self.observe([key]).await?.pop() {
            Some(Observed::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(observed) => Ok(observed.is_processed()),
            None => Ok(false),
        }
    }

    /// Records up to 10,000 keys as seen, and returns what was known about each, in order. Nothing is recorded if one
    /// of them is invalid. A key for which the store has no capacity is reported as [`Observed::Saturated`].
    pub async fn observe(&self, keys: impl IntoIterator<Item = ObservedKey>) -> Result<Vec<Observed>, Error> {
        let hold = self.0.settings.hold();
        let observations = keys.into_iter().map(|ObservedKey { source, id, hash, problem }| {
            let key = problem.map_or_else(|| Key::inbox(source, id), Err)?;
            Ok(Observation { key, hash, hold })
        });
        let observations = observations.collect::<Result<Vec<_>, Invalid>>()?;
        let observed = self.0.store.observe(&observations).await?;
        for (Observation { key, .. }, outcome) in observations.iter().zip(&observed) {
            let Key { source, id, .. } = key;
            let processed = outcome.is_processed();
            debug!(store = %self.0.name, %source, %id, processed, "checked for a duplicate");
            if matches!(outcome, Observed::Again { diverged: true, .. }) {
                self.diverged(key);
            }
        }
        Ok(observed)
    }

    /// Accepts a message, unless a message with the same key was accepted within the dedup window: by default, until 30
    /// days after that message was handled.
    ///
    /// When this returns, the message is as durable as the store promises. If the store is full, it fails with
    /// [`crate::ErrorKind::Saturated`]: nothing was accepted, and the sender should retry later.
    ///
    /// *Repeat:* returns [`EnqueueOutcome::Duplicate`] with the first receipt. If other content was accepted in
    /// between, it is replaced again, unless the inbox is set to keep the first content
    /// ([`crate::message::Divergence::KeepFirst`]).
    pub async fn enqueue(&self, message: Message) -> Result<EnqueueReceipt, Error> {
        match self.enqueue_all([message]).await?.pop() {
            Some(outcome) => outcome,
            None => unreachable!("a store returns one outcome per item"),
        }
    }

    /// Accepts up to 10,000 messages, in order, and returns one result for each. Check all of them: a message for which
    /// the store has no capacity is an error. Nothing is accepted if one of the messages is invalid.
    pub async fn enqueue_all(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Vec<Result<EnqueueReceipt, Error>>, Error> {
        let messages = messages.into_iter().map(|message| self.prepare(message));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let accepted = self.0.store.accept(&messages).await?;
        let receipts =
            messages.iter().zip(accepted).map(|(message, accepted)| self.receipt_for(message, accepted));
        Ok(receipts.collect())
    }

    fn prepare(&self, message: Message) -> Result<NewMessage, Error> {
        let Shared { settings, clock, .. } = &*self.0;
        let message = match &settings.trace_context {
            Some(context) => message.with_current_trace(&**context),
            None => message,
        };
        message.into_new_message(settings, &**clock)
    }

    fn receipt_for(&self, message: &NewMessage, accepted: Accepted) -> Result<EnqueueReceipt, Error> {
        if accepted.diverged() {
            self.diverged(&message.key);
        }
        telemetry::enqueued(&accepted);
        let receipt = EnqueueReceipt::of(accepted);
        let Key { source, id, .. } = &message.key;
        let topic = &message.content.topic;
        match &receipt {
            Ok(EnqueueReceipt { outcome, uid, .. }) => {
                info!(store = %self.0.name, %topic, %source, %id, %uid, ?outcome, "enqueued");
            }
            Err(error) => warn!(store = %self.0.name, %topic, %source, %id, %error, "not enqueued"),
        }
        receipt
    }

    /// Reports that a duplicate has different content (IBX-008).
    fn diverged(&self, Key { source, id, .. }: &Key) {
        telemetry::diverged();
        warn!(store = %self.0.name, %source, %id, "duplicate message has different content");
    }

    /// Makes a Seen or Dead message Processing. Changes nothing if the key is unknown, and reports that.
    pub async fn mark_processing(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Processing, source, id).await
    }

    /// Makes a message Done; an unknown key is recorded as Done.
    pub async fn mark_processed(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Processed, source, id).await
    }

    /// Makes a message Dead. Changes nothing if the key is unknown or the message is Done, and reports that.
    pub async fn mark_dead(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Dead, source, id).await
    }

    async fn mark_one(&self, mark: Mark, source: &str, id: &str) -> Result<Operated, Error> {
        match self.mark(mark, &[Key::inbox(source, id)?]).await?.pop() {
            Some(Operated::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(operated) => Ok(operated),
            None => unreachable!("a store returns one outcome per item"),
        }
    }

    /// Marks messages, in order, and returns one outcome for each. A mark ends the lease of a worker that holds the
    /// message.
    pub async fn mark(&self, mark: Mark, keys: &[Key]) -> Result<Vec<Operated>, Error> {
        let action = match mark {
            Mark::Processing => Action::MarkProcessing,
            Mark::Processed => Action::MarkProcessed { hold: self.0.settings.hold() },
            Mark::Dead => Action::MarkDead { error: LastError::new("marked dead by the receiver") },
        };
        let orders = keys.iter().map(|key| Order { target: key.clone().into(), action: action.clone() });
        let operated = self.0.store.operate(&orders.collect::<Vec<_>>()).await?;
        for (Key { source, id, .. }, operated) in keys.iter().zip(&operated) {
            let changed = matches!(operated, Operated::Changed(_));
            debug!(store = %self.0.name, %source, %id, ?mark, changed, "marked");
        }
        Ok(operated)
    }
}
