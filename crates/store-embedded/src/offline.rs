//! Tools for a store that nobody has open: is it sound, make it open again, what is in it.
//!
//! `survey.rs` finds every whole frame, wherever it lies; `reading.rs` says which of them make up the journal, and what is
//! missing from it; the three tools use that.

mod copy;
mod finding;
mod reading;
mod repair;
mod report;
mod rewrite;
mod salvage;
mod stats;
mod survey;
mod verify;

pub use finding::{Damage, Finding};
pub use repair::repair;
pub use report::{Loss, Repaired, Report};
pub use stats::{SegmentTotals, Stats, stats};
pub use verify::{Verified, verify};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use oncebox_core::{Error, Invalid};

use crate::disk::{Disk, DiskFile};

/// Things of one kind that a report lists; more are only counted.
const LISTED_MAX: usize = 100;

/// A directory that is only read.
struct ReadOnly {
    path: PathBuf,
}

impl ReadOnly {
    fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_dir() {
            return Err(Invalid::new("path", "is not a directory: give that of an embedded store").into());
        }
        Ok(Self { path: path.to_owned() })
    }
}

impl Disk for ReadOnly {
    fn place(&self) -> String {
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

    fn sync_names(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn check(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
