//! The port: the operations that every store implements. The doc comments are the contract, and the conformance suite
//! in `oncebox-testkit` checks stores against it.

mod accept;
mod call;
mod ext;
mod maintenance;
mod operator;
mod records;
mod stats;
mod transaction;
mod work;

use async_trait::async_trait;

use crate::error::Error;
use crate::key::{Key, MessageRef, Namespace};
use crate::message::{NewMessage, Snapshot};
use crate::payload::Omitted;
use crate::text::Topic;

pub use accept::{Accepted, Begin, Begun, Observation, Observed};
pub use call::{check_call, check_records, check_work};
pub use ext::StoreExt;
pub use maintenance::{Budget, DeadLetters, Deaths, MaintenanceReport, Retention};
pub use operator::{
    Action, AttemptCount, Counts, Cursor, Direction, MessagePage, MessageQuery, Operated, Order, PageSize,
    Scope,
};
pub use records::{RecordOp, RecordOutcome, WriteCondition};
pub use stats::{ReadyTopics, TopicCounts, TopicPage, TopicQuery, TopicRange, Usage};
pub use transaction::{Recorded, TransactionalStore, Wake};
pub use work::{Batch, Claim, Delivery, Extended, Extension, Settlement, Topics, Worked};

/// What a store guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// All items of one call take effect together or not at all.
    pub atomic_calls: bool,
    /// State that a call has returned survives the end of the process.
    pub durable: bool,
    /// Several processes may use the store at the same time.
    pub shared: bool,
}

impl Capabilities {
    /// The capabilities of a store that guarantees nothing.
    pub const NONE: Self = Self { atomic_calls: false, durable: false, shared: false };
}

/// The messages that a waiting worker wants wake-ups for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// The namespace that the worker claims from.
    pub namespace: Namespace,
    /// The topics that the worker claims.
    pub topics: Topics,
}

/// Wakes a waiting worker when a claim is likely to return messages.
#[async_trait]
pub trait Wakeups: Send {
    /// Waits until a call has made a message claimable since the last wait (or since this value was created), or until
    /// the store is closed. A message that becomes claimable as time passes wakes the worker when some call notices it,
    /// usually maintenance. A wake-up is only a hint: there may be spurious ones, and rarely one is missing. Cancel
    /// safe.
    async fn wait(&mut self);
}

/// A store of messages and keys.
///
/// # Rules for every call
/// - **Order.** Items take effect one after another, in the given order; the same key or uid may occur more than once.
///   Every item has exactly one outcome, in the same order.
/// - **Atomicity.** Each item takes effect as a whole or not at all. So does the whole call if
///   [`Capabilities::atomic_calls`] is set.
/// - **Durability.** A call returns only when the state that its outcomes are based on is durable, even if the call
///   wrote nothing.
/// - **Time.** The store's own clock decides. A lease is current before its end, not at it. The end of a lease and an
///   expiry take effect at their instant in every outcome and every read, whichever call is first to notice. Only
///   [`Store::counts`], [`Store::ready_topics`], [`Store::topic_counts`] and [`Store::usage`] may lag, until
///   maintenance has processed everything that was due.
/// - **Limits.** A call has at most [`crate::limits::CALL_ITEMS_MAX`] items, and its claims ask for at most
///   [`crate::limits::CLAIM_MESSAGES_MAX`] messages in total; a larger call fails with [`crate::ErrorKind::Invalid`].
///   A call without items returns at once.
/// - **Errors.** Expected refusals are outcomes, not errors. After an error the call may or may not have taken effect,
///   possibly in part if it is not atomic; if the kind is `Invalid`, `Unsupported` or `Closed`, nothing took effect.
///   The *Repeat* clause of each method describes what repeating the call does.
#[async_trait]
pub trait Store: Send + Sync {
    /// The guarantees of this store. They do not change while it is open.
    fn capabilities(&self) -> Capabilities;

    /// Subscribes to wake-ups for claimable messages. Dropping the value ends the subscription.
    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups>;

    /// Records that keys were observed, and returns whether they are known and Done.
    ///
    /// An unknown key is recorded as [`crate::MessageState::Seen`]. A known key that is not Done gets a new
    /// `last_seen_at`, and the observation's hash if it has no caller's hash yet. An observation never spends an
    /// attempt, never makes a message claimable, and never changes how long the key is held.
    ///
    /// *Repeat:* harmless; a key that was `First` is now `Again`.
    async fn observe(&self, observations: &[Observation]) -> Result<Vec<Observed>, Error>;

    /// Accepts messages, each key at most once while it is held.
    ///
    /// If no message holds the key, the new message becomes Processing and gets the next number, unless its lane
    /// already has `lane_max` unfinished messages; then the outcome is `Saturated`. If the key is known but has no
    /// content yet, the message supplies the content and gets the next number: Seen becomes Processing, and a Dead
    /// message stays Dead. If the key has content, the policy of the *new* message decides ([`crate::Divergence`]). A
    /// Done message is never changed; otherwise `last_seen_at` is updated. `Replace` writes topic, shard, payload,
    /// hash, due time, partition, expiry and attributes, even if the content is the same, and keeps uid, number,
    /// attempts, retry time, trace and policy. If it changes the content of a leased message, settling that lease
    /// returns [`Settled::Superseded`](crate::Settled::Superseded).
    ///
    /// *Repeat:* while the key is held, the same message returns `Duplicate` with the summary of the first. Under
    /// `Replace`, however, a repeat writes its content again, over newer content that was accepted in between. Once the
    /// hold has lapsed, the message is accepted again or, if it carries its own uid, refused with `UidTaken`.
    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error>;

    /// Leases keys that have no content, so that the caller can process them.
    ///
    /// An unknown key is recorded as Seen; the lease is independent of the state. A key that is Done returns
    /// `Processed`, a key with a current lease returns `Busy`, even to the owner of that lease, and a key that has
    /// content or is Dead returns `Invalid`.
    ///
    /// *Repeat:* `Busy` until the first lease ends.
    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error>;

    /// Settles finished deliveries, then claims new ones, in one commit.
    ///
    /// A settlement takes effect only under a current lease with the same owner and fence; otherwise it changes nothing
    /// and returns [`Settled::LeaseLost`](crate::Settled::LeaseLost). The kind and the outcome of the last settlement stay with the message
    /// until its next grant, and for at least [`crate::limits::REPEAT_WINDOW`] after the message finished.
    ///
    /// A claim delivers messages that are Processing, have content, are due, are past their retry time, are not leased,
    /// and whose partition is free: in order of number within a lane, and round-robin across lanes. Within a partition
    /// only the message with the lowest number among those that are due may be delivered, and only while no message of
    /// the partition is leased. The first message of a claim is delivered whatever its size, later ones only while all
    /// payloads together stay within `bytes_max`.
    ///
    /// *Repeat:* the same settlement returns the same outcome. A claim with the same owner and request id returns those
    /// of its deliveries whose leases are still current and whose content was not replaced since; if none of its leases
    /// is current, it claims new messages. A claim without a request id claims other messages.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error>;

    /// Moves the end of current leases to `lease` from now, never to an earlier moment. A mailbox delivery cannot be
    /// held for longer than [`crate::limits::MAILBOX_EXTEND_FACTOR`] times the lease that it was claimed with.
    ///
    /// *Repeat:* harmless.
    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error>;

    /// Executes an operator's orders. They need no lease; a current lease that conflicts with an order ends without
    /// spending an attempt. See [`Action`] for each order.
    ///
    /// *Repeat:* the order applies to the current state of the message; usually the outcome is `Unchanged`, or
    /// `Unknown` after an erase. Refer to the message by uid: its key may belong to another message by now. If the
    /// message was claimed or died again in between, `MarkProcessing` and `Redrive` make it claimable once more, so
    /// read it first.
    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error>;

    /// Reads messages. A key finds the message that holds it now, and nothing once the hold has lapsed, as it would for
    /// a sender of that key; [`Store::with_key`] finds earlier messages too. Records nothing.
    async fn get(&self, refs: &[MessageRef]) -> Result<Vec<Option<Snapshot>>, Error>;

    /// Reads every stored message that was accepted under this key, including those whose hold has lapsed and those
    /// whose key a later message has taken over; at most `limit` of them, newest first. The newest has the latest
    /// `accepted_at` and, among equals, the greatest uid. `keyed` marks the message that holds the key now; there is at
    /// most one, and it has the latest `accepted_at`. The cost depends on the number of messages returned, not on the
    /// number stored. Records nothing, and does not affect which keys are free.
    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error>;

    /// Reads one page of a listing, ordered by number. A page may be short or even empty although more follow: the
    /// listing ends when `next` is none. A message that exists during the whole listing and keeps its number is listed
    /// exactly once; a message that is redriven, or gets its first content, moves to the newest end.
    async fn page(&self, query: &MessageQuery) -> Result<MessagePage, Error>;

    /// Counts messages. May lag behind lease ends and expiries, and reports whether the counts are estimates.
    async fn counts(&self, scope: &Scope) -> Result<Counts, Error>;

    /// Lists the topics that have at least one claimable message, in byte order; a result with fewer topics than the
    /// limit is the last one. May lag behind time. The cost depends on the number of topics returned, not on the number
    /// of messages and topics stored.
    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error>;

    /// Counts the messages of each topic that has a message which is not Done, one page of topics at a time, in byte
    /// order. A page may be short or even empty although more follow: the listing ends when `next` is none. May lag as
    /// [`Store::counts`] does, and reports whether the counts are estimates. The cost depends on the number of topics
    /// returned plus a bounded number of their messages.
    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error>;

    /// Reads and changes records: small durable state beside messages, by kind and id. A record that has expired is gone
    /// at that instant, in every outcome. A kind has at most as many records as it states, and at most
    /// [`crate::limits::RECORD_KIND_BYTES_MAX`] bytes. Every write of a kind gets a higher version than the one before.
    ///
    /// *Repeat:* a `Put` if absent, or of a version, returns `Conflict` with what the first one wrote; a `Put` in any case
    /// writes again. A `Delete` returns that there is no record.
    async fn records(&self, ops: &[RecordOp]) -> Result<Vec<RecordOutcome>, Error>;

    /// Reports how much of each of its bounds the store uses; a store without bounds reports none. A call that would
    /// exceed a bound returns `Saturated`. May lag as [`Store::counts`] does.
    async fn usage(&self) -> Result<Usage, Error>;

    /// Performs a bounded amount of maintenance: ends lapsed leases, expires messages, and forgets what is no longer
    /// held or retained. Safe to run in many processes at once. For workers to wake on time, call it at `next_due` and
    /// at least about every second, because any call may bring an earlier moment.
    ///
    /// *Repeat:* harmless.
    async fn maintain(&self, budget: Budget) -> Result<MaintenanceReport, Error>;

    /// Closes the store. Every later call fails with [`crate::ErrorKind::Closed`]; closing again returns `Ok`.
    async fn close(&self) -> Result<(), Error>;
}
