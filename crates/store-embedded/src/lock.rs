//! Keeps a second opener away from a directory, and tells it who the first one is.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

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
            Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed("locking the directory", error)),
        }
        sign(&mut file).map_err(|error| failed("writing the lock", error))?;
        Ok(Self { _file: file })
    }
}

fn in_use(directory: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    let holder = if holder.is_empty() { "(unknown)" } else { holder.trim() };
    let text = format!("{} is in use by process {holder}: close it there first", directory.display());
    Error::new(Kind::Unavailable, text)
}

/// The lock on a directory, taken without changing a byte there.
pub(crate) struct QuietLock {
    path: PathBuf,
    /// None if nobody has ever opened this directory, a restored copy perhaps: then there is no file to lock.
    file: Option<File>,
}

impl QuietLock {
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("lock");
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { path, file: None }),
            Err(error) => return Err(failed("opening the lock", error)),
        };
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(in_use(directory, &mut file)),
            Err(TryLockError::Error(error)) => Err(failed("locking the directory", error)),
        }
    }

    /// To be asked when all has been read: without a file to lock, somebody may have come in between.
    pub(crate) fn confirm(&self) -> Result<(), Error> {
        if self.file.is_none() && self.path.exists() {
            let text = "the store was opened while it was being read: close it there first";
            return Err(Error::new(Kind::Unavailable, text));
        }
        Ok(())
    }

    /// Makes it a lock that tells who has it.
    pub(crate) fn sign(self, directory: &Path) -> Result<DirectoryLock, Error> {
        let Some(file) = self.file else { return DirectoryLock::take(directory) };
        let signed = OpenOptions::new().write(true).open(&self.path).and_then(|mut file| sign(&mut file));
        signed.map_err(|error| failed("writing the lock", error))?;
        Ok(DirectoryLock { _file: file })
    }
}

/// Leaves this process's id for whoever comes second.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
