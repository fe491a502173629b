//! A disk whose every sync takes a millisecond more, as that of a cloud does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncebox_store_embedded::disk::{Disk, DiskFile, RealDisk};

const ADDED: Duration = Duration::from_millis(1);

/// The directory at `path`, slow or as it is.
pub(crate) fn disk(path: &Path, slow: bool) -> Arc<dyn Disk> {
    let disk = RealDisk::open(path).expect("the directory can be opened");
    if slow { Arc::new(SlowDisk(disk)) } else { Arc::new(disk) }
}

struct SlowDisk(RealDisk);

#[deny(clippy::missing_trait_methods)]
impl Disk for SlowDisk {
    fn place(&self) -> String {
        self.0.place()
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

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
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

    fn let_go(&self) {
        self.0.let_go();
    }
}
