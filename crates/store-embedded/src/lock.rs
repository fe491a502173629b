//! Keeps a second opener away from a directory, and tells it who the first one is.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use oncebox_core::{Error, Kind};

use crate::recovery::failed;

/// The lock on a directory; released when it is dropped, and when the process ends in any way.
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = open.map_err(|error| failed("opening the lock", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let text = format!(
                    "{} is in use by process {}: close it there first",
                    directory.display(),
                    if holder.is_empty() { "(unknown)" } else { holder.trim() }
                );
                return Err(Error::new(Kind::Unavailable, text));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking the directory", error)),
        }
        sign(&mut file).map_err(|error| failed("writing the lock", error))?;
        Ok(Self { _file: file })
    }
}

/// Leaves this process's id for whoever comes second.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
