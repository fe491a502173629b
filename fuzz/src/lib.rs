//! Support for the fuzz targets: an in-memory disk, damage to its files, and a minimal executor to call a store.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use oncebox_core::{Clock, Timestamp};
use oncebox_store_embedded::disk::{Disk, DiskFile};

/// The files of a directory.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Damage does not grow files beyond this size.
const FILE_BYTES_MAX: usize = 256 << 10;

/// Damages files as instructed, six bytes per instruction: the kind of damage, the file, the offset (three bytes), the
/// byte to write.
pub fn damage(image: &mut Image, instructions: &[u8]) {
    for instruction in instructions.as_chunks::<6>().0 {
        let [kind, file, low, middle, high, value] = *instruction;
        let index = usize::from(file) % image.len();
        let bytes = image.values_mut().nth(index).expect("there is a file");
        let offset = u32::from_le_bytes([low, middle, high, 0]) as usize % (bytes.len() + 1);
        match kind % 5 {
            0 => bytes.truncate(offset),
            1 if bytes.len() < FILE_BYTES_MAX => bytes.extend(std::iter::repeat_n(value, offset % 1_024)),
            2 => bytes[offset..].iter_mut().take(512).for_each(|byte| *byte = value),
            3 if bytes.len() < FILE_BYTES_MAX => bytes.insert(offset, value),
            _ => bytes[offset..].iter_mut().take(1).for_each(|byte| *byte ^= value),
        }
    }
}

/// A clock that always shows the same time.
pub struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000)
    }
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to completion on the current thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(ThreadWaker(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

type File = Arc<Mutex<Vec<u8>>>;

/// An in-memory directory; clones share it.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<BTreeMap<String, File>>>);

impl MemoryDisk {
    /// A directory with these files.
    pub fn new(image: Image) -> Self {
        let files = image.into_iter().map(|(name, bytes)| (name, Arc::new(Mutex::new(bytes))));
        Self(Arc::new(Mutex::new(files.collect())))
    }

    /// A copy of all files.
    pub fn image(&self) -> Image {
        self.files().iter().map(|(name, file)| (name.clone(), file.lock().unwrap().clone())).collect()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.0.lock().unwrap()
    }
}

struct MemoryFile(File);

impl Disk for MemoryDisk {
    fn location(&self) -> String {
        "memory".to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.files().get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(MemoryFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = File::default();
        match self.files().insert(name.to_owned(), file.clone()) {
            None => Ok(Box::new(MemoryFile(file))),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn check(&self, name: &str) -> io::Result<()> {
        self.files().get(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.lock().unwrap();
        let bytes = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn release_cache(&self) {}
}
