//! The mailbox: store-and-forward messaging. Senders send messages to topics; receivers hold them for a visibility
//! timeout and acknowledge them.

mod delivery_ref;
mod envelope;
mod log;
mod outgoing;
mod receive;
mod settings;
mod settle;
mod topic_waiters;

use std::sync::Arc;

use oncebox_core::{
    Accepted, Counts, DeadReason, Delivery, Error, ErrorKind, LastError, Namespace, NewMessage, Policy,
    Scope, Shard, StoreExt, Timestamp, Topic, Verdict,
};
use tracing::warn;

use crate::operator::Operator;
use crate::shared::{Oncebox, Shared};

use outgoing::Sharding;
use topic_waiters::TopicWaiters;

pub use crate::lease_token::LeaseToken;
pub use crate::msg_id::MsgId;
pub use delivery_ref::{DeliveredMessage, DeliveryRef};
pub use envelope::Envelope;
pub use outgoing::OutgoingMessage;
pub use receive::{Damaged, Receive, Received};
pub use settings::{KeyHold, MailboxSettings, TopicSettings};
pub use settle::{Settle, SettleOutcome};

/// Stores messages and delivers each at least once. Cheap to clone.
///
/// ```
/// use oncebox::Oncebox;
/// use oncebox::mailbox::{MailboxSettings, OutgoingMessage, Receive, SendOutcome, SettleOutcome};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// let mailbox = Oncebox::open("memory:").await?.mailbox(MailboxSettings::default())?;
/// let message = || OutgoingMessage::new("greetings", "first").bytes("hello");
/// let SendOutcome::Accepted(receipt) = mailbox.send(message()).await? else { panic!("the message is new") };
/// assert_eq!(mailbox.send(message()).await?, SendOutcome::Duplicate(receipt));
///
/// let envelopes = mailbox.receive(Receive::new("greetings")).await?.envelopes;
/// assert_eq!(envelopes[0].payload, "hello");
/// assert_eq!(mailbox.ack(envelopes[0].receipt).await?, SettleOutcome::Ok);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mailbox {
    shared: Arc<Shared>,
    settings: Arc<MailboxSettings>,
    /// Receivers that wait for messages.
    waiters: Arc<TopicWaiters>,
}

/// The receipt for a sent message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendReceipt {
    /// The id of the stored message that has the idempotency key.
    pub msg_id: MsgId,
    /// The earliest end of the deduplication window of the key.
    pub dedup_until: Timestamp,
}

/// The outcome of sending a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendOutcome {
    /// The message is new and stored.
    Accepted(SendReceipt),
    /// A duplicate: the idempotency key was used before with the same payload.
    Duplicate(SendReceipt),
    /// The idempotency key was used before with another payload; the first message is unchanged.
    Conflict(SendReceipt),
    /// The payload does not match the hash that the sender gave.
    HashMismatch,
    /// The payload is larger than the topic allows.
    TooLarge {
        /// The maximum payload size of the topic.
        bytes_max: usize,
    },
}

impl Oncebox {
    /// Opens a mailbox. From then on, maintenance deletes dead letters according to the settings of the mailbox that
    /// was opened last; before the first one, they are kept for ever. Processes that share a store should use the same
    /// settings: the shortest retention wins.
    pub fn mailbox(&self, settings: MailboxSettings) -> Result<Mailbox, Error> {
        Mailbox::new(self.shared(), settings)
    }
}

impl Mailbox {
    fn new(shared: Arc<Shared>, settings: MailboxSettings) -> Result<Self, Error> {
        settings.check()?;
        shared.set_dead_letter_retention(settings.dead_letters()?);
        shared.auto_pause.set_mailbox_limits(settings.death_limits());
        Ok(Self { shared, settings: Arc::new(settings), waiters: Arc::default() })
    }

    /// The settings of the mailbox.
    pub fn settings(&self) -> &MailboxSettings {
        &self.settings
    }

    /// Sends a message. Within the replay window of its topic, an idempotency key is accepted once. Fails with
    /// [`ErrorKind::Saturated`] if the shard is full.
    ///
    /// *Repeat:* safe; returns [`SendOutcome::Duplicate`].
    pub async fn send(&self, message: OutgoingMessage) -> Result<SendOutcome, Error> {
        let message = match self.prepare(message, &mut Sharding::new(self.settings.shards))? {
            Ok(message) => message,
            Err(rejected) => return Ok(rejected),
        };
        let accepted = self.shared.store.accept_one(&message).await?;
        log::sent(&self.shared.name, &message, &accepted);
        send_outcome(accepted)
    }

    /// Sends many messages, in order, with one outcome each. An invalid message does not affect the others.
    pub async fn send_all(
        &self,
        outgoing: impl IntoIterator<Item = OutgoingMessage>,
    ) -> Result<Vec<Result<SendOutcome, Error>>, Error> {
        let mut messages = Vec::new();
        let mut sharding = Sharding::new(self.settings.shards);
        let prepared = outgoing.into_iter().map(|message| match self.prepare(message, &mut sharding) {
            Ok(Ok(message)) => {
                messages.push(message);
                None
            }
            Ok(Err(rejected)) => Some(Ok(rejected)),
            Err(error) => Some(Err(error)),
        });
        let prepared: Vec<_> = prepared.collect();
        let accepted = self.shared.store.accept(&messages).await?;
        for (message, accepted) in messages.iter().zip(&accepted) {
            log::sent(&self.shared.name, message, accepted);
        }
        let mut accepted = accepted.into_iter();
        let outcomes = prepared.into_iter().map(|rejected| {
            rejected.unwrap_or_else(|| match accepted.next() {
                Some(accepted) => send_outcome(accepted),
                None => unreachable!("a store returns one outcome per item"),
            })
        });
        Ok(outcomes.collect())
    }

    /// The message to store, or the outcome that rejects it.
    fn prepare(
        &self,
        outgoing: OutgoingMessage,
        sharding: &mut Sharding,
    ) -> Result<Result<NewMessage, SendOutcome>, Error> {
        let topic = self.settings.topic(outgoing.topic());
        if outgoing.payload_bytes() > topic.payload_bytes_max {
            return Ok(Err(SendOutcome::TooLarge { bytes_max: topic.payload_bytes_max }));
        }
        if !outgoing.matches_hash() {
            return Ok(Err(SendOutcome::HashMismatch));
        }
        let now = self.shared.clock.now();
        let corr_id = || oncebox_core::Uid::v7(now, self.shared.random());
        let (due, expires) = outgoing.times(now, topic.ready_keep)?;
        let mut message = outgoing.into_message(sharding, corr_id)?;
        message.content.due = due;
        message.content.expires = Some(expires);
        message.content.seal = Some(envelope::seal(&message, now));
        message.lane_max = self.settings.shard_capacity();
        message.policy = Policy { attempts_max: topic.attempts_max(), hold: topic.hold(), ..Policy::MAILBOX };
        Ok(Ok(message))
    }

    /// Message counts of a topic by state, in one of its shards or in all.
    pub async fn counts(&self, topic: &str, shard: Option<u16>) -> Result<Counts, Error> {
        let topic = Some(Topic::new(topic)?);
        let scope = Scope { namespace: Namespace::Mailbox, topic, shard: shard.map(Shard) };
        self.shared.store.counts(&scope).await
    }

    /// Operator access to dead letters and all other messages of the mailbox: list, show, redrive, purge. `actor` names
    /// the person or program in audit events.
    pub fn operator(&self, actor: impl AsRef<str>) -> Operator {
        let operator = Operator::new(self.shared.clone(), Namespace::Mailbox, actor.as_ref().into());
        match self.settings.shard_capacity() {
            Some(capacity) => operator.shard_capacity(capacity),
            None => operator,
        }
    }

    /// Dead-letters a stored message that differs from what was sent, and reports it to the receiver.
    async fn dead_letter_damaged(&self, delivery: &Delivery) -> Result<Damaged, Error> {
        let msg_id = MsgId::from(delivery.uid);
        let corr_id = delivery.trace.correlation().unwrap_or_default().to_owned();
        warn!(store = %self.shared.name, %msg_id, %corr_id, "stored message failed its integrity check and is now a dead letter");
        let error = LastError::new(
            "the stored message differs from what was sent: its payload or hash chain does not match",
        );
        let verdict = Verdict::Fail { reason: DeadReason::Integrity, error };
        self.shared.store.settle(&[LeaseToken::of(delivery).settle(verdict)]).await?;
        Ok(Damaged { msg_id, corr_id })
    }
}

fn send_outcome(accepted: Accepted) -> Result<SendOutcome, Error> {
    match accepted {
        Accepted::New { summary, .. } => Ok(SendOutcome::Accepted(summary.into())),
        Accepted::Duplicate { summary, .. } | Accepted::Replaced(summary) => {
            Ok(SendOutcome::Duplicate(summary.into()))
        }
        Accepted::Conflict(summary) => Ok(SendOutcome::Conflict(summary.into())),
        Accepted::Saturated { retry_after, bound } => Err(Error::saturated(retry_after, bound)),
        _ => Err(Error::new(ErrorKind::Invalid, "the message id belongs to another message")),
    }
}

impl From<oncebox_core::MessageSummary> for SendReceipt {
    fn from(summary: oncebox_core::MessageSummary) -> Self {
        Self { msg_id: summary.uid.into(), dedup_until: summary.dedup_until }
    }
}
