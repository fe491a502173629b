//! The port: what every store can do. The doc comments are the contract; the conformance suite holds stores to it.

mod ext;
mod intake;
mod operator;
mod transaction;
mod upkeep;
mod watch;
mod work;

use async_trait::async_trait;

use crate::error::Error;
use crate::key::{Key, Namespace, Ref};
use crate::message::{NewMessage, Snapshot};
use crate::payload::Omitted;
use crate::text::Topic;

pub use ext::StoreExt;
pub use intake::{Accepted, Begin, Begun, Observed, Receipt, Sighting};
pub use operator::{
    Action, AttemptCount, Counts, Cursor, Direction, Operated, Order, Page, PageSize, Query, Scope,
};
pub use transaction::{Recorded, TransactionalStore, Wake};
pub use upkeep::{Budget, DeadLetters, Deaths, Retention, Upkept};
pub use watch::{Bound, ReadyTopics, TopicCounts, TopicPage, TopicQuery, TopicRange, Usage};
pub use work::{
    Batch, Claim, Delivery, Extended, Extension, Settled, Settlement, Topics, Verdict, VerdictKind, Worked,
};

/// What a store is able to promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// All items of one call take effect together or not at all.
    pub atomic_calls: bool,
    /// What was answered survives the end of the process.
    pub durable: bool,
    /// Several processes may work on it at once.
    pub shared: bool,
}

impl Capabilities {
    /// The capabilities of a store that promises nothing.
    pub const NONE: Self = Self { atomic_calls: false, durable: false, shared: false };
}

/// What a waiting worker wants to be told about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interest {
    /// The namespace it claims from.
    pub namespace: Namespace,
    /// The topics it claims.
    pub topics: Topics,
}

/// Tells a waiting worker that claiming may be worth it.
#[async_trait]
pub trait Wakeups: Send {
    /// Waits until a call has made something claimable since the last wait (or since this was made), or the store was
    /// closed. What time makes claimable wakes when a call notices, upkeep above all. Wakes too often and, rarely, not at
    /// all: a hint, never the truth. Safe to cancel.
    async fn wait(&mut self);
}

/// A store of messages and keys.
///
/// # What holds for every call
/// - **Order.** Items act one after another, in the order given; the same key or uid may come twice. There is exactly
///   one outcome per item, in the same order.
/// - **Atomicity.** Each item happens whole or not at all; the whole call does where [`Capabilities::atomic_calls`].
/// - **Durability.** An answer, also one that wrote nothing, is given only when the state it was read from is durable.
/// - **Time.** The store's own clock decides. A lease is current before its end, not at it; the end of a lease and an
///   expiry take effect at their instant in every outcome and read, whoever has looked. Only [`Store::counts`],
///   [`Store::ready_topics`], [`Store::topic_counts`] and [`Store::usage`] may lag, until upkeep has done all that was due.
/// - **Limits.** At most [`crate::limits::CALL_ITEMS_MAX`] items, and claims of at most
///   [`crate::limits::CLAIM_MESSAGES_MAX`] messages together; more is [`crate::Kind::Invalid`]. An empty call answers at
///   once.
/// - **Errors.** Expected refusals are outcomes. After an error the call may or may not have happened, in part too where it
///   is not atomic, unless its kind is `Invalid`, `Unsupported` or `Closed`: then nothing did. Each method tells what a
///   repeat does.
#[async_trait]
pub trait Store: Send + Sync {
    /// What this store promises; never changes while it is open.
    fn capabilities(&self) -> Capabilities;

    /// A way to wait for work. Dropping it ends the interest.
    fn wakeups(&self, interest: Interest) -> Box<dyn Wakeups>;

    /// Notes that keys came by, and tells whether they are known and Done.
    ///
    /// An unknown key is recorded as [`crate::State::Seen`]. A known one gets its `last_seen_at` moved unless it is
    /// Done, and the hash if it had none of the caller's. A sighting never spends an attempt, never makes anything
    /// claimable, never moves how long the key is held.
    ///
    /// *Repeat:* harmless; what was `First` answers `Again`.
    async fn observe(&self, sightings: &[Sighting]) -> Result<Vec<Observed>, Error>;

    /// Takes in messages, each key once while it is held.
    ///
    /// A message whose key nobody holds becomes Processing and gets the next number, unless its lane is full by its own
    /// `lane_max`: then it is `Saturated`. One whose key is known but has no
    /// content yet gives it its content and the next number: Seen becomes Processing, a Dead one stays Dead. Against a
    /// key that has content the policy of the *new* message decides ([`crate::Divergence`]); a Done message is never
    /// touched, and otherwise `last_seen_at` is moved. `Replace` writes topic, shard, payload, hash, due, partition,
    /// expiry and attributes, also when the content is the same, and keeps uid, number, attempts, retry time, trace and
    /// policy; if it changes the content of a leased message, the settlement of that lease answers
    /// [`Settled::Superseded`].
    ///
    /// *Repeat:* while the key is held, the same message again answers `Duplicate` with the first receipt. But under
    /// `Replace` it writes its content again, over newer content that came in between; and once the hold has lapsed it is
    /// taken in again, or, if it brings its uid along, answered `UidTaken`.
    async fn accept(&self, messages: &[NewMessage]) -> Result<Vec<Accepted>, Error>;

    /// Leases keys that have no content: "let me process this key".
    ///
    /// An unknown key is recorded as Seen; the lease stands beside the state. A key that is Done answers `Processed`,
    /// one under a current lease `Busy`, whoever asks, and one that has content or is Dead `Invalid`.
    ///
    /// *Repeat:* `Busy` until the first lease ends.
    async fn begin(&self, begins: &[Begin]) -> Result<Vec<Begun>, Error>;

    /// Settles finished deliveries, then claims new ones, in one commit.
    ///
    /// A settlement counts only under a current lease with its owner and fence; otherwise it changes nothing and answers
    /// [`Settled::LeaseLost`]. The kind and answer of the last settlement stay with the message until its next grant,
    /// and for at least [`crate::limits::REPEAT_WINDOW`] after it finished.
    ///
    /// A claim takes what is Processing, has content, is due, is past its retry time, is not leased and whose partition
    /// is free; per lane in order of number, the lanes in turn. In a partition only the lowest number among those that
    /// are due may be taken, and only while none of it is leased. The first message of a claim is taken whatever its
    /// size, later ones only while all payloads together stay within `bytes_max`.
    ///
    /// *Repeat:* the same settlement gets the same outcome; a claim with the same owner and request id gets those of its
    /// deliveries whose leases are still current and whose content was not replaced since, and claims anew if no lease is
    /// current. A claim without a request id claims other messages.
    async fn work(&self, settlements: &[Settlement], claims: &[Claim]) -> Result<Worked, Error>;

    /// Moves the end of current leases to `lease` from now, never to an earlier moment. A mailbox delivery cannot be
    /// held longer than [`crate::limits::MAILBOX_EXTEND_FACTOR`] times the lease it was claimed with.
    ///
    /// *Repeat:* harmless.
    async fn extend(&self, extensions: &[Extension]) -> Result<Vec<Extended>, Error>;

    /// Carries out an operator's orders; no lease is needed, and one that stands in the way ends without an attempt
    /// spent. See [`Action`] for each.
    ///
    /// *Repeat:* acts on the message as it stands then; mostly it answers `Unchanged`, or `Unknown` after an erase. Name it
    /// by uid: its key may belong to another message by now. If it was claimed or died again in between, `MarkProcessing`
    /// and `Redrive` take it back again: look at it first.
    async fn operate(&self, orders: &[Order]) -> Result<Vec<Operated>, Error>;

    /// Reads messages; a key finds the message that holds it now, and nothing once its hold has lapsed: that is what a sender of the
    /// key would meet. [`Store::with_key`] finds the others. Records nothing.
    async fn get(&self, refs: &[Ref]) -> Result<Vec<Option<Snapshot>>, Error>;

    /// Reads the messages that have or had this key, also those whose hold has lapsed or whose key a later message has taken: every
    /// stored message that came under it, the newest `limit` of them. The newest comes first: the latest `accepted_at`, among
    /// equals the greatest uid. `keyed` says which one holds the key now; at most one does, and if one does it has the latest
    /// `accepted_at`. Costs no more than what it gives, however many messages there are. Records nothing, and changes nothing
    /// about which keys are free.
    async fn with_key(&self, key: &Key, limit: PageSize) -> Result<Vec<Snapshot<Omitted>>, Error>;

    /// Reads one page of a listing, by number. A page may be short, even empty, though more follow: the listing ends
    /// where `next` is none. What exists during the whole listing and keeps its number is listed exactly once; what is
    /// redriven, or gets its first content, moves to the newest end.
    async fn page(&self, query: &Query) -> Result<Page, Error>;

    /// Counts messages; may lag behind lease ends and expiries, and says whether it estimates.
    async fn counts(&self, scope: &Scope) -> Result<Counts, Error>;

    /// Names the topics that have at least one claimable message, in byte order; fewer than asked for are the last ones.
    /// May lag behind what time brings. Costs no more than the names it gives, however many messages and topics there are.
    async fn ready_topics(&self, query: &ReadyTopics) -> Result<Vec<Topic>, Error>;

    /// Counts the messages of each topic that has one which is not Done, a page of topics at a time, in byte order. A page
    /// may be short, even empty, though more follow: the listing ends where `next` is none. May lag as [`Store::counts`]
    /// does, and says whether it estimates. Costs no more than the topics it gives and a bounded number of their messages.
    async fn topic_counts(&self, query: &TopicQuery) -> Result<TopicPage, Error>;

    /// Tells how much of each of its bounds the store uses; a store without bounds names none. What would go over one is
    /// answered `Saturated`. May lag as [`Store::counts`] does.
    async fn usage(&self) -> Result<Usage, Error>;

    /// Does a bounded piece of what time has made necessary: ends lapsed leases, expires, forgets what is no longer
    /// held or kept. Safe to run in many processes at once. Whoever wants workers to wake in time calls it at `next_due`, and
    /// at least every second or so, for any call may bring up an earlier moment.
    ///
    /// *Repeat:* harmless.
    async fn upkeep(&self, budget: Budget) -> Result<Upkept, Error>;

    /// Closes the store; every call after this answers [`crate::Kind::Closed`], closing again answers `Ok`.
    async fn close(&self) -> Result<(), Error>;
}
