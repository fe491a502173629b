//! The mailbox: store and forward. Send, receive for a while, acknowledge.

mod envelope;
mod handle;
mod log;
mod msg_id;
mod parcel;
mod receive;
mod settings;
mod settle;
mod turns;

use std::sync::Arc;

use oncebox_core::{
    Accepted, Counts, DeadReason, Delivery, Error, Kind, LastError, Namespace, NewMessage, Policy, Scope,
    Shard, StoreExt, Timestamp, Topic, Verdict,
};
use tracing::warn;

use crate::operator::Operator;
use crate::shared::Shared;

use parcel::Sharding;
use turns::Turns;

pub use crate::lease_token::LeaseToken;
pub use envelope::Envelope;
pub use handle::Handle;
pub use msg_id::MsgId;
pub use parcel::Parcel;
pub use receive::{Damaged, Receive, Received};
pub use settings::{KeyHold, MailboxSettings, TopicSettings};
pub use settle::{Outcome, Settle};

/// Stores messages and forwards them, at least once.
///
/// ```
/// use oncebox::Oncebox;
/// use oncebox::mailbox::{MailboxSettings, Outcome, Parcel, Receive, Sent};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// let mailbox = Oncebox::open("memory:").await?.mailbox(MailboxSettings::default())?;
/// let parcel = || Parcel::new("greetings", "first").bytes("hello");
/// let Sent::Accepted(ticket) = mailbox.send(parcel()).await? else { panic!("it is new") };
/// assert_eq!(mailbox.send(parcel()).await?, Sent::Duplicate(ticket));
///
/// let envelopes = mailbox.receive(Receive::new("greetings")).await?.envelopes;
/// assert_eq!(envelopes[0].payload, "hello");
/// assert_eq!(mailbox.ack(envelopes[0].receipt).await?, Outcome::Ok);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mailbox {
    shared: Arc<Shared>,
    settings: Arc<MailboxSettings>,
    /// Of those who wait for messages.
    turns: Arc<Turns>,
}

/// What a sender gets for a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ticket {
    /// The message that has the parcel's idempotency key.
    pub msg_id: MsgId,
    /// Until when the key is known, at least.
    pub dedup_until: Timestamp,
}

/// What became of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// It is new, and taken in.
    Accepted(Ticket),
    /// It came before, with the same payload: one delivery is enough.
    Duplicate(Ticket),
    /// Its idempotency key came before with another payload; that one stays.
    Conflict(Ticket),
    /// Its payload does not match the hash that came with it.
    Damaged,
    /// Its payload is larger than the topic allows.
    TooLarge {
        /// What it allows.
        bytes_max: usize,
    },
}

impl Mailbox {
    pub(crate) fn new(shared: Arc<Shared>, settings: MailboxSettings) -> Result<Self, Error> {
        settings.check()?;
        shared.keep_dead_letters(settings.dead_letters()?);
        Ok(Self { shared, settings: Arc::new(settings), turns: Arc::default() })
    }

    /// What it is set to.
    pub fn settings(&self) -> &MailboxSettings {
        &self.settings
    }

    /// Takes a parcel in, once within the replay window of its topic. A full shard is [`Kind::Saturated`].
    ///
    /// *Repeat:* safe; answers [`Sent::Duplicate`].
    pub async fn send(&self, parcel: Parcel) -> Result<Sent, Error> {
        let message = match self.prepare(parcel, &mut Sharding::new(self.settings.shards))? {
            Ok(message) => message,
            Err(refused) => return Ok(refused),
        };
        let accepted = self.shared.store.accept_one(&message).await?;
        log::sent(&self.shared.name, &message, &accepted);
        sent(accepted)
    }

    /// Takes many in, in order, with one outcome each: one that is wrong does not keep the others out.
    pub async fn send_all(
        &self,
        parcels: impl IntoIterator<Item = Parcel>,
    ) -> Result<Vec<Result<Sent, Error>>, Error> {
        let mut messages = Vec::new();
        let mut sharding = Sharding::new(self.settings.shards);
        let prepared = parcels.into_iter().map(|parcel| match self.prepare(parcel, &mut sharding) {
            Ok(Ok(message)) => {
                messages.push(message);
                None
            }
            Ok(Err(refused)) => Some(Ok(refused)),
            Err(error) => Some(Err(error)),
        });
        let prepared: Vec<_> = prepared.collect();
        let accepted = self.shared.store.accept(&messages).await?;
        for (message, accepted) in messages.iter().zip(&accepted) {
            log::sent(&self.shared.name, message, accepted);
        }
        let mut accepted = accepted.into_iter();
        let outcomes = prepared.into_iter().map(|refused| {
            refused.unwrap_or_else(|| match accepted.next() {
                Some(accepted) => sent(accepted),
                None => unreachable!("a store gives one outcome per item"),
            })
        });
        Ok(outcomes.collect())
    }

    /// The message to be stored, or why it is not.
    fn prepare(&self, parcel: Parcel, sharding: &mut Sharding) -> Result<Result<NewMessage, Sent>, Error> {
        let topic = self.settings.topic(parcel.topic());
        if parcel.payload_bytes() > topic.payload_bytes_max {
            return Ok(Err(Sent::TooLarge { bytes_max: topic.payload_bytes_max }));
        }
        if !parcel.is_whole() {
            return Ok(Err(Sent::Damaged));
        }
        let now = self.shared.clock.now();
        let corr_id = || oncebox_core::Uid::v7(now, self.shared.random());
        let (due, expires) = parcel.times(now, topic.ready_keep)?;
        let mut message = parcel.into_message(sharding, corr_id)?;
        message.content.due = due;
        message.content.expires = Some(expires);
        message.content.seal = Some(envelope::seal(&message, now));
        message.lane_max = self.settings.shard_capacity();
        message.policy = Policy { attempts_max: topic.attempts_max(), hold: topic.hold(), ..Policy::MAILBOX };
        Ok(Ok(message))
    }

    /// How many messages of a topic stand where: in one of its shards, or in all.
    pub async fn counts(&self, topic: &str, shard: Option<u16>) -> Result<Counts, Error> {
        let topic = Some(Topic::new(topic)?);
        let scope = Scope { namespace: Namespace::Mailbox, topic, shard: shard.map(Shard) };
        self.shared.store.counts(&scope).await
    }

    /// Dead letters, and all other messages of the mailbox, on behalf of an actor: list, show, redrive, purge.
    pub fn operator(&self, actor: impl AsRef<str>) -> Operator {
        let operator = Operator::new(self.shared.clone(), Namespace::Mailbox, actor.as_ref().into());
        match self.settings.shard_capacity() {
            Some(capacity) => operator.shard_capacity(capacity),
            None => operator,
        }
    }

    /// A message that is not what was sent becomes a dead letter, and its receiver learns which it was.
    async fn quarantine(&self, delivery: &Delivery) -> Result<Damaged, Error> {
        let msg_id = MsgId::from(delivery.uid);
        let corr_id = delivery.trace.correlation().unwrap_or_default().to_owned();
        warn!(store = %self.shared.name, %msg_id, %corr_id, "the stored message is not what was sent: it is a dead letter now");
        let error =
            LastError::new("the stored message is not what was sent: payload or hash chain do not match");
        let verdict = Verdict::Fail { reason: DeadReason::Integrity, error };
        self.shared.store.settle(&[LeaseToken::of(delivery).settle(verdict)]).await?;
        Ok(Damaged { msg_id, corr_id })
    }
}

fn sent(accepted: Accepted) -> Result<Sent, Error> {
    match accepted {
        Accepted::New { receipt, .. } => Ok(Sent::Accepted(receipt.into())),
        Accepted::Duplicate { receipt, .. } | Accepted::Replaced(receipt) => {
            Ok(Sent::Duplicate(receipt.into()))
        }
        Accepted::Conflict(receipt) => Ok(Sent::Conflict(receipt.into())),
        Accepted::Saturated { retry_after, bound } => Err(Error::saturated(retry_after, bound)),
        _ => Err(Error::new(Kind::Invalid, "the message id belongs to another message")),
    }
}

impl From<oncebox_core::Receipt> for Ticket {
    fn from(receipt: oncebox_core::Receipt) -> Self {
        Self { msg_id: receipt.uid.into(), dedup_until: receipt.dedup_until }
    }
}
