//! The lock that keeps a second process from opening a store.
//!
//! The directory itself is locked: a directory that replaces it is a different one, with a lock of its own. The file
//! `lock` only contains the process id of the holder; deleting it changes nothing.

use std::fs::{File, TryLockError};
use std::path::Path;

use oncebox_core::{Error, ErrorKind};

use crate::error::failed;
use crate::file_names::PID_FILE;
use crate::permissions;

/// The lock on a directory. Released when dropped, and when the process ends for any reason.
pub(crate) struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    /// Acquires the lock without changing anything in the directory.
    pub(crate) fn acquire(path: &Path) -> Result<Self, Error> {
        let directory = File::open(path).map_err(|error| failed("opening the directory", error))?;
        match directory.try_lock() {
            Ok(()) => Ok(Self { _directory: directory }),
            Err(TryLockError::WouldBlock) => Err(in_use(path)),
            Err(TryLockError::Error(error)) => Err(failed("locking the directory", error)),
        }
    }

    /// Writes this process's id to the directory. It is only a hint: a full disk must not keep the store from opening.
    pub(crate) fn write_pid(path: &Path) {
        let _ = permissions::write(&path.join(PID_FILE), &format!("{}\n", std::process::id()));
    }
}

fn in_use(path: &Path) -> Error {
    let holder = std::fs::read_to_string(path.join(PID_FILE)).unwrap_or_default();
    let holder = if holder.trim().is_empty() { "(unknown)" } else { holder.trim() };
    let text = format!("{} is in use by process {holder}: close the store there first", path.display());
    Error::new(ErrorKind::Unavailable, text)
}
