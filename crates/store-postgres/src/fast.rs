//! The fast path: one statement decides the simple cases and leaves the others alone.

mod accept;
mod bounded_claim;
mod claim;
mod extend;
mod reorder;
mod search;
mod settle;
mod work_statement;
