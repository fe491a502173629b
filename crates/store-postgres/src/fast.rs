//! The fast path: one statement decides the simple cases and leaves the others alone.

mod accept;
mod claim;
mod extend;
mod pending;
mod reorder;
mod replay;
mod run_work;
mod search;
mod work;
mod work_statement;
