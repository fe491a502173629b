//! The machine in RAM: the reference store for tests, and the server's mode that keeps nothing.
//!
//! Everything is bounded; what would go over a bound is answered `Saturated`, and a held key is never forgotten.

mod store;

use oncebox_core::machine::Capacity;

pub use store::MemoryStore;

/// How a memory store is set up.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options {
    /// How much it may hold.
    pub capacity: Capacity,
    /// What becomes of payloads.
    pub payloads: Payloads,
}

/// What becomes of a payload when the last handle to it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payloads {
    /// Its memory is freed as it is.
    #[default]
    Freed,
    /// The store takes its own copy, and overwrites it with zeros before it frees it (amnesia).
    Wiped,
}
