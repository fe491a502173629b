//! Writes a new journal next to the damaged one and replaces it atomically.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use oncebox_core::{RecordVersion, Timestamp};

use super::analysis::Analysis;
use super::salvage::Salvaged;
use super::scan::HeaderState;
use crate::allocator::SegmentAllocator;
use crate::bases::{Base, Bases};
use crate::codec::{self, Boot};
use crate::disk::{Disk, DiskFile};
use crate::engine::Group;
use crate::file_names::segment_number;
use crate::frame::StoreId;
use crate::journal::Journal;
use crate::manifest::{Manifest, NewestSegment};
use crate::segment::{FreeSegment, Segment, SegmentHeader};

/// Size at which a group is written and the next one started.
const GROUP_BYTES: usize = 32 << 10;
/// Maximum number of epochs that may have left no trace. Each starts a segment, so this many segments would have to be
/// lost before a fence could be reused.
const EPOCHS_LOST_MAX: u64 = 1_024;
/// Maximum number of writes of a kind of records that may have left no trace: more than fit into any journal.
const VERSIONS_LOST_MAX: u64 = 1 << 32;

/// A segment file whose header is buffered. Until the header is written, recovery takes the file for blank.
struct Headless {
    file: Arc<dyn DiskFile>,
    header: Mutex<Vec<u8>>,
}

impl Headless {
    /// Writes the header, durably.
    fn write_header(&self) -> io::Result<()> {
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

    fn release_cache(&self) {
        self.file.release_cache();
    }
}

struct NewJournal {
    journal: Journal,
    allocator: SegmentAllocator,
    /// In order of use.
    files: Vec<(String, Arc<Headless>)>,
    time: Timestamp,
}

/// Writes the salvaged messages as a new journal and makes it the store's journal. Returns the number of messages.
///
/// All frames are written first, into files without headers, which recovery does not take for segments. They name the
/// oldest segment of the damaged journal as the oldest needed. When they are durable, a last frame names the first of
/// the new files instead, so that a repair of a half-repaired store reads the damaged journal again. Then the headers
/// are written, the first file's last: before that, recovery finds that the oldest segment is missing, and after it, no
/// other segment is needed. That header is one write within one sector, and a torn header does not pass its checksum.
pub(super) fn rewrite(
    disk: Arc<dyn Disk>,
    analysis: &Analysis,
    salvaged: &Salvaged,
    boot: &Boot,
) -> io::Result<u64> {
    let mut fresh = NewJournal {
        journal: journal(analysis, salvaged.epoch),
        allocator: SegmentAllocator {
            disk,
            segment_bytes: segment_bytes(analysis),
            name_next: analysis.scan.name_next,
        },
        files: Vec::new(),
        time: salvaged.time,
    };
    let written = fresh.fill(salvaged, boot, analysis.oldest);
    if written.is_err() {
        // Without headers the files are harmless; removing them only frees space.
        for (name, _) in &fresh.files {
            let _ = fresh.allocator.disk.remove(name);
        }
    }
    let messages = written?;
    for (_, file) in fresh.files.iter().take(fresh.journal.live.len()).rev() {
        file.write_header()?;
    }
    let newest = fresh.journal.live.back().map(|segment| (segment.header, segment.name.as_str()));
    note_newest(&*fresh.allocator.disk, analysis.scan.store, newest)?;
    // From here on the old files are not needed; the next open would remove any that remain.
    for file in &analysis.scan.files {
        fresh.allocator.disk.remove(&file.name)?;
    }
    fresh.allocator.disk.sync_directory()?;
    Ok(messages)
}

/// Records the newest segment in the file `store`.
pub(super) fn note_newest(
    disk: &dyn Disk,
    store: StoreId,
    newest: Option<(SegmentHeader, &str)>,
) -> io::Result<()> {
    let Some((SegmentHeader { generation, epoch, .. }, name)) = newest else { return Ok(()) };
    let number = segment_number(name).unwrap_or_default();
    Manifest::open(disk, store)?.note(NewestSegment { generation, number, epoch })
}

/// A new journal whose epoch, LSNs and generations are above all that left a trace.
fn journal(analysis: &Analysis, epoch: u64) -> Journal {
    let files = &analysis.scan.files;
    let newest = analysis.scan.newest;
    let (mut epoch, mut lsn) = (epoch.max(newest.map_or(0, |newest| newest.epoch)), 0);
    let mut generation = newest.map_or(0, |newest| newest.generation);
    for file in files {
        if let HeaderState::Ours(header) = file.header {
            epoch = epoch.max(header.epoch);
            lsn = lsn.max(header.first_lsn);
            generation = generation.max(header.generation);
        }
        for spot in &file.frames {
            lsn = lsn.max(spot.header.lsn).max(spot.header.durable_lsn);
            generation = generation.max(spot.header.generation).max(spot.header.oldest);
        }
    }
    Journal::new(analysis.scan.store, epoch + EPOCHS_LOST_MAX, lsn + 1, generation + 1)
}

/// The size of the store's own segments.
fn segment_bytes(analysis: &Analysis) -> u64 {
    let ours = analysis.scan.files.iter().filter(|file| matches!(file.header, HeaderState::Ours(_)));
    ours.map(|file| file.size).max().unwrap_or(1 << 20).clamp(64 << 10, 16 << 20)
}

impl NewJournal {
    fn fill(&mut self, salvaged: &Salvaged, boot: &Boot, oldest: u64) -> io::Result<u64> {
        let placeholder = self.placeholder(oldest)?;
        self.journal.live.push_back(placeholder);
        let (mut group, mut messages) = (Group::default(), 0);
        codec::encode_boot(&mut group.bytes, boot);
        let machine = &salvaged.machine;
        let records = machine.records();
        for (kind, version) in records.last_versions() {
            // A write in the damage may have been confirmed, and its version must not be given again.
            let version = RecordVersion(version.0.saturating_add(VERSIONS_LOST_MAX));
            codec::encode_last_version(&mut group.bytes, kind, version);
        }
        let kept = records.iter().map(|(kind, record)| Base::Record(kind.into(), record.version));
        for base in machine.uids().map(Base::Message).chain(kept) {
            let written = group.write_base(machine, &base);
            messages += u64::from(written && matches!(base, Base::Message(_)));
            if group.bytes.0.len() >= GROUP_BYTES {
                self.append(&group)?;
                group.clear();
            }
        }
        self.append(&group)?;
        self.journal.sync()?;
        // The last frame declares all before it durable, and replaces the damaged journal.
        self.journal.live.pop_front();
        self.append(&Group::default())?;
        self.journal.sync()?;
        Ok(messages)
    }

    /// A segment without space, as the oldest: frames then name the oldest generation of the damaged journal.
    fn placeholder(&mut self, oldest: u64) -> io::Result<Segment> {
        self.reserve(0)?;
        let (name, file) = self.files.first().expect("a segment was created");
        let header = SegmentHeader { generation: oldest, ..SegmentHeader::default() };
        let (name, file) = (name.clone(), Arc::clone(file) as Arc<dyn DiskFile>);
        Ok(Segment { name, file, header, end: 0, bases: Bases::default() })
    }

    fn append(&mut self, group: &Group) -> io::Result<()> {
        self.reserve(group.bytes.0.len() as u64)?;
        self.journal.append(&group.bytes.0, &group.bases, self.time)
    }

    /// Creates files until the journal has space for `bytes`.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        while self.journal.space() < bytes + bytes / 32 + 4_096 {
            let FreeSegment { name, file, size } = self.allocator.create()?;
            let file = Arc::new(Headless { file, header: Mutex::default() });
            self.files.push((name.clone(), Arc::clone(&file)));
            self.journal.free.push_back(FreeSegment { name, file, size });
        }
        Ok(())
    }
}
