//! Tools for a store that no process has open: `verify`, `repair` and `stats`.
//!
//! `scan.rs` finds every intact frame at any offset; `analysis.rs` decides which of them make up the journal, and what
//! is missing. The three tools build on that.

mod analysis;
mod copy;
mod finding;
mod repair;
mod report;
mod rewrite;
mod salvage;
mod scan;
mod stats;
mod verify;

pub use finding::{Damage, VerifyFinding};
pub use repair::repair;
pub use report::{Loss, RepairReport, Repaired};
pub use stats::{SegmentTotals, Stats, stats};
pub use verify::{Verified, verify};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use oncebox_core::{Error, Invalid};

use crate::disk::{Disk, DiskFile};

/// Maximum number of findings or losses that a report lists; the rest is only counted.
const LISTED_MAX: usize = 100;

/// A directory opened for reading only.
struct ReadOnly {
    path: PathBuf,
}

impl ReadOnly {
    fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_dir() {
            return Err(
                Invalid::new("path", "is not a directory: use the directory of an embedded store").into()
            );
        }
        Ok(Self { path: path.to_owned() })
    }
}

impl Disk for ReadOnly {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn check(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
