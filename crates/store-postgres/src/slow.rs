//! The slow path: everything that one statement cannot decide is decided by the machine of the core.
//!
//! Rows are locked and loaded as snapshots, the machine decides as it does in every other store, and what it changed is written back
//! in the same transaction. So there is one set of rules, not a second one in SQL. Nothing here knows a database: [`decide`] takes
//! what was loaded and answers what is to be written; `locked.rs` locks, loads and writes.
//!
//! Content takes no part: a message is loaded with the size of its payload, and only content that is new is written.

mod body;
mod decision;

use oncebox_core::limits::{LAST_ERROR_BYTES_MAX, TEXT_BYTES_MAX, WORKER_BYTES_MAX};

pub(crate) use body::{Body, with_body};
pub(crate) use decision::{Decision, Events, Loaded, Rewrite, Room, Write, decide, machine};

/// Messages that one step of the slow path is about, at most. Without content a row has at most [`ROW_BYTES_MAX`] bytes, so a step loads
/// and writes a bounded number of bytes.
pub(crate) const STEP_ITEMS_MAX: usize = 1_000;

/// The texts, hashes and fixed columns of a message and its lease together, at most.
pub(crate) const ROW_BYTES_MAX: usize =
    9 * TEXT_BYTES_MAX + 2 * WORKER_BYTES_MAX + LAST_ERROR_BYTES_MAX + 1_024;

// Far below what the server takes with one statement, which is 1 GiB, and what a small machine can spare.
const _: () = assert!(STEP_ITEMS_MAX * ROW_BYTES_MAX <= 16 << 20);
