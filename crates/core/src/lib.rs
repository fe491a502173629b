//! The core of Oncebox: its types, its limits, the pure state machine, and [`Store`], the trait that every store
//! implements.
//!
//! Nothing here performs I/O, reads a clock, draws random numbers or depends on an async runtime. Callers pass in the
//! time and a source of ids.

pub mod ascii;
pub mod limits;
pub mod machine;

mod annotation;
mod bound;
mod error;
mod hash;
mod id;
mod key;
mod message;
mod notifier;
mod payload;
mod port;
mod record;
mod retry;
mod text;
mod time;
mod worker;

pub use annotation::{Attributes, LastError, Trace};
pub use bound::Bound;
pub use error::{Error, ErrorKind, Invalid};
pub use hash::{CallerHash, Fingerprint};
pub use id::{Fence, IdSource, Number, Owner, RequestId, Rng, Shard, Uid};
pub use key::{Key, MessageRef, Namespace};
pub use message::{
    Content, DeadReason, Divergence, Grant, GrantEnd, Hold, Keep, Lease, MessageState, MessageSummary,
    NewMessage, Policy, Seal, Settled, Snapshot, Verdict, VerdictKind,
};
pub use notifier::Notifier;
pub use payload::{Omitted, Payload, PayloadHandle};
pub use port::{
    Accepted, Action, AttemptCount, Batch, Begin, Begun, Budget, Capabilities, Claim, Counts, Cursor,
    DeadLetters, Deaths, Delivery, Direction, Extended, Extension, Interest, MaintenanceReport, MessagePage,
    MessageQuery, Observation, Observed, Operated, Order, PageSize, ReadyTopics, RecordOp, RecordOutcome,
    Recorded, Retention, Scope, Settlement, Store, StoreExt, TopicCounts, TopicPage, TopicQuery, TopicRange,
    Topics, TransactionalStore, Usage, Wake, Wakeups, Worked, WriteCondition, check_call, check_records,
    check_work,
};
pub use record::{Record, RecordKind, RecordValue, RecordVersion, WhenFull, record_bytes};
pub use retry::{Backoff, Growth, Jitter};
pub use text::{Id, Partition, RecordId, Source, Topic};
pub use time::{Clock, Span, Steady, Timestamp};
pub use worker::WorkerName;
