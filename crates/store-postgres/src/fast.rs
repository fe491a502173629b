//! The fast path: one statement decides what is plain, and leaves alone what is not.

mod accept;
mod capacity;
mod claim;
mod held;
mod look;
mod replay;
mod search;
mod settle;

pub(crate) use capacity::count_lanes;
pub(crate) use look::columns;
