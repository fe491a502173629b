//! Keeps a second opener away from a directory, and tells it who the first one is.
//!
//! What is locked is the directory itself: nobody can take it away from under its holder and put another in its place that
//! is the same one. The file `lock` only tells who that is; deleting it changes nothing.

use std::fs::{File, TryLockError};
use std::path::Path;

use oncebox_core::{Error, Kind};

use crate::private;
use crate::recovery::failed;

/// Where the holder leaves its process id.
pub(crate) const HOLDER: &str = "lock";

/// The lock on a directory; released when it is dropped, and when the process ends in any way.
pub(crate) struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    /// Takes the lock without changing a byte in the directory.
    pub(crate) fn take(path: &Path) -> Result<Self, Error> {
        let directory = File::open(path).map_err(|error| failed("opening the directory", error))?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { _directory: directory }),
            Err(TryLockError::WouldBlock) => Err(in_use(path)),
            Err(TryLockError::Error(error)) => Err(failed("locking the directory", error)),
        }
    }

    /// Leaves this process's id in the directory. It is only a hint: a full disk must not keep the store from opening.
    pub(crate) fn sign(path: &Path) {
        let _ = private::write(&path.join(HOLDER), &format!("{}\n", std::process::id()));
    }
}

fn in_use(path: &Path) -> Error {
    let holder = std::fs::read_to_string(path.join(HOLDER)).unwrap_or_default();
    let holder = if holder.trim().is_empty() { "(unknown)" } else { holder.trim() };
    let text = format!("{} is in use by process {holder}: close it there first", path.display());
    Error::new(Kind::Unavailable, text)
}
