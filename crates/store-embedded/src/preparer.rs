//! The thread that prepares segments for the syncer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use crate::disk::{Disk, DiskFile};
use crate::journal::Blank;
use crate::segment::segment_name;
use crate::shared::Shared;

/// Work for the preparer.
pub(crate) enum Chore {
    Make,
    Wipe(Blank),
    Remove(Blank),
    LetGo(Arc<dyn DiskFile>),
}

/// What became of a segment that was to be made or wiped.
pub(crate) enum Prepared {
    Made(io::Result<Blank>),
    /// Its file was there before: that tells nothing about whether the disk has space.
    Wiped(io::Result<Blank>),
}

pub(crate) fn prepare(
    mut preparer: Preparer,
    chores: &Receiver<Chore>,
    done: &Sender<Prepared>,
    shared: &Shared,
) {
    for chore in chores {
        let outcome = match chore {
            Chore::Make => Prepared::Made(preparer.make()),
            Chore::Wipe(blank) => Prepared::Wiped(Preparer::fill(blank)),
            Chore::Remove(blank) => {
                // A file that stays is found and removed at the next opening.
                let _ = preparer.remove(&blank);
                continue;
            }
            Chore::LetGo(file) => {
                file.let_go();
                continue;
            }
        };
        if done.send(outcome).is_err() {
            return;
        }
        shared.lock().prepared = true;
        shared.work.notify_all();
    }
}

/// Blank segments, and why there are no more.
pub(crate) type Found = (VecDeque<Blank>, Option<io::Error>);

/// Makes, wipes and removes the files of segments; everything here may be slow, and nothing else waits for it.
pub(crate) struct Preparer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    pub(crate) name_next: u64,
}

impl Preparer {
    /// Makes a new blank segment. What is left over from a failure is removed.
    pub(crate) fn make(&mut self) -> io::Result<Blank> {
        let name = segment_name(self.name_next);
        self.name_next += 1;
        let made = self.disk.create(&name).and_then(|file| {
            let blank =
                Self::fill(Blank { name: name.clone(), file: file.into(), size: self.segment_bytes })?;
            self.disk.sync_names()?;
            Ok(blank)
        });
        made.inspect_err(|_| {
            let _ = self.disk.remove(&name);
        })
    }

    /// Blank segments, out of files that nobody needs if there are any, and why there are fewer than asked for: a store opens
    /// on a full disk, too.
    pub(crate) fn find(&mut self, unneeded: &mut Vec<Blank>, count: usize) -> io::Result<Found> {
        let fits = |blank: &mut Blank| blank.size == self.segment_bytes;
        let found: Vec<_> = unneeded.extract_if(.., fits).collect();
        let mut found = found.into_iter();
        let mut blanks = found.by_ref().take(count).map(Self::fill).collect::<io::Result<VecDeque<_>>>()?;
        unneeded.extend(found);
        // Whoever made a file may have ended before its name was on disk.
        self.disk.sync_names()?;
        while blanks.len() < count {
            match self.make() {
                Ok(blank) => blanks.push_back(blank),
                Err(error) => return Ok((blanks, Some(error))),
            }
        }
        Ok((blanks, None))
    }

    /// Overwrites a segment with zeros, durably.
    pub(crate) fn fill(blank: Blank) -> io::Result<Blank> {
        // Filling took a third of all processor time in small writes; large ones let the kernel use large pages.
        static CHUNK: [u8; 1 << 20] = [0; 1 << 20];
        let mut offset = 0;
        while offset < blank.size {
            let length = usize::try_from(blank.size - offset).unwrap_or(usize::MAX).min(CHUNK.len());
            blank.file.write_at(offset, &CHUNK[..length])?;
            offset += length as u64;
        }
        blank.file.sync()?;
        Ok(blank)
    }

    /// Removes a segment's file.
    pub(crate) fn remove(&self, blank: &Blank) -> io::Result<()> {
        self.disk.remove(&blank.name)?;
        self.disk.sync_names()
    }
}
