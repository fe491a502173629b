//! A disk in memory that records all operations, and reconstructs what a crash at any point would leave.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use oncebox_store_embedded::disk::{Disk, DiskFile};
use oncebox_testkit::SplitMix;

/// An operation on the disk. Files are numbered, because a name may refer to different files over time.
enum Operation {
    Create { name: String, file: usize },
    Remove { name: String },
    SyncDirectory,
    Write { file: usize, offset: usize, bytes: Vec<u8> },
    Sync { file: usize },
}

#[derive(Default)]
struct Recording {
    start: Playback,
    operations: Vec<Operation>,
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

/// A recording disk; clones share the recording.
#[derive(Clone, Default)]
pub(crate) struct RecordingDisk(Arc<Mutex<Recording>>);

impl RecordingDisk {
    /// A disk with the state that a crash left.
    pub(crate) fn new(start: Playback) -> Self {
        let (names, files) = (start.current_names(), start.files.iter().map(FileState::current).collect());
        Self(Arc::new(Mutex::new(Recording { start, names, files, ..Recording::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap()
    }

    /// The number of recorded operations. A call that returns now depends on no later operation.
    pub(crate) fn position(&self) -> usize {
        self.lock().operations.len()
    }

    /// The disk at a position of the recording.
    pub(crate) fn replay(&self, position: usize) -> Playback {
        let mut playback = self.lock().start.clone();
        self.advance(&mut playback, position);
        playback
    }

    /// Moves a playback of this recording forward.
    pub(crate) fn advance(&self, playback: &mut Playback, position: usize) {
        let recording = self.lock();
        for operation in &recording.operations[playback.position..position] {
            playback.play(operation);
        }
    }
}

struct RecordingFile {
    disk: RecordingDisk,
    file: usize,
}

impl Disk for RecordingDisk {
    fn location(&self) -> String {
        "recording disk".to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(RecordingFile { disk: self.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut recording = self.lock();
        let file = recording.files.len();
        recording.files.push(Vec::new());
        recording.names.insert(name.to_owned(), file);
        recording.operations.push(Operation::Create { name: name.to_owned(), file });
        Ok(Box::new(RecordingFile { disk: self.clone(), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut recording = self.lock();
        recording.names.remove(name);
        recording.operations.push(Operation::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.lock().operations.push(Operation::SyncDirectory);
        Ok(())
    }

    fn check(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for RecordingFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.file].len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let recording = self.disk.lock();
        let bytes = recording.files[self.file].get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut recording = self.disk.lock();
        let offset = usize::try_from(offset).unwrap();
        write(&mut recording.files[self.file], offset, bytes);
        recording.operations.push(Operation::Write { file: self.file, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.lock().operations.push(Operation::Sync { file: self.file });
        Ok(())
    }

    fn release_cache(&self) {}
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// What a crash loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Loss {
    /// Nothing: the process is killed, the machine keeps running.
    Nothing,
    /// Everything unsynced.
    Unsynced,
    /// All unsynced writes after some point; the write at that point is torn.
    Tail,
    /// Any subset of the unsynced writes, completely or torn: writes reach the disk in any order.
    Some,
}

impl Loss {
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::Unsynced, Self::Tail, Self::Some];
}

#[derive(Clone, Default)]
struct FileState {
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl FileState {
    /// The content as programs see it.
    fn current(&self) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        for (offset, written) in &self.unsynced {
            write(&mut bytes, *offset, written);
        }
        bytes
    }
}

#[derive(Clone)]
enum NameChange {
    Create(String, usize),
    Remove(String),
}

/// The disk at one position of a recording: what is durable, and what may be on disk.
#[derive(Clone, Default)]
pub(crate) struct Playback {
    position: usize,
    names: BTreeMap<String, usize>,
    changes: Vec<NameChange>,
    files: Vec<FileState>,
}

impl Playback {
    fn current_names(&self) -> BTreeMap<String, usize> {
        let mut names = self.names.clone();
        for change in &self.changes {
            apply(&mut names, change);
        }
        names
    }

    /// The content of every file as programs see it, by name.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let names = self.current_names();
        names.into_iter().map(|(name, file)| (name, self.files[file].current())).collect()
    }

    /// Changes the content of a file, durably.
    pub(crate) fn damage(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.current_names()[name];
        let mut bytes = self.files[file].current();
        change(&mut bytes);
        self.files[file] = FileState { synced: bytes, unsynced: Vec::new() };
    }

    fn play(&mut self, operation: &Operation) {
        self.position += 1;
        match operation {
            Operation::Create { name, file } => {
                self.files.resize(self.files.len().max(file + 1), FileState::default());
                self.changes.push(NameChange::Create(name.clone(), *file));
            }
            Operation::Remove { name } => self.changes.push(NameChange::Remove(name.clone())),
            Operation::SyncDirectory => {
                for change in std::mem::take(&mut self.changes) {
                    apply(&mut self.names, &change);
                }
            }
            Operation::Write { file, offset, bytes } => {
                self.files[*file].unsynced.push((*offset, bytes.clone()));
            }
            Operation::Sync { file } => {
                let FileState { synced, unsynced } = &mut self.files[*file];
                for (offset, bytes) in unsynced.drain(..) {
                    write(synced, offset, &bytes);
                }
            }
        }
    }

    /// The disk after a crash now.
    pub(crate) fn crash(&self, loss: Loss, rng: &mut SplitMix) -> Self {
        if loss == Loss::Nothing {
            return Self { position: 0, ..self.clone() };
        }
        // One in `one_in` of the unsynced writes is lost.
        let one_in = 1 + rng.below(4);
        let keep = |left: &mut u64, rng: &mut SplitMix| match loss {
            Loss::Nothing | Loss::Unsynced => false,
            Loss::Tail => std::mem::replace(left, left.saturating_sub(1)) > 0,
            Loss::Some => rng.below(one_in) > 0,
        };
        let mut names = self.names.clone();
        let mut left = rng.below(1 + self.changes.len() as u64);
        for change in &self.changes {
            if keep(&mut left, rng) {
                apply(&mut names, change);
            }
        }
        let mut crash = |file: &FileState| {
            let mut synced = file.synced.clone();
            let (mut left, mut torn) = (rng.below(1 + file.unsynced.len() as u64), false);
            for (offset, written) in &file.unsynced {
                if keep(&mut left, rng) {
                    write(&mut synced, *offset, written);
                } else if (loss == Loss::Tail && !torn) || (loss == Loss::Some && rng.below(2) == 0) {
                    tear(&mut synced, *offset, written, rng);
                    torn = true;
                }
            }
            FileState { synced, unsynced: Vec::new() }
        };
        let files = self.files.iter().map(&mut crash).collect();
        Self { position: 0, names, changes: Vec::new(), files }
    }
}

fn apply(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Create(name, file) => names.insert(name.clone(), *file),
        NameChange::Remove(name) => names.remove(name),
    };
}

/// Writes a part: a prefix of any length, or any subset of the disk's sectors.
fn tear(content: &mut Vec<u8>, offset: usize, written: &[u8], rng: &mut SplitMix) {
    const SECTOR: usize = 512;
    if rng.below(2) == 0 {
        let end = usize::try_from(rng.below(written.len() as u64)).unwrap();
        write(content, offset, &written[..end]);
        return;
    }
    let mut start = 0;
    while start < written.len() {
        let end = written.len().min(start + SECTOR - (offset + start) % SECTOR);
        if rng.below(2) == 0 {
            write(content, offset + start, &written[start..end]);
        }
        start = end;
    }
}
