//! The embedded durable store: the core state machine on a write-ahead journal, without a server.
//!
//! Callers apply their operations to the machine under a lock, then wait for the journal. The syncer thread writes all
//! pending operations as one group and syncs once for all of them (group commit). The allocator thread preallocates
//! segments, so that a commit never waits for disk space or file system metadata. `docs/reference/journal-format.md`
//! describes the files and what a crash can do to them.
//!
//! A store that no process has open can be verified and, after disk damage, repaired:
//!
//! ```
//! use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore, Repaired, Verified, repair, stats, verify};
//!
//! # let root = std::env::temp_dir().join(format!("oncebox-example-{}", std::process::id()));
//! # std::fs::create_dir_all(&root)?;
//! # let (path, copy) = (root.join("data"), root.join("data-before-repair"));
//! drop(EmbeddedStore::open(&path, &EmbeddedOptions::default())?);
//!
//! let verified = verify(&path)?;
//! assert_eq!(verified, Verified::Sound);
//! println!("{verified}\n{}", stats(&path)?);
//!
//! // Copies the directory first, unless there is nothing to repair.
//! let repaired = repair(&path, &copy)?;
//! assert_eq!(repaired, Repaired::Nothing(Verified::Sound));
//! # std::fs::remove_dir_all(&root)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod disk;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;

mod allocator;
mod bases;
mod call;
mod codec;
mod commit_delay;
mod disk_error;
mod engine;
mod error;
mod file_names;
mod format;
mod frame;
mod identity;
mod journal;
mod lock;
mod manifest;
mod offline;
mod open;
mod options;
mod permissions;
mod port;
mod reclaim;
mod recovery;
mod reservation;
mod segment;
mod segment_supply;
mod shared;
mod space;
mod store;
mod sync_schedule;
mod syncer;

pub use offline::{
    Damage, Loss, RepairReport, Repaired, SegmentTotals, Stats, Verified, VerifyFinding, repair, stats,
    verify,
};
pub use options::{Durability, EmbeddedOptions};
pub use recovery::TornTail;
pub use store::EmbeddedStore;
