//! A durable, idempotent inbox: it accepts messages, deduplicates them, and makes sure that each one is handled.
//!
//! ```
//! use oncebox::{EnqueueOutcome, Json, Message, Oncebox, Worker};
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
//! // A webhook is delivered twice.
//! let message = Message::new("payment.received", "stripe", "evt_1").json(&Payment { cents: 1_250 })?;
//! let first = oncebox.inbox().enqueue(message.clone()).await?;
//! let again = oncebox.inbox().enqueue(message).await?;
//! assert_eq!((first.outcome, again.outcome), (EnqueueOutcome::Accepted, EnqueueOutcome::Duplicate));
//!
//! // A worker handles it.
//! let summary = Worker::new(&oncebox)
//!     .on("payment.received", async |Json(payment): Json<Payment>| assert_eq!(payment.cents, 1_250))
//!     .run_until_idle()
//!     .await?;
//! assert_eq!(summary.handled, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Overview
//! - [`Inbox`]: accepts messages and deduplicates them. Code that only receives messages needs nothing else.
//! - [`Worker`]: runs handlers by topic, with leases, heartbeats, retries and a graceful stop.
//! - [`WorkQueue`]: claims and settles messages, for applications that implement their own worker.
//! - [`commands`]: typed commands, run at once or stored and run later.
//! - [`ledger::Ledger`]: records which keys were processed, for consumers that handle messages themselves.
//! - [`mailbox::Mailbox`]: store and forward, for receivers that are not always online.
//! - [`Operator`]: lists, redrives, cancels and erases messages.
//! - [`Maintenance`] and [`Health`]: background work and health checks. A worker runs its own maintenance.
//!
//! # Guarantees
//! A key (source and id) is accepted once while it is held: by default, until 30 days after its message was handled.
//! Handlers run at least once, so they must be idempotent.

pub mod commands;
pub mod health;
pub mod inbox;
pub mod layers;
pub mod ledger;
pub mod mailbox;
pub mod maintenance;
pub mod message;
pub mod operator;
pub mod queue;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod worker;

/// Offline tools for the directory of an embedded store that no process has open: verify, repair, statistics.
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use oncebox_store_embedded::{
        Damage, Loss, RepairReport, Repaired, SegmentTotals, Stats, TornTail, Verified, VerifyFinding,
        repair, stats, verify,
    };
}

/// PostgreSQL stores: options, tables, and transactions of handlers.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use oncebox_store_postgres::{
        Address, Ensured, PgTransaction, Pooler, PostgresOptions, PostgresStore, Schema,
    };

    /// The PostgreSQL transaction that a handler runs in. Execute statements on `&mut **tx`.
    pub type Tx = crate::worker::HandlerTx<PgTransaction>;
}

/// The interface between the library and a store, for programs that open a store themselves or implement one.
///
/// The types of its calls, and everything that a new store needs, are in `oncebox-core`.
pub mod store {
    pub use oncebox_core::{Capabilities, Clock, Recorded, Rng, Store, TransactionalStore, Wake};
}

mod auto_pause;
mod builder;
mod front_store;
mod handled_topics;
mod lease_token;
mod loop_monitor;
mod msg_id;
mod open;
mod pauses;
mod settings;
mod shared;
mod transaction;
mod unhandled_warnings;

pub use builder::OnceboxBuilder;
pub use bytes::Bytes;
pub use health::Health;
pub use inbox::{EnqueueOutcome, EnqueueReceipt, Inbox};
pub use maintenance::Maintenance;
pub use message::{Message, Moment};
pub use oncebox_core::{Backoff, Error, ErrorKind, MessageState, Timestamp};
pub use operator::Operator;
pub use queue::WorkQueue;
pub use shared::Oncebox;
pub use worker::{Context, Failure, Json, State, Text, Worker, WorkerHandle, WorkerSummary};

/// Compiles and runs the code of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles and runs the code of the guides as doc tests.
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
