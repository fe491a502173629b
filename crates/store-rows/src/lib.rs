//! The engine of stores on a database. It knows no database itself.
//!
//! A call locks and loads the messages that it concerns, the core's state machine decides, and what the machine changed
//! is stored in the same transaction. So there is one set of rules, and no second one in SQL. A store implements
//! [`Rows`], about six functions on its tables, and runs its calls through [`Call`], which retries conflicts, divides
//! large calls into bounded steps, and runs due timers. A store that has faster statements of its own for simple cases
//! uses the engine for the others.
//!
//! Content is not loaded: a message is loaded with the size of its payload ([`Body`]), and only new content is stored.

mod body;
mod call;
mod claim;
mod decision;
mod due_times;
mod lane;
mod maintenance;
mod operations;
mod report;
mod rotation;
mod rows;
mod search;
mod step;
mod targets;
mod ticket;

use oncebox_core::limits::{LAST_ERROR_BYTES_MAX, TEXT_BYTES_MAX, WORKER_BYTES_MAX};

pub use body::{Body, with_body};
pub use call::Call;
pub use decision::{Events, Write, machine};
pub use due_times::{is_ready, next_timer, required_until};
pub use lane::{LaneKey, lane_key, lane_key_of_snapshot};
pub use report::PendingReport;
pub use rotation::Rotation;
pub use rows::{Changes, LockWait, LockedRows, Rows, StepFailure, Wanted};
pub use search::{ClaimIdentity, LanePosition, Search, Sought};
pub use targets::Targets;
pub use ticket::{Admission, TICKET_SIZE, Ticket};

/// Maximum number of messages per step. Without content a row has at most [`ROW_BYTES_MAX`] bytes, so the bytes that a
/// step loads and stores are bounded.
pub const STEP_ITEMS_MAX: usize = 1_000;

/// Maximum total size of the texts, hashes and fixed columns of a message and its lease.
pub const ROW_BYTES_MAX: usize = 9 * TEXT_BYTES_MAX + 2 * WORKER_BYTES_MAX + LAST_ERROR_BYTES_MAX + 1_024;

// Affordable on a small machine, and far below what databases accept in one statement.
const _: () = assert!(STEP_ITEMS_MAX * ROW_BYTES_MAX <= 16 << 20);
