//! Receiving: taking messages in, each once.

mod receipt;
mod transaction;

use std::sync::Arc;

use oncebox_core::{
    Accepted, Action, CallerHash, Error, Invalid, Key, LastError, NewMessage, Observed, Operated, Order,
};
use tracing::{debug, info, warn};

use crate::message::Message;
use crate::shared::Shared;
use crate::telemetry;

pub use receipt::{Outcome, Receipt};

/// Takes messages in, and knows which came before. Cheap to clone.
#[derive(Clone)]
pub struct Inbox(Arc<Shared>);

/// A key that came by, for [`Inbox::observe`].
#[derive(Debug, Clone)]
pub struct Sighting {
    source: Arc<str>,
    id: Arc<str>,
    hash: Option<CallerHash>,
    problem: Option<Invalid>,
}

impl Sighting {
    /// The message that `source` calls `id` came by.
    pub fn new(source: impl AsRef<str>, id: impl AsRef<str>) -> Self {
        Self { source: source.as_ref().into(), id: id.as_ref().into(), hash: None, problem: None }
    }

    /// With a hash of its content: kept, and compared when it comes again.
    #[must_use]
    pub fn hash(mut self, algorithm: &str, hash: &[u8]) -> Self {
        match CallerHash::new(algorithm, hash) {
            Ok(hash) => self.hash = Some(hash),
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }
}

/// What [`Inbox::mark`] makes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// Seen or Dead becomes Processing; what a worker holds is ready again.
    Processing,
    /// It becomes Done; an unknown key is recorded as Done.
    Processed,
    /// Seen or Processing becomes Dead.
    Dead,
}

impl Inbox {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Whether the message that `source` calls `id` was handled before; notes that it came by.
    ///
    /// An unknown key is recorded as Seen. *Repeat:* harmless.
    pub async fn already_processed(&self, source: &str, id: &str) -> Result<bool, Error> {
        self.observe_one(Sighting::new(source, id)).await
    }

    /// The same, with a hash of the content by the caller's own algorithm, such as `sha256`. If it came before with
    /// another hash, a warning is logged.
    pub async fn already_processed_with_hash(
        &self,
        source: &str,
        id: &str,
        (algorithm, hash): (&str, &[u8]),
    ) -> Result<bool, Error> {
        self.observe_one(Sighting::new(source, id).hash(algorithm, hash)).await
    }

    async fn observe_one(&self, sighting: Sighting) -> Result<bool, Error> {
        match self.observe([sighting]).await?.pop() {
            Some(Observed::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(observed) => Ok(observed.is_processed()),
            None => Ok(false),
        }
    }

    /// The same for many, one outcome each, in order. Nothing is recorded if one of them is out of bounds.
    pub async fn observe(
        &self,
        sightings: impl IntoIterator<Item = Sighting>,
    ) -> Result<Vec<Observed>, Error> {
        let hold = self.0.settings.hold();
        let sightings = sightings.into_iter().map(|Sighting { source, id, hash, problem }| {
            let key = problem.map_or_else(|| Key::inbox(source, id), Err)?;
            Ok(oncebox_core::Sighting { key, hash, hold })
        });
        let sightings = sightings.collect::<Result<Vec<_>, Invalid>>()?;
        let observed = self.0.store.observe(&sightings).await?;
        for (sighting, outcome) in sightings.iter().zip(&observed) {
            let Key { source, id, .. } = &sighting.key;
            let processed = outcome.is_processed();
            debug!(store = %self.0.name, %source, %id, processed, "looked for a duplicate");
            if matches!(outcome, Observed::Again { diverged: true, .. }) {
                self.diverged(&sighting.key);
            }
        }
        Ok(observed)
    }

    /// Takes a message in, once while its key is held: by default until 30 days after it was handled.
    ///
    /// When this answers, the message is as safe as the store promises. If the store is full it answers
    /// [`crate::Kind::Saturated`]: nothing was taken in, tell the sender to come again.
    ///
    /// *Repeat:* answers [`Outcome::Duplicate`] with the first receipt; but should other content have come in between, it is
    /// replaced again, unless the inbox is set to keep the first ([`crate::Divergence::KeepFirst`]).
    pub async fn enqueue(&self, message: Message) -> Result<Receipt, Error> {
        match self.enqueue_all([message]).await?.pop() {
            Some(outcome) => outcome,
            None => unreachable!("a store gives one outcome per item"),
        }
    }

    /// Takes up to 10,000 in, in order, with one outcome each: look at them, those for whom there was no room are errors.
    /// Nothing is taken in if one of them is out of bounds.
    pub async fn enqueue_all(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Vec<Result<Receipt, Error>>, Error> {
        let messages = messages.into_iter().map(|message| self.prepared(message));
        let messages = messages.collect::<Result<Vec<_>, _>>()?;
        let accepted = self.0.store.accept(&messages).await?;
        let receipts = messages.iter().zip(accepted).map(|(message, accepted)| self.taken(message, accepted));
        Ok(receipts.collect())
    }

    fn prepared(&self, message: Message) -> Result<NewMessage, Error> {
        let Shared { settings, clock, .. } = &*self.0;
        let message = match &settings.trace_context {
            Some(context) => telemetry::inject(&**context, message),
            None => message,
        };
        message.accepted_by(settings, &**clock)
    }

    fn taken(&self, message: &NewMessage, accepted: Accepted) -> Result<Receipt, Error> {
        if accepted.diverged() {
            self.diverged(&message.key);
        }
        let receipt = Receipt::of(accepted);
        telemetry::enqueued(receipt.as_ref().ok().map(|receipt| receipt.outcome));
        let Key { source, id, .. } = &message.key;
        let topic = &message.content.topic;
        match &receipt {
            Ok(Receipt { outcome, uid, .. }) => {
                info!(store = %self.0.name, %topic, %source, %id, %uid, ?outcome, "enqueued");
            }
            Err(_) => warn!(store = %self.0.name, %topic, %source, %id, "not enqueued: the store is full"),
        }
        receipt
    }

    /// What came again under the same key differs from what came first (IBX-008).
    fn diverged(&self, Key { source, id, .. }: &Key) {
        telemetry::diverged();
        warn!(store = %self.0.name, %source, %id, "the same message came again with other content");
    }

    /// Seen or Dead becomes Processing. Changes nothing on an unknown key, and says so.
    pub async fn mark_processing(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Processing, source, id).await
    }

    /// The message becomes Done; an unknown key is recorded as Done.
    pub async fn mark_processed(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Processed, source, id).await
    }

    /// The message becomes Dead. Changes nothing on an unknown key or one that is Done, and says so.
    pub async fn mark_dead(&self, source: &str, id: &str) -> Result<Operated, Error> {
        self.mark_one(Mark::Dead, source, id).await
    }

    async fn mark_one(&self, mark: Mark, source: &str, id: &str) -> Result<Operated, Error> {
        match self.mark(mark, &[Key::inbox(source, id)?]).await?.pop() {
            Some(Operated::Saturated { retry_after, bound }) => Err(Error::saturated(retry_after, bound)),
            Some(operated) => Ok(operated),
            None => unreachable!("a store gives one outcome per item"),
        }
    }

    /// Marks many, in order, with one outcome each. A mark ends the lease of a worker that holds the message.
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
