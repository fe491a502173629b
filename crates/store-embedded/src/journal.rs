//! The journal: groups of effects appended to segments, made durable, and given back when nobody needs them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use oncebox_core::{Timestamp, Uid};

use crate::disk::DiskFile;
use crate::frame::{self, ALIGNMENT, BODY_BYTES_MAX, HEADER_BYTES, Header, StoreId};
use crate::manifest::{Manifest, Newest};
use crate::segment::{DATA_OFFSET, Segment, SegmentHeader, segment_number};

/// The least that is worth beginning a frame for: with less room the next segment is taken.
const FRAME_BYTES_MIN: u64 = (HEADER_BYTES + 56) as u64;

/// Kept back in every journal, so that the next opening has room for what it writes even if the disk is full.
pub(crate) const OPENING_BYTES: u64 = 8 << 10;
/// What an opening writes, generously.
const OPENING_BYTES_MIN: u64 = 512;

/// A segment's file, full of zeros and durable: whatever is written into it needs no room that the disk may not have.
pub(crate) struct Blank {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
}

/// A file that may be wiped once two frames are durable that say that it is no longer needed: if the last one is damaged and cut
/// off, the one before it still says so.
pub(crate) struct Retired {
    pub(crate) blank: Blank,
    /// The first of them; none until it is written.
    first_lsn: Option<u64>,
    /// The second one.
    second_lsn: Option<u64>,
}

impl Retired {
    /// Notes the frame that ends a group.
    fn note(&mut self, lsn: u64) {
        let frame = if self.first_lsn.is_none() { &mut self.first_lsn } else { &mut self.second_lsn };
        frame.get_or_insert(lsn);
    }
}

pub(crate) struct Journal {
    pub(crate) store: StoreId,
    pub(crate) epoch: u64,
    /// Oldest first; the last one is written to.
    pub(crate) live: VecDeque<Segment>,
    pub(crate) blanks: VecDeque<Blank>,
    pub(crate) retired: Vec<Retired>,
    /// Segments that are full since somebody last asked: only a recovery reads them again.
    pub(crate) filled: Vec<Arc<dyn DiskFile>>,
    pub(crate) lsn_next: u64,
    pub(crate) durable_lsn: u64,
    pub(crate) generation_next: u64,
    /// Where the newest segment is named; none while a repair writes a journal that does not count yet.
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
            blanks: VecDeque::new(),
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

    /// The newest frame that has been written.
    pub(crate) fn written_lsn(&self) -> u64 {
        self.lsn_next - 1
    }

    /// Bytes that can be appended without a new segment having to be made, frame headers included.
    pub(crate) fn room(&self) -> u64 {
        let current = self.live.back().map_or(0, Segment::room);
        let blanks: u64 = self.blanks.iter().map(|blank| blank.size - DATA_OFFSET).sum();
        // At the end of each segment a little may stay unused.
        (current + blanks).saturating_sub((self.blanks.len() as u64 + 1) * FRAME_BYTES_MIN + OPENING_BYTES)
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let live: u64 = self.live.iter().map(|segment| segment.header.size).sum();
        let blanks: u64 = self.blanks.iter().map(|blank| blank.size).sum();
        live + blanks + self.retired.iter().map(|retired| retired.blank.size).sum::<u64>()
    }

    /// Goes on behind the last frame of the newest segment, for want of a file to begin another one in. What a crash left
    /// behind that frame is wiped first, durably, so that it can never be taken for what follows. Answers whether there is
    /// room.
    pub(crate) fn go_on(&mut self, empty_newest: Option<Segment>) -> io::Result<bool> {
        self.live.extend(empty_newest);
        let Some(newest) = self.live.back().filter(|newest| newest.room() >= OPENING_BYTES_MIN) else {
            return Ok(false);
        };
        newest.harden(&self.store)?;
        newest.wipe_rest()?;
        let (generation, number) = newest.named();
        if let Some(manifest) = &mut self.manifest {
            manifest.note(Newest { generation, number, epoch: newest.header.epoch })?;
        }
        Ok(true)
    }

    /// Appends one group; `homes` are the messages that it brings in whole. It is durable after the next sync.
    pub(crate) fn append(&mut self, group: &[u8], homes: &[Uid], time: Timestamp) -> io::Result<()> {
        let (mut rest, mut first) = (group, true);
        while first || !rest.is_empty() {
            if self.live.back().is_none_or(|segment| segment.room() < FRAME_BYTES_MIN) {
                self.rotate()?;
            }
            let segment = self.live.back_mut().expect("a segment was just begun");
            if first {
                segment.homes.extend_from_slice(homes);
            }
            let room = usize::try_from(segment.room()).unwrap_or(usize::MAX) - HEADER_BYTES;
            let (body, more) = rest.split_at(rest.len().min(BODY_BYTES_MAX).min(room - room % ALIGNMENT));
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

    /// Begins the next segment. What was written before it is durable first: its header says so.
    pub(crate) fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        let blank = self.blanks.pop_front();
        let Blank { name, file, size } = blank.ok_or_else(|| io::Error::other("no segment is prepared"))?;
        let (generation, first_lsn) = (self.generation_next, self.lsn_next);
        let (previous, previous_number) = self.live.back().map_or((0, 0), Segment::named);
        let header =
            SegmentHeader { generation, first_lsn, epoch: self.epoch, size, previous, previous_number };
        self.dirty = true;
        file.write_at(0, &header.encode(&self.store))?;
        if let Some(manifest) = &mut self.manifest {
            file.sync()?;
            self.dirty = false;
            let number = segment_number(&name).unwrap_or_default();
            manifest.note(Newest { generation, number, epoch: self.epoch })?;
        }
        self.generation_next += 1;
        self.filled.extend(self.live.back().map(|full| Arc::clone(&full.file)));
        self.live.push_back(Segment { name, file, header, end: DATA_OFFSET, homes: Vec::new() });
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

    /// Gives up the oldest segment: whatever it held has been written again, or is gone.
    pub(crate) fn retire_oldest(&mut self) {
        let oldest = self.live.pop_front().expect("there is an oldest segment");
        self.retire(oldest.into_blank());
    }

    /// Has a file wiped once the next two groups are durable.
    pub(crate) fn retire(&mut self, blank: Blank) {
        self.retired.push(Retired { blank, first_lsn: None, second_lsn: None });
    }

    /// Whether a group must be written before something that was retired can be wiped.
    pub(crate) fn wants_a_group(&self) -> bool {
        self.retired.iter().any(|retired| retired.second_lsn.is_none())
    }

    /// The files that may be wiped now.
    pub(crate) fn take_wipeable(&mut self) -> Vec<Blank> {
        let durable = self.durable_lsn;
        let ripe = |retired: &mut Retired| retired.second_lsn.is_some_and(|lsn| lsn <= durable);
        self.retired.extract_if(.., ripe).map(|retired| retired.blank).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use oncebox_core::Timestamp;

    use super::{Blank, Journal};
    use crate::disk::DiskFile;

    /// A file that takes everything and keeps nothing.
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

        fn let_go(&self) {}
    }

    fn blank(number: u64) -> Blank {
        Blank { name: crate::segment::segment_name(number), file: Arc::new(Sink), size: 1 << 16 }
    }

    /// A crash must find either the segment or a durable frame that says that nobody needs it, also if it damages the last frame.
    #[test]
    fn a_retired_segment_is_wiped_only_when_two_frames_that_say_so_are_durable() {
        let mut journal = Journal::new([1; 16], 1, 1, 1);
        journal.blanks.extend([blank(1), blank(2)]);
        journal.rotate().unwrap();
        journal.append(b"x", &[], Timestamp::EPOCH).unwrap();
        journal.sync().unwrap();
        journal.rotate().unwrap();
        journal.append(b"y", &[], Timestamp::EPOCH).unwrap();
        journal.retire_oldest();
        let names = |journal: &mut Journal| {
            journal.take_wipeable().into_iter().map(|blank| blank.name).collect::<Vec<_>>()
        };
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), Vec::<String>::new(), "no frame says so");
        assert!(journal.wants_a_group());
        journal.append(b"", &[], Timestamp::EPOCH).unwrap();
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), Vec::<String>::new(), "only one frame says so");
        assert!(journal.wants_a_group());
        journal.append(b"", &[], Timestamp::EPOCH).unwrap();
        assert!(!journal.wants_a_group());
        assert_eq!(names(&mut journal), Vec::<String>::new(), "the second frame that says so is not durable");
        journal.sync().unwrap();
        assert_eq!(names(&mut journal), ["00000001.seg"]);
    }
}
