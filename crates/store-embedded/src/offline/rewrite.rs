//! A fresh journal beside the damaged one, which takes its place in one step.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::Timestamp;
use oncebox_core::machine::{Effect, Journal as _, Record};

use super::reading::Reading;
use super::salvage::Salvaged;
use super::survey::Head;
use crate::codec::{self, Boot};
use crate::disk::{Disk, DiskFile};
use crate::engine::Group;
use crate::frame::StoreId;
use crate::journal::{Blank, Journal};
use crate::manifest::{Manifest, Newest};
use crate::preparer::Preparer;
use crate::segment::{Segment, SegmentHeader, segment_number};

/// Bytes of a group after which the next one is begun.
const GROUP_BYTES: usize = 32 << 10;
/// Openings that may have left no trace. Each begins a segment of its own, so this many segments would have to be lost
/// before a fence could come again.
const EPOCHS_LOST_MAX: u64 = 1_024;

/// A segment's file whose header is held back. Until it is written, the file counts as blank.
struct Headless {
    file: Arc<dyn DiskFile>,
    header: Mutex<Vec<u8>>,
}

impl Headless {
    fn release(&self) -> io::Result<()> {
        self.file.write_at(0, &self.header.lock().unwrap_or_else(PoisonError::into_inner))?;
        self.file.sync()
    }
}

impl DiskFile for Headless {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 {
            *self.header.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
            return Ok(());
        }
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn let_go(&self) {
        self.file.let_go();
    }
}

struct Fresh {
    journal: Journal,
    preparer: Preparer,
    /// In the order in which they are used.
    files: Vec<(String, Arc<Headless>)>,
    time: Timestamp,
}

/// Writes what was salvaged as a journal of its own and makes it the store's. Answers how many messages it holds.
///
/// First come all frames in files without headers, which recovery does not take for segments. They name the oldest segment
/// that the damaged journal needs; only when they are durable, a last one says that the first of these files is the oldest
/// needed. So a repair of a half-repaired store reads the damaged journal again. Then come the headers, the first file's
/// last of all: before it is there, recovery finds that the oldest segment needed is missing, and after it, nothing else is
/// needed. That header is one write within one sector, and a torn one does not pass its checksum.
pub(super) fn rewrite(
    disk: Arc<dyn Disk>,
    reading: &Reading,
    salvaged: &Salvaged,
    boot: &Boot,
) -> io::Result<u64> {
    let mut fresh = Fresh {
        journal: journal(reading, salvaged.epoch),
        preparer: Preparer {
            disk,
            segment_bytes: segment_bytes(reading),
            name_next: reading.survey.name_next,
        },
        files: Vec::new(),
        time: salvaged.time,
    };
    let written = fresh.fill(salvaged, boot, reading.oldest);
    if written.is_err() {
        // Without a header they are not taken for anything; it is only about the room.
        for (name, _) in &fresh.files {
            let _ = fresh.preparer.disk.remove(name);
        }
    }
    let messages = written?;
    for (_, file) in fresh.files.iter().take(fresh.journal.live.len()).rev() {
        file.release()?;
    }
    let newest = fresh.journal.live.back().map(|segment| (segment.header, segment.name.as_str()));
    note_newest(&*fresh.preparer.disk, reading.survey.store, newest)?;
    // From here on what was there before is not needed; opening would remove what stays.
    for file in &reading.survey.files {
        fresh.preparer.disk.remove(&file.name)?;
    }
    fresh.preparer.disk.sync_names()?;
    Ok(messages)
}

/// Has the file `store` name the newest segment.
pub(super) fn note_newest(
    disk: &dyn Disk,
    store: StoreId,
    newest: Option<(SegmentHeader, &str)>,
) -> io::Result<()> {
    let Some((SegmentHeader { generation, epoch, .. }, name)) = newest else { return Ok(()) };
    let number = segment_number(name).unwrap_or_default();
    Manifest::open(disk, store)?.note(Newest { generation, number, epoch })
}

/// A journal behind everything that left a trace.
fn journal(reading: &Reading, epoch: u64) -> Journal {
    let files = &reading.survey.files;
    let newest = reading.survey.newest;
    let (mut epoch, mut lsn) = (epoch.max(newest.map_or(0, |newest| newest.epoch)), 0);
    let mut generation = newest.map_or(0, |newest| newest.generation);
    for file in files {
        if let Head::Ours(header) = file.head {
            epoch = epoch.max(header.epoch);
            lsn = lsn.max(header.first_lsn);
            generation = generation.max(header.generation);
        }
        for spot in &file.frames {
            lsn = lsn.max(spot.header.lsn).max(spot.header.durable_lsn);
            generation = generation.max(spot.header.generation).max(spot.header.oldest);
        }
    }
    Journal::new(reading.survey.store, epoch + EPOCHS_LOST_MAX, lsn + 1, generation + 1)
}

/// As large as the store's own segments are.
fn segment_bytes(reading: &Reading) -> u64 {
    let ours = reading.survey.files.iter().filter(|file| matches!(file.head, Head::Ours(_)));
    ours.map(|file| file.size).max().unwrap_or(1 << 20).clamp(64 << 10, 16 << 20)
}

impl Fresh {
    fn fill(&mut self, salvaged: &Salvaged, boot: &Boot, oldest: u64) -> io::Result<u64> {
        let stand_in = self.stand_in(oldest)?;
        self.journal.live.push_back(stand_in);
        let (mut group, mut messages) = (Group::default(), 0);
        codec::encode_boot(&mut group.bytes, boot);
        let machine = &salvaged.machine;
        for uid in machine.uids() {
            let Some(snapshot) = machine.peek(uid) else { continue };
            group.record(Record { at: machine.now(), uid, effect: Effect::Restored(&snapshot) });
            messages += 1;
            if group.bytes.0.len() >= GROUP_BYTES {
                self.append(&group)?;
                group.clear();
            }
        }
        self.append(&group)?;
        self.journal.sync()?;
        // The last frame vouches for all before it, and takes the damaged journal's place.
        self.journal.live.pop_front();
        self.append(&Group::default())?;
        self.journal.sync()?;
        Ok(messages)
    }

    /// A segment without room that makes frames name the damaged journal's oldest.
    fn stand_in(&mut self, oldest: u64) -> io::Result<Segment> {
        self.prepare(0)?;
        let (name, file) = self.files.first().expect("a segment was prepared");
        let header = SegmentHeader { generation: oldest, ..SegmentHeader::default() };
        let (name, file) = (name.clone(), Arc::clone(file) as Arc<dyn DiskFile>);
        Ok(Segment { name, file, header, end: 0, homes: Vec::new() })
    }

    fn append(&mut self, group: &Group) -> io::Result<()> {
        self.prepare(group.bytes.0.len() as u64)?;
        self.journal.append(&group.bytes.0, &group.homes, self.time)
    }

    /// Has files ready for so many bytes.
    fn prepare(&mut self, bytes: u64) -> io::Result<()> {
        while self.journal.room() < bytes + bytes / 32 + 4_096 {
            let Blank { name, file, size } = self.preparer.make()?;
            let file = Arc::new(Headless { file, header: Mutex::default() });
            self.files.push((name.clone(), Arc::clone(&file)));
            self.journal.blanks.push_back(Blank { name, file, size });
        }
        Ok(())
    }
}
