//! A disk with 1 ms added to every sync, like a cloud disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_store_embedded::disk::{Disk, DiskFile, RealDisk};

const ADDED: Duration = Duration::from_millis(1);

/// Opens the directory at `path`, with slow syncs or without.
pub(crate) fn disk(path: &Path, slow: bool) -> Arc<dyn Disk> {
    let disk = RealDisk::open(path).expect("the directory can be opened");
    if slow { Arc::new(SlowDisk(disk)) } else { Arc::new(disk) }
}

struct SlowDisk(RealDisk);

#[deny(clippy::missing_trait_methods)]
impl Disk for SlowDisk {
    fn location(&self) -> String {
        self.0.location()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.open(name)?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.create(name)?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.0.sync_directory()
    }

    fn check(&self, name: &str) -> io::Result<()> {
        self.0.check(name)
    }
}

struct SlowFile(Box<dyn DiskFile>);

#[deny(clippy::missing_trait_methods)]
impl DiskFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    #[expect(clippy::disallowed_methods, reason = "the delay is what is simulated")]
    fn sync(&self) -> io::Result<()> {
        self.0.sync()?;
        std::thread::sleep(ADDED);
        Ok(())
    }

    fn release_cache(&self) {
        self.0.release_cache();
    }
}
