//! The fast path: one statement decides the simple cases and leaves the others alone.

mod accept;
mod bounded_claim;
mod capacity;
mod claim;
mod reorder;
mod search;
mod settle;
mod work_statement;
