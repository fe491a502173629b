//! The heart of Oncebox: its vocabulary, its limits, the pure state machine and the port that every store implements.
//!
//! Nothing here does I/O, reads a clock, draws randomness or knows an async runtime: it is told the time, handed ids,
//! and decides.

pub mod digits;
pub mod limits;
pub mod machine;

mod annotation;
mod bell;
mod error;
mod hash;
mod id;
mod key;
mod message;
mod payload;
mod port;
mod retry;
mod text;
mod time;
mod worker;

pub use annotation::{Attributes, LastError, Trace};
pub use bell::Bell;
pub use error::{Error, Invalid, Kind};
pub use hash::{CallerHash, Fingerprint};
pub use id::{Fence, IdSource, Number, Owner, RequestId, Rng, Shard, Uid};
pub use key::{Key, Namespace, Ref};
pub use message::{
    Content, DeadReason, Divergence, Grant, GrantEnd, Hold, Keep, Lease, NewMessage, Policy, Seal, Snapshot,
    State,
};
pub use payload::{Omitted, Payload, PayloadHandle};
pub use port::{
    Accepted, Action, AttemptCount, Batch, Begin, Begun, Bound, Budget, Capabilities, Claim, Counts, Cursor,
    DeadLetters, Deaths, Delivery, Direction, Extended, Extension, Interest, Observed, Operated, Order, Page,
    PageSize, Query, ReadyTopics, Receipt, Recorded, Retention, Scope, Settled, Settlement, Sighting, Store,
    StoreExt, TopicCounts, TopicPage, TopicQuery, TopicRange, Topics, TransactionalStore, Upkept, Usage,
    Verdict, VerdictKind, Wake, Wakeups, Worked,
};
pub use retry::{Backoff, Growth, Jitter};
pub use text::{Id, Partition, Source, Topic};
pub use time::{Clock, Span, Steady, Timestamp};
pub use worker::WorkerName;
