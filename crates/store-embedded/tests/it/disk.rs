//! A simulated disk in memory that loses unsynced data in a power cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};

use oncebox_store_embedded::disk::{Disk, DiskFile};

#[derive(Default)]
struct Content {
    /// The content on disk.
    synced: Vec<u8>,
    /// The content as programs see it.
    seen: Vec<u8>,
}

type File = Arc<Mutex<Content>>;

/// Identifies a disk in log lines.
#[derive(Clone)]
struct DiskNumber(usize);

impl Default for DiskNumber {
    fn default() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self(NEXT.fetch_add(1, Ordering::SeqCst))
    }
}

#[derive(Default)]
struct Names {
    seen: BTreeMap<String, File>,
    synced: BTreeMap<String, File>,
}

/// A directory in memory; clones share it.
#[derive(Clone, Default)]
pub(crate) struct SimDisk {
    number: DiskNumber,
    names: Arc<Mutex<Names>>,
    /// Held for reading during writes and for writing during a copy, so that a copy is consistent.
    moment: Arc<RwLock<()>>,
    /// Held during syncs.
    syncs: Arc<RwLock<()>>,
    /// Held while files are created.
    creations: Arc<RwLock<()>>,
    /// Total size above which files may not grow; none if there is no limit.
    bytes_max: Arc<Mutex<Option<usize>>>,
    /// How often a file was not allowed to grow.
    rejected_writes: Arc<AtomicUsize>,
    /// How often the cache of a file was released: of durable files, and of others.
    cache_releases: Arc<[AtomicUsize; 2]>,
}

impl SimDisk {
    /// How often the cache of a file was released: of durable files, and of others.
    pub(crate) fn cache_releases(&self) -> (usize, usize) {
        let [durable, other] = &*self.cache_releases;
        (durable.load(Ordering::SeqCst), other.load(Ordering::SeqCst))
    }

    /// Sets whether files may grow.
    pub(crate) fn set_full(&self, full: bool) {
        self.set_bytes_max(full.then_some(0));
    }

    /// Sets the total size above which files may not grow.
    pub(crate) fn set_bytes_max(&self, bytes_max: Option<usize>) {
        *self.bytes_max.lock().unwrap() = bytes_max;
    }

    /// How often a file was not allowed to grow.
    pub(crate) fn rejected_writes(&self) -> usize {
        self.rejected_writes.load(Ordering::SeqCst)
    }

    /// Blocks all writes and syncs until the guard is dropped.
    pub(crate) fn stall(&self) -> RwLockWriteGuard<'_, ()> {
        self.moment.write().unwrap()
    }

    /// Blocks all syncs until the guard is dropped; writes continue.
    pub(crate) fn stall_syncs(&self) -> RwLockWriteGuard<'_, ()> {
        self.syncs.write().unwrap()
    }

    /// Blocks the creation of files until the guard is dropped.
    pub(crate) fn stall_creations(&self) -> RwLockWriteGuard<'_, ()> {
        self.creations.write().unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap()
    }

    fn has_space(&self, bytes: usize) -> bool {
        self.bytes_max.lock().unwrap().is_none_or(|max| self.bytes() + bytes <= max)
    }

    /// A copy of the disk as a power cut would leave it now.
    pub(crate) fn after_power_cut(&self) -> Self {
        let _moment = self.moment.write().unwrap();
        copy(&self.lock().synced, |content| content.synced.clone())
    }

    /// A copy of the disk as a kill of the process would leave it now.
    pub(crate) fn after_kill(&self) -> Self {
        let _moment = self.moment.write().unwrap();
        copy(&self.lock().seen, |content| content.seen.clone())
    }

    /// The segment with the most data, and the offset of its last byte that is not zero.
    pub(crate) fn written_segment(&self) -> (String, usize) {
        let names = self.lock();
        let end = |file: &File| file.lock().unwrap().seen.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let segments = names.seen.iter().filter(|(name, _)| *name != "store");
        let ends = segments.map(|(name, file)| (name.clone(), end(file)));
        ends.max_by_key(|(_, end)| *end).unwrap()
    }

    /// The newest segment, and the offset of its last byte that is not zero.
    pub(crate) fn newest_segment(&self) -> (String, usize) {
        let names = self.lock();
        let bytes = |file: &File| file.lock().unwrap().seen.clone();
        let segments = names.seen.iter().filter(|(name, _)| *name != "store");
        let segments = segments.map(|(name, file)| (name.clone(), bytes(file)));
        let (name, bytes) = segments
            .max_by_key(|(_, bytes)| bytes[24..32].iter().rev().copied().collect::<Vec<_>>())
            .unwrap();
        (name, bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0))
    }

    /// Flips a bit of a byte.
    pub(crate) fn flip(&self, name: &str, offset: usize) {
        self.lock().seen[name].lock().unwrap().seen[offset] ^= 4;
    }

    /// Whether a file was removed, or is not of the first generation any more.
    pub(crate) fn was_wiped(&self, name: &str) -> bool {
        let names = self.lock();
        names.seen.get(name).is_none_or(|file| file.lock().unwrap().seen[24..32] != 1_u64.to_le_bytes())
    }

    /// The names of all files.
    pub(crate) fn files(&self) -> Vec<String> {
        self.lock().seen.keys().cloned().collect()
    }

    /// The total size of all files.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().seen.values().map(|file| file.lock().unwrap().seen.len()).sum()
    }
}

fn copy(files: &BTreeMap<String, File>, bytes: impl Fn(&Content) -> Vec<u8>) -> SimDisk {
    let copy = |(name, file): (&String, &File)| {
        let synced = bytes(&file.lock().unwrap());
        (name.clone(), Arc::new(Mutex::new(Content { seen: synced.clone(), synced })))
    };
    let files: BTreeMap<_, _> = files.iter().map(copy).collect();
    SimDisk {
        names: Arc::new(Mutex::new(Names { seen: files.clone(), synced: files })),
        ..SimDisk::default()
    }
}

struct SimFile {
    content: File,
    disk: SimDisk,
}

impl SimFile {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }
}

impl Disk for SimDisk {
    fn location(&self) -> String {
        format!("simulated disk {}", self.number.0)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().seen.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.lock().seen.get(name).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimFile { content: file, disk: self.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let _creations = self.creations.read().unwrap();
        let _moment = self.moment.read().unwrap();
        let file = File::default();
        self.lock().seen.insert(name.to_owned(), file.clone());
        Ok(Box::new(SimFile { content: file, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let _moment = self.moment.read().unwrap();
        self.lock().seen.remove(name);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let _moment = self.moment.read().unwrap();
        let mut names = self.lock();
        names.synced = names.seen.clone();
        Ok(())
    }

    fn check(&self, name: &str) -> io::Result<()> {
        let exists = self.lock().seen.contains_key(name);
        if exists { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.lock().seen.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let content = self.lock();
        let bytes = content.seen.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _moment = self.disk.moment.read().unwrap();
        let start = usize::try_from(offset).unwrap();
        let end = start + bytes.len();
        let growth = end.saturating_sub(self.lock().seen.len());
        if growth > 0 && !self.disk.has_space(growth) {
            self.disk.rejected_writes.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut content = self.lock();
        if growth > 0 {
            content.seen.resize(end, 0);
        }
        content.seen[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let _syncs = self.disk.syncs.read().unwrap();
        let _moment = self.disk.moment.read().unwrap();
        let mut content = self.lock();
        content.synced = content.seen.clone();
        Ok(())
    }

    fn release_cache(&self) {
        let content = self.lock();
        let durable = content.seen == content.synced;
        self.disk.cache_releases[usize::from(!durable)].fetch_add(1, Ordering::SeqCst);
    }
}
