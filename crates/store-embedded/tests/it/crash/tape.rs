//! A disk in memory that records what is asked of it, and shows what a crash at any moment of that would leave.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use oncebox_store_embedded::disk::{Disk, DiskFile};
use oncebox_testkit::SplitMix;

/// Something that was asked of the disk. Files are numbered; a name may come to stand for another file.
enum Act {
    Create { name: String, file: usize },
    Remove { name: String },
    SyncNames,
    Write { file: usize, offset: usize, bytes: Vec<u8> },
    Sync { file: usize },
}

#[derive(Default)]
struct Reel {
    start: Playback,
    acts: Vec<Act>,
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
}

/// A disk that records; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Reel>>);

impl Tape {
    /// A disk on which a crash has left this.
    pub(crate) fn new(start: Playback) -> Self {
        let (names, files) = (start.current_names(), start.files.iter().map(FileState::current).collect());
        Self(Arc::new(Mutex::new(Reel { start, names, files, ..Reel::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap()
    }

    /// How much has been recorded: what is answered now depends on nothing that comes after.
    pub(crate) fn position(&self) -> usize {
        self.lock().acts.len()
    }

    /// What was recorded up to a position, ready to be crashed.
    pub(crate) fn replay(&self, position: usize) -> Playback {
        let mut playback = self.lock().start.clone();
        self.advance(&mut playback, position);
        playback
    }

    /// Moves a playback of this tape forward.
    pub(crate) fn advance(&self, playback: &mut Playback, position: usize) {
        let reel = self.lock();
        for act in &reel.acts[playback.position..position] {
            playback.play(act);
        }
    }
}

struct TapeFile {
    tape: Tape,
    file: usize,
}

impl Disk for Tape {
    fn place(&self) -> String {
        "tape".to_owned()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(TapeFile { tape: self.clone(), file }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut reel = self.lock();
        let file = reel.files.len();
        reel.files.push(Vec::new());
        reel.names.insert(name.to_owned(), file);
        reel.acts.push(Act::Create { name: name.to_owned(), file });
        Ok(Box::new(TapeFile { tape: self.clone(), file }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut reel = self.lock();
        reel.names.remove(name);
        reel.acts.push(Act::Remove { name: name.to_owned() });
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.lock().acts.push(Act::SyncNames);
        Ok(())
    }

    fn check(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for TapeFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.tape.lock().files[self.file].len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let reel = self.tape.lock();
        let bytes = reel.files[self.file].get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut reel = self.tape.lock();
        let offset = usize::try_from(offset).unwrap();
        write(&mut reel.files[self.file], offset, bytes);
        reel.acts.push(Act::Write { file: self.file, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.tape.lock().acts.push(Act::Sync { file: self.file });
        Ok(())
    }

    fn let_go(&self) {}
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// What a crash takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Loss {
    /// Nothing: the process ends, the machine goes on.
    Nothing,
    /// Everything that was not synced.
    Unsynced,
    /// Of what was not synced, everything after some moment; the write at that moment is torn.
    Tail,
    /// Of what was not synced, any part, whole or torn: writes reach the disk in any order.
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
    /// As programs see it.
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

/// The disk at one moment of a tape: what is on it for sure, and what may be.
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

    /// Every file as programs see it, by name.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let names = self.current_names();
        names.into_iter().map(|(name, file)| (name, self.files[file].current())).collect()
    }

    /// Puts other bytes into a file, for good.
    pub(crate) fn damage(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.current_names()[name];
        let mut bytes = self.files[file].current();
        change(&mut bytes);
        self.files[file] = FileState { synced: bytes, unsynced: Vec::new() };
    }

    fn play(&mut self, act: &Act) {
        self.position += 1;
        match act {
            Act::Create { name, file } => {
                self.files.resize(self.files.len().max(file + 1), FileState::default());
                self.changes.push(NameChange::Create(name.clone(), *file));
            }
            Act::Remove { name } => self.changes.push(NameChange::Remove(name.clone())),
            Act::SyncNames => {
                for change in std::mem::take(&mut self.changes) {
                    apply(&mut self.names, &change);
                }
            }
            Act::Write { file, offset, bytes } => self.files[*file].unsynced.push((*offset, bytes.clone())),
            Act::Sync { file } => {
                let FileState { synced, unsynced } = &mut self.files[*file];
                for (offset, bytes) in unsynced.drain(..) {
                    write(synced, offset, &bytes);
                }
            }
        }
    }

    /// What is left if the crash comes now.
    pub(crate) fn crash(&self, loss: Loss, rng: &mut SplitMix) -> Self {
        if loss == Loss::Nothing {
            return Self { position: 0, ..self.clone() };
        }
        // One in `one_in` of what may be lost is lost.
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

/// Writes a part: the beginning, to any byte, or any of the disk's sectors.
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
