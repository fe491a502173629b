//! The slow path: the core's state machine decides everything that one statement cannot.
//!
//! Rows are locked and loaded as snapshots, the machine decides as in every other store, and its changes are written
//! back in the same transaction. So there is one set of rules and no second one in SQL. This module knows no
//! database: [`decide`] takes the loaded messages and returns the writes; `row_transaction.rs` locks, loads and
//! writes.
//!
//! Content is not loaded: a message is loaded with the size of its payload, and only new content is written.

mod body;
mod decision;
mod lane;

use oncebox_core::limits::{LAST_ERROR_BYTES_MAX, TEXT_BYTES_MAX, WORKER_BYTES_MAX};

pub(crate) use body::{Body, with_body};
pub(crate) use decision::{Admission, Decision, Events, Loaded, Rewrite, Write, decide, machine};
pub(crate) use lane::{LaneKey, lane_key, lane_key_of_snapshot};

/// Maximum number of messages per step of the slow path. Without content a row has at most [`ROW_BYTES_MAX`] bytes,
/// so the bytes that a step loads and writes are bounded.
pub(crate) const STEP_ITEMS_MAX: usize = 1_000;

/// Maximum total size of the texts, hashes and fixed columns of a message and its lease.
pub(crate) const ROW_BYTES_MAX: usize =
    9 * TEXT_BYTES_MAX + 2 * WORKER_BYTES_MAX + LAST_ERROR_BYTES_MAX + 1_024;

// Far below the server's limit of 1 GiB per statement, and affordable on a small machine.
const _: () = assert!(STEP_ITEMS_MAX * ROW_BYTES_MAX <= 16 << 20);
