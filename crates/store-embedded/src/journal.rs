//! The journal: appends groups of effects to segments, makes them durable, and retires segments that are not needed.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use oncebox_core::Timestamp;

use crate::bases::Bases;
use crate::disk::DiskFile;
use crate::file_names::segment_number;
use crate::frame::{self, ALIGNMENT, BODY_BYTES_MAX, HEADER_BYTES, Header, StoreId};
use crate::manifest::{Manifest, NewestSegment};
use crate::segment::{DATA_OFFSET, FreeSegment, Segment, SegmentHeader};

/// Minimum space for a frame: with less, the journal moves on to the next segment.
const FRAME_BYTES_MIN: u64 = (HEADER_BYTES + 56) as u64;

/// Reserved in every journal, so that the next open can write its boot record even if the disk is full.
pub(crate) const OPEN_RESERVE_BYTES: u64 = 8 << 10;
/// Bytes that an open writes (upper bound).
const OPEN_BYTES_MIN: u64 = 512;

/// A retired segment. It may be wiped once two durable frames say that it is not needed: if the last frame is damaged
/// and truncated, the one before it still says so.
pub(crate) struct Retired {
    pub(crate) segment: FreeSegment,
    /// The first of the two frames; none until it is written.
    first_lsn: Option<u64>,
    /// The second of the two frames.
    second_lsn: Option<u64>,
}

impl Retired {
    /// Records the frame that ends a group.
    fn note(&mut self, lsn: u64) {
        let frame = if self.first_lsn.is_none() { &mut self.first_lsn } else { &mut self.second_lsn };
        frame.get_or_insert(lsn);
    }
}

pub(crate) struct Journal {
    pub(crate) store: StoreId,
    pub(crate) epoch: u64,
    /// Oldest first; frames are appended to the last one.
    pub(crate) live: VecDeque<Segment>,
    pub(crate) free: VecDeque<FreeSegment>,
    pub(crate) retired: Vec<Retired>,
    /// Segments that filled up since the syncer last took them: only recovery reads them again.
    pub(crate) filled: Vec<Arc<dyn DiskFile>>,
    pub(crate) lsn_next: u64,
    pub(crate) durable_lsn: u64,
    pub(crate) generation_next: u64,
    /// The file that names the newest segment; none while a repair writes a journal that is not live yet.
    pub(crate) manifest: Option<Manifest>,
    buffer: Vec<u8>,
    dirty: bool,
}

impl Journal {
    pub(crate) fn new(store: StoreId, epoch: u64, lsn_next: u64, generation_next: u64) -> Self {
        Self {
            store,
            epoch,
            live: VecDeque::new(),
            free: VecDeque::new(),
            retired: Vec::new(),
            filled: Vec::new(),
            lsn_next,
            durable_lsn: lsn_next - 1,
            generation_next,
            manifest: None,
            buffer: Vec::new(),
            dirty: false,
        }
    }

    /// Bytes that can be appended without creating a segment, frame headers included.
    pub(crate) fn space(&self) -> u64 {
        let current = self.live.back().map_or(0, Segment::space);
        let free: u64 = self.free.iter().map(|segment| segment.size - DATA_OFFSET).sum();
        // A few bytes at the end of each segment may stay unused.
        (current + free).saturating_sub((self.free.len() as u64 + 1) * FRAME_BYTES_MIN + OPEN_RESERVE_BYTES)
    }

    /// Space for what callers write besides `pending` bytes of a group that is not written yet. Admission and
    /// allocation must use the same number: if they differed, callers could wait for space that is never allocated.
    pub(crate) fn space_besides(&self, pending: usize) -> u64 {
        let pending = pending as u64;
        self.space().saturating_sub(pending + pending / 64 + HEADER_BYTES as u64)
    }

    /// Total size of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let live: u64 = self.live.iter().map(|segment| segment.header.size).sum();
        let free: u64 = self.free.iter().map(|segment| segment.size).sum();
        live + free + self.retired.iter().map(|retired| retired.segment.size).sum::<u64>()
    }

    /// Continues after the last frame of the newest segment, for lack of a free segment. Whatever a crash left after
    /// that frame is wiped first, durably, so that it can never be mistaken for later frames. Returns whether there is
    /// enough space.
    pub(crate) fn resume_newest(&mut self, empty_newest: Option<Segment>) -> io::Result<bool> {
        self.live.extend(empty_newest);
        let Some(newest) = self.live.back().filter(|newest| newest.space() >= OPEN_BYTES_MIN) else {
            return Ok(false);
        };
        newest.rewrite_unsynced(&self.store)?;
        newest.wipe_tail()?;
        let (generation, number) = newest.id();
        if let Some(manifest) = &mut self.manifest {
            manifest.note(NewestSegment { generation, number, epoch: newest.header.epoch })?;
        }
        Ok(true)
    }

    /// Appends one group; `bases` is what it contains whole. It is durable after the next sync.
    pub(crate) fn append(&mut self, group: &[u8], bases: &Bases, time: Timestamp) -> io::Result<()> {
        let (mut rest, mut first) = (group, true);
        while first || !rest.is_empty() {
            if self.live.back().is_none_or(|segment| segment.space() < FRAME_BYTES_MIN) {
                self.rotate()?;
            }
            let segment = self.live.back_mut().expect("a segment was just started");
            if first {
                segment.bases.extend(bases);
            }
            let space = usize::try_from(segment.space()).unwrap_or(usize::MAX) - HEADER_BYTES;
            let (body, more) = rest.split_at(rest.len().min(BODY_BYTES_MAX).min(space - space % ALIGNMENT));
            rest = more;
            let oldest = self.live.front().map_or(0, |segment| segment.header.generation);
            let header = Header {
                lsn: self.lsn_next,
                durable_lsn: self.durable_lsn,
                generation: self.live.back().map_or(0, |segment| segment.header.generation),
                oldest,
                time_ms: time.as_millis(),
                first,
                last: rest.is_empty(),
            };
            self.write_frame(&header, body)?;
            first = false;
        }
        for retired in &mut self.retired {
            retired.note(self.lsn_next - 1);
        }
        Ok(())
    }

    fn write_frame(&mut self, header: &Header, body: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        frame::write(&mut self.buffer, &self.store, header, body);
        let segment = self.live.back_mut().expect("frames are written into a segment");
        self.dirty = true;
        segment.file.write_at(segment.end, &self.buffer)?;
        segment.end += self.buffer.len() as u64;
        self.lsn_next += 1;
        Ok(())
    }

    /// Starts the next segment. Everything before it is synced first, as its header implies.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        let segment = self.free.pop_front();
        let FreeSegment { name, file, size } = segment.ok_or_else(|| io::Error::other("no free segment"))?;
        let (generation, first_lsn) = (self.generation_next, self.lsn_next);
        let (previous, previous_number) = self.live.back().map_or((0, 0), Segment::id);
        let header =
            SegmentHeader { generation, first_lsn, epoch: self.epoch, size, previous, previous_number };
        self.dirty = true;
        file.write_at(0, &header.encode(&self.store))?;
        if let Some(manifest) = &mut self.manifest {
            file.sync()?;
            self.dirty = false;
            let number = segment_number(&name).unwrap_or_default();
            manifest.note(NewestSegment { generation, number, epoch: self.epoch })?;
        }
        self.generation_next += 1;
        self.filled.extend(self.live.back().map(|full| Arc::clone(&full.file)));
        self.live.push_back(Segment { name, file, header, end: DATA_OFFSET, bases: Bases::default() });
        Ok(())
    }

    /// Makes everything that was appended durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.dirty {
            let segment = self.live.back().expect("something was written");
            segment.file.sync()?;
            self.dirty = false;
        }
        self.durable_lsn = self.lsn_next - 1;
        Ok(())
    }

    /// Retires the oldest segment: its messages have been rewritten, or are gone.
    pub(crate) fn retire_oldest(&mut self) {
        let oldest = self.live.pop_front().expect("there is an oldest segment");
        self.retire(oldest.into_free());
    }

    /// Lets a file be wiped once the next two groups are durable.
    pub(crate) fn retire(&mut self, segment: FreeSegment) {
        self.retired.push(Retired { segment, first_lsn: None, second_lsn: None });
    }

    /// Whether a group must be written before a retired segment can be wiped.
    pub(crate) fn needs_group(&self) -> bool {
        self.retired.iter().any(|retired| retired.second_lsn.is_none())
    }

    /// Takes the files that may be wiped now.
    pub(crate) fn take_wipeable(&mut self) -> Vec<FreeSegment> {
        let durable = self.durable_lsn;
        let wipeable = |retired: &mut Retired| retired.second_lsn.is_some_and(|lsn| lsn <= durable);
        self.retired.extract_if(.., wipeable).map(|retired| retired.segment).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use oncebox_core::Timestamp;

    use super::{FreeSegment, Journal};
    use crate::bases::Bases;
    use crate::disk::DiskFile;
    use crate::file_names::segment_name;

    /// A file that discards everything.
    struct Sink;

    impl DiskFile for Sink {
        fn size(&self) -> io::Result<u64> {
            Ok(1 << 16)
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn release_cache(&self) {}
    }

    fn free_segment(number: u64) -> FreeSegment {
        FreeSegment { name: segment_name(number), file: Arc::new(Sink), size: 1 << 16 }
    }

    /// After a crash either the segment or a durable frame that declares it unneeded must exist, even if the last frame
    /// is damaged.
    #[test]
    fn a_retired_segment_is_wiped_only_after_two_durable_frames_say_so() {
        let mut journal = Journal::new([1; 16], 1, 1, 1);
        journal.free.extend([free_segment(1), free_segment(2)]);
        journal.rotate().unwrap();
        journal.append(b"x", &Bases::default(), Timestamp::EPOCH).unwrap();
        journal.sync().unwrap();
        journal.rotate().unwrap();
        journal.append(b"y", &Bases::default(), Timestamp::EPOCH).unwrap();
        journal.retire_oldest();
        let names = |journal: &mut Journal| {
            journal.take_wipeable().into_iter().map(|segment| segment.name).collect::<Vec<_>>()
        };
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), Vec::<String>::new(), "no frame says so");
        assert!(journal.needs_group());
        journal.append(b"", &Bases::default(), Timestamp::EPOCH).unwrap();
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), Vec::<String>::new(), "only one frame says so");
        assert!(journal.needs_group());
        journal.append(b"", &Bases::default(), Timestamp::EPOCH).unwrap();
        assert!(!journal.needs_group());
        assert_eq!(names(&mut journal), Vec::<String>::new(), "the second frame that says so is not durable");
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), ["00000001.seg"]);
    }
}
