//! The machine and a journal: the durable store that needs no server.
//!
//! Callers apply their operations to the machine under a lock, and wait. A thread writes what came together as one group
//! and syncs it once for all of them; another prepares segments, so that neither room nor metadata is asked for when it
//! matters. `docs/reference/journal-format.md` tells what lies on disk and what a crash can do to it.

pub mod disk;

mod codec;
mod engine;
mod frame;
mod identity;
mod journal;
mod lock;
mod open;
mod options;
mod recovery;
mod segment;
mod shared;
mod size;
mod store;
mod syncer;

pub use options::{Durability, Options};
pub use recovery::Cut;
pub use store::EmbeddedStore;
