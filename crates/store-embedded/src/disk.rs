//! All file access of the store, behind two small traits, so that tests can interrupt, tear, lose, reorder and corrupt
//! writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::permissions;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// The location of the directory, for log lines and errors.
    fn location(&self) -> String;

    /// The names of all files.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Creates a new, empty file.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes created and removed names survive a power failure.
    fn sync_directory(&self) -> io::Result<()>;

    /// Fails if the directory is no longer the one that was opened, or no longer contains the file: writes to such a
    /// file are lost when its last handle is closed.
    fn check(&self, name: &str) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Fills the buffer from an offset on; reads fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all bytes at an offset.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written so far survive a power failure.
    fn sync(&self) -> io::Result<()>;

    /// Lets the operating system drop the file from its page cache, because it will not be read or written soon.
    fn release_cache(&self);
}

/// Reads a whole file.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.size()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// The opened directory: files are created, opened and removed in it, even if `path` leads elsewhere by then.
    directory: File,
}

impl RealDisk {
    /// Opens the directory at `path`. Creates it if it is missing, for its owner only.
    pub fn open(path: &Path) -> io::Result<Self> {
        permissions::create_path(path, &mut |directory| File::open(directory)?.sync_all())?;
        Ok(Self { path: path.to_owned(), directory: File::open(path)? })
    }
}

impl RealDisk {
    fn open_file(&self, name: &str, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | more;
        let private = Mode::from_raw_mode(permissions::FILE_MODE);
        Ok(File::from(rustix::fs::openat(&self.directory, name, flags, private)?))
    }
}

impl Disk for RealDisk {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.path)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.open_file(name, OFlags::empty())?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open_file(name, OFlags::CREATE | OFlags::EXCL)?;
        permissions::set_file_mode(&file)?;
        Ok(Box::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn check(&self, name: &str) -> io::Result<()> {
        let missing = |what: &str| {
            let path = self.path.display();
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("{what} of {path} was deleted or replaced under the open store"),
            )
        };
        let opened = self.directory.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (opened.dev(), opened.ino()) => {}
            Ok(_) => return Err(missing("the directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing("the directory")),
            Err(error) => return Err(error),
        }
        if std::fs::exists(self.path.join(name))? { Ok(()) } else { Err(missing(name)) }
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<usize> {
        let mut total = 0;
        while !buffer.is_empty() {
            match FileExt::read_at(self, buffer, offset) {
                Ok(0) => break,
                Ok(count) => {
                    total += count;
                    offset += count as u64;
                    buffer = &mut buffer[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn release_cache(&self) {
        // Only a hint: if the system ignores it, the only cost is memory.
        let _ = rustix::fs::fadvise(self, 0, None, rustix::fs::Advice::DontNeed);
    }
}
