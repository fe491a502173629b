//! A durable, idempotent inbox: it takes in each message once, and gets it handled.
//!
//! ```
//! use oncebox::{Json, Message, Oncebox, Outcome, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Payment {
//!     cents: u64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox::Error> {
//! let oncebox = Oncebox::open("memory:").await?;
//!
//! // A webhook arrives, and arrives again.
//! let message = Message::new("payment.received", "stripe", "evt_1").json(&Payment { cents: 1_250 })?;
//! let first = oncebox.inbox().enqueue(message.clone()).await?;
//! let again = oncebox.inbox().enqueue(message).await?;
//! assert_eq!((first.outcome, again.outcome), (Outcome::Accepted, Outcome::Duplicate));
//!
//! // A worker handles it.
//! let stopped = Worker::new(&oncebox)
//!     .on("payment.received", async |Json(payment): Json<Payment>| assert_eq!(payment.cents, 1_250))
//!     .run_until_idle()
//!     .await?;
//! assert_eq!(stopped.handled, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Parts
//! - [`Inbox`]: receiving. Application code that takes messages in needs nothing else.
//! - [`Worker`]: handlers by topic, with leases, heartbeats, retries and a graceful stop.
//! - [`WorkQueue`]: claiming and settling by hand, for those who write their own worker.
//! - [`commands`]: typed commands, run now or stored and run later.
//! - [`ledger::Ledger`]: "was this key processed?", for consumers that handle messages themselves.
//! - [`mailbox::Mailbox`]: store and forward, for receivers that come and go.
//! - [`Operator`]: listing, redriving, cancelling, erasing.
//! - [`Upkeep`], [`Health`]: what runs beside. A worker brings its own upkeep.
//!
//! # What it guarantees
//! A key (source, id) is accepted once while it is held: by default until 30 days after its message was handled.
//! Handlers run at least once: write them so that a second run does no harm.

pub mod commands;
pub mod layers;
pub mod ledger;
pub mod mailbox;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

/// The directory of an embedded store that nobody has open: is it sound, make it open again, what is in it.
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use oncebox_store_embedded::{
        Cut, Damage, Finding, Loss, Repaired, Report, SegmentTotals, Stats, Verified, repair, stats, verify,
    };
}

/// Stores on PostgreSQL: their tables, and handlers that run in a transaction.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use oncebox_store_postgres::{
        Address, Ensured, Options, PgTransaction, Pooler, PostgresStore, Schema,
    };

    /// The transaction that a handler runs in. Run statements on `&mut **tx`.
    pub type Tx = crate::Tx<PgTransaction>;
}

mod build;
mod handled;
mod health;
mod inbox;
mod lease_token;
mod message;
mod open;
mod operator;
mod queue;
mod shared;
mod stirring;
mod transaction;
mod upkeep;
mod worker;

pub use build::Builder;
pub use bytes::Bytes;
pub use health::{Finding, Health, Level};
pub use inbox::{Inbox, Mark, Outcome, Receipt, Sighting};
pub use message::{Message, Moment};
pub use oncebox_core::{
    Attributes, Backoff, Bound, CallerHash, Capabilities, Clock, Content, Counts, Cursor, DeadReason, Deaths,
    Delivery, Direction, Divergence, Error, Extended, Fence, Fingerprint, Grant, GrantEnd, Growth, Hold, Id,
    Invalid, Jitter, Keep, Key, Kind, LastError, Lease, Namespace, Number, Observed, Omitted, Operated,
    Owner, Page, PageSize, Partition, Payload, Policy, Query, Receipt as Standing, Recorded, Ref, RequestId,
    Rng, Settled, Shard, Snapshot, Source, Span, State as MessageState, Store, Timestamp, Topic, TopicCounts,
    TopicPage, TopicQuery, TopicRange, Trace, TransactionalStore, Uid, Upkept, Usage, VerdictKind, Wake,
    WorkerName,
};
pub use operator::{Filter, Operator, Sweep, SweepCursor};
pub use queue::WorkQueue;
pub use shared::Oncebox;
pub use upkeep::Upkeep;
pub use worker::{
    BoxError, Context, Extract, Failed, Failure, FromState, Handler, HandlerFn, HandlerService, IntoResult,
    Json, Rejection, Route, Running, State, Stopped, Text, Tx, Unhandled, Wish, Worker,
};

/// The README's code is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The guide's code is compiled and run with the doc tests.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../../docs/guide/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../../docs/guide/handlers.md")]
    struct Handlers;
    #[doc = include_str!("../../../docs/guide/retries-and-dead-letters.md")]
    struct RetriesAndDeadLetters;
    #[doc = include_str!("../../../docs/guide/ledger-and-mailbox.md")]
    struct LedgerAndMailbox;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/commands.md")]
    struct Commands;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/postgres.md")]
    struct Postgres;
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../../../docs/guide/transactions.md")]
    struct Transactions;
    #[cfg(feature = "testing")]
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
}
