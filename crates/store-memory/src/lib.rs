//! An in-memory store on top of the core's state machine: the reference store for tests, and the server's store without
//! durability.
//!
//! It is bounded: a call that would exceed a bound returns `Saturated`, and a held key is never forgotten to make
//! space.

mod store;

use oncebox_core::machine::Capacity;

pub use store::MemoryStore;

/// The options of a memory store.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct MemoryOptions {
    /// How much it may hold.
    pub capacity: Capacity,
    /// What happens to payloads that are no longer used.
    pub payloads: Payloads,
}

/// What happens to a payload when the last handle to it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payloads {
    /// Its memory is freed without being overwritten.
    #[default]
    Freed,
    /// The store makes its own copy, and overwrites it with zeros before it frees it (amnesia).
    Wiped,
}
