//! The machine and a journal: the durable store that needs no server.
//!
//! Callers apply their operations to the machine under a lock, and wait. A thread writes what came together as one group
//! and syncs it once for all of them; another prepares segments, so that neither room nor metadata is asked for when it
//! matters. `docs/reference/journal-format.md` tells what lies on disk and what a crash can do to it.
//!
//! A store that nobody has open can be looked at and, should a disk have lost something, repaired:
//!
//! ```
//! use oncebox_store_embedded::{EmbeddedStore, Options, Repaired, Verified, repair, stats, verify};
//!
//! # let root = std::env::temp_dir().join(format!("oncebox-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&root)?;
//! # let (path, copy) = (root.join("data"), root.join("data-before-repair"));
//! drop(EmbeddedStore::open(&path, &Options::default())?);
//!
//! let verified = verify(&path)?;
//! assert_eq!(verified, Verified::Sound);
//! println!("{verified}\n{}", stats(&path)?);
//!
//! // Copies the directory first, unless there is nothing to do.
//! let repaired = repair(&path, &copy)?;
//! assert_eq!(repaired, Repaired::Nothing(Verified::Sound));
//! # std::fs::remove_dir_all(&root)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod disk;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

mod call;
mod codec;
mod engine;
mod format;
mod frame;
mod gathering;
mod identity;
mod journal;
mod lock;
mod manifest;
mod need;
mod offline;
mod open;
mod options;
mod preparer;
mod private;
mod reclaim;
mod recovery;
mod segment;
mod shared;
mod size;
mod store;
mod syncer;
mod trouble;

pub use offline::{
    Damage, Finding, Loss, Repaired, Report, SegmentTotals, Stats, Verified, repair, stats, verify,
};
pub use options::{Durability, Options};
pub use recovery::Cut;
pub use store::EmbeddedStore;
