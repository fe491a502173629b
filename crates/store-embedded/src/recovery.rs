//! Recovery: finds the segments of the journal and its end, and checks that nothing is missing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use oncebox_core::{Error, Timestamp};

use crate::bases::Bases;
use crate::disk::{Disk, DiskFile, read_all};
use crate::error::{corrupt, failed, missing};
use crate::file_names::{segment_name, segment_number};
use crate::frame::{Header, StoreId};
use crate::identity;
use crate::manifest::NewestSegment;
use crate::segment::{
    DATA_OFFSET, Frames, FreeSegment, Segment, SegmentHeader, is_first_needed, scan_frames,
};

/// The result of recovery.
pub(crate) struct Recovered {
    /// The live segments, oldest first.
    pub(crate) live: VecDeque<Segment>,
    /// Files that are not needed: older segments, and leftovers of a crash.
    pub(crate) obsolete: Vec<FreeSegment>,
    /// The newest segment, if it has no frames.
    pub(crate) empty_newest: Option<Segment>,
    pub(crate) lsn_next: u64,
    pub(crate) generation_next: u64,
    pub(crate) epoch: u64,
    pub(crate) name_next: u64,
    /// The highest recorded store time.
    pub(crate) time: Timestamp,
    /// The truncated end of the journal, if its last frames were not intact.
    pub(crate) torn_tail: Option<TornTail>,
}

/// The torn tail of a journal: its last frames are not intact and are truncated. Frames up to `durable_lsn` were
/// durable and are intact. Whether the truncated writes had been confirmed to a caller is unknown: a write interrupted
/// by a crash and damage to the last confirmed write cannot be distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The segment's file name.
    pub segment: String,
    /// The offset in the segment where the tail starts.
    pub offset: u64,
    /// Bytes from the offset to the last byte that is not zero.
    pub bytes: u64,
    /// Intact frames that are truncated because their group is incomplete or a frame before them is missing.
    pub frames: u64,
    /// The LSN of the first frame that cannot be read.
    pub lsn: u64,
    /// Every frame up to this LSN was durable.
    pub durable_lsn: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, offset, bytes, frames, lsn, durable_lsn } = self;
        write!(
            f,
            "{segment} cannot be read from offset {offset} (frame {lsn}): {bytes} bytes with {frames} intact frames are \
             truncated; frames up to {durable_lsn} were durable and are intact; whether the truncated writes had been confirmed \
             is unknown"
        )
    }
}

/// Replays one complete group; returns the messages whose base record it contains.
pub(crate) type Replay<'a> = dyn FnMut(&[u8]) -> Result<Bases, Error> + 'a;

/// Reads the journal and passes each complete group to `replay`.
pub(crate) fn recover(disk: &dyn Disk, store: &StoreId, replay: &mut Replay<'_>) -> Result<Recovered, Error> {
    let (segments, free, name_next) = list(disk, store)?;
    let epoch = segments.iter().map(|segment| segment.header.epoch).max().unwrap_or(0);
    let generation_next = segments.iter().map(|segment| segment.header.generation).max().unwrap_or(0) + 1;
    let newest = newest_of(disk)?;
    if let Some(NewestSegment { number, generation, .. }) =
        newest.filter(|newest| newest.generation >= generation_next)
    {
        // If only its header is lost, the file exists and its frames show the generation.
        return Err(lost_newest(&free, store, number, generation)?);
    }
    let epoch = epoch.max(newest.map_or(0, |newest| newest.epoch));
    let (mut live, mut obsolete) = chain(segments);
    obsolete.extend(free);
    let oldest = oldest_needed(&live, store)?;
    while live.front().is_some_and(|segment| segment.header.generation < oldest) {
        obsolete.extend(live.pop_front().map(Segment::into_free));
    }
    check_chain(&live, oldest)?;
    let mut walk = Walk {
        store,
        group: Vec::new(),
        group_frames: 0,
        group_segment: 0,
        lsn: 1,
        durable_lsn: 0,
        time: 0,
        torn_tail: None,
    };
    if let Some(first) = live.front() {
        walk.lsn = first.header.first_lsn;
    }
    for index in 0..live.len() {
        walk.segment(&mut live, index, replay)?;
    }
    // The file names a segment before the segment's first frame is written: an earlier crash leaves segments without
    // frames.
    if newest.is_none() && walk.lsn > 1 {
        return Err(corrupt("the file `store` does not name the newest segment any more"));
    }
    // The next segment starts at the same LSN, so this one owns no frames: no frame may name it as the oldest.
    let empty_newest = live.pop_back_if(|segment| segment.header.first_lsn == walk.lsn);
    let time = Timestamp::from_millis(walk.time);
    Ok(Recovered {
        live,
        obsolete,
        empty_newest,
        lsn_next: walk.lsn,
        generation_next,
        epoch,
        name_next,
        time,
        torn_tail: walk.torn_tail,
    })
}

/// The newest segment, as the file `store` names it.
fn newest_of(disk: &dyn Disk) -> Result<Option<NewestSegment>, Error> {
    let names = disk.names().map_err(|error| failed("listing the directory", error))?;
    identity::newest(disk, &names)
}

/// The error for a newest segment that is missing or has lost its header.
fn lost_newest(free: &[FreeSegment], store: &StoreId, number: u64, generation: u64) -> Result<Error, Error> {
    let name = segment_name(number);
    if let Some(blank) = free.iter().find(|blank| blank.name == name) {
        let bytes = read_all(&*blank.file).map_err(|error| failed("reading a segment", error))?;
        if scan_frames(&bytes, store).any(|header| header.generation == generation) {
            return Ok(corrupt(&format!("segment {name} has lost its header")));
        }
    }
    Ok(missing(Some(number), Some(generation)))
}

/// Checks that no segment is missing from the oldest on: each names its predecessor.
fn check_chain(live: &VecDeque<Segment>, oldest: u64) -> Result<(), Error> {
    let headers = || live.iter().map(|segment| segment.header);
    if let Some(SegmentHeader { previous, previous_number, .. }) =
        headers().next().filter(|first| !is_first_needed(oldest, first.generation, first.first_lsn))
    {
        let generation = if oldest > 0 { oldest } else { previous };
        return Err(missing((previous == generation).then_some(previous_number), Some(generation)));
    }
    for (before, SegmentHeader { previous, previous_number, .. }) in headers().zip(headers().skip(1)) {
        if previous != before.generation {
            return Err(missing(Some(previous_number), Some(previous)));
        }
    }
    Ok(())
}

/// Lists all segment files: those with a header, those without, and the next free file number.
fn list(disk: &dyn Disk, store: &StoreId) -> Result<(Vec<Segment>, Vec<FreeSegment>, u64), Error> {
    let (mut segments, mut free, mut name_next) = (Vec::new(), Vec::new(), 1);
    let names = disk.names().map_err(|error| failed("listing the journal", error))?;
    for name in names {
        let Some(number) = segment_number(&name) else { continue };
        name_next = name_next.max(number + 1);
        let read = || {
            let file = disk.open(&name)?;
            let mut head = [0; 128];
            let count = file.read_at(0, &mut head)?;
            Ok((Arc::from(file), SegmentHeader::decode(&head[..count])))
        };
        let (file, header) = read().map_err(|error| failed("reading a segment", error))?;
        let file: Arc<dyn DiskFile> = file;
        let size = file.size().map_err(|error| failed("reading a segment", error))?;
        match header {
            Some((id, _)) if id != *store => {
                return Err(corrupt(&format!("segment {name} belongs to another store")));
            }
            Some((_, header)) => {
                segments.push(Segment { name, file, header, end: DATA_OFFSET, bases: Bases::default() });
            }
            None => free.push(FreeSegment { name, file, size }),
        }
    }
    Ok((segments, free, name_next))
}

/// The segments that own a range of LSNs, oldest first, and the others.
///
/// A segment owns the LSNs from its first frame up to the start of the next segment. A segment that starts at or after
/// the start of a later generation owns nothing: it followed a point where the journal was truncated.
fn chain(mut segments: Vec<Segment>) -> (VecDeque<Segment>, Vec<FreeSegment>) {
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.header.generation));
    let (mut live, mut obsolete, mut limit) = (VecDeque::new(), Vec::new(), u64::MAX);
    for segment in segments {
        if segment.header.first_lsn < limit {
            limit = segment.header.first_lsn;
            live.push_front(segment);
        } else {
            obsolete.push(segment.into_free());
        }
    }
    (live, obsolete)
}

/// The generation that recovery starts with, as recorded in the last frame that ended a group.
fn oldest_needed(live: &VecDeque<Segment>, store: &StoreId) -> Result<u64, Error> {
    for segment in live.iter().rev() {
        let bytes = segment.read().map_err(|error| failed("reading a segment", error))?;
        let SegmentHeader { generation, first_lsn, .. } = segment.header;
        let frames = Frames::new(&bytes, store, generation).map(|found| found.header);
        let in_order = frames.zip(first_lsn..).take_while(|(header, lsn)| header.lsn == *lsn);
        let last = in_order.map(|(header, _)| header).filter(|header| header.last).last();
        if let Some(Header { oldest, .. }) = last {
            return Ok(oldest);
        }
    }
    Ok(0)
}

/// Reads the journal from front to back.
struct Walk<'a> {
    store: &'a StoreId,
    /// The bytes of an incomplete group.
    group: Vec<u8>,
    /// The frames of that group; zero outside of a group.
    group_frames: u64,
    /// The index of the segment in which that group starts.
    group_segment: usize,
    /// The LSN of the next frame.
    lsn: u64,
    /// Every frame up to this LSN was durable.
    durable_lsn: u64,
    time: u64,
    torn_tail: Option<TornTail>,
}

impl Walk<'_> {
    fn segment(
        &mut self,
        live: &mut VecDeque<Segment>,
        index: usize,
        replay: &mut Replay<'_>,
    ) -> Result<(), Error> {
        let bytes = live[index].read().map_err(|error| failed("reading a segment", error))?;
        let next_lsn = live.get(index + 1).map(|segment| segment.header.first_lsn);
        let SegmentHeader { generation, first_lsn, size, .. } = live[index].header;
        if (bytes.len() as u64) < size {
            return Err(corrupt(&format!("segment {} has lost its end", live[index].name)));
        }
        // A segment is started only when everything before it is durable.
        self.durable_lsn = self.durable_lsn.max(first_lsn.saturating_sub(1));
        let mut frames = Frames::new(&bytes, self.store, generation);
        while next_lsn.is_none_or(|next| self.lsn < next) {
            let before = frames.offset;
            let Some(found) = frames.next().filter(|found| found.header.lsn == self.lsn) else {
                frames.offset = before;
                self.end(&live[index], next_lsn, &frames)?;
                break;
            };
            self.lsn += 1;
            self.time = self.time.max(found.header.time_ms);
            self.durable_lsn = self.durable_lsn.max(found.header.durable_lsn);
            if found.header.first {
                self.group.clear();
                self.group_frames = 0;
                self.group_segment = index;
            } else if self.group_frames == 0 {
                // A group that starts before the oldest segment: what is still needed of it has been rewritten.
                continue;
            }
            self.group_frames += 1;
            self.group.extend_from_slice(found.body);
            if found.header.last {
                self.group_frames = 0;
                let bases = replay(&self.group)?;
                live[self.group_segment].bases.extend(&bases);
            }
        }
        live[index].end = size.min(frames.offset as u64);
        Ok(())
    }

    /// Handles the absence of an intact next frame: it is the end of the journal, or damage.
    fn end(&mut self, segment: &Segment, next_lsn: Option<u64>, frames: &Frames<'_>) -> Result<(), Error> {
        // A segment is started only when everything before it is durable, and a frame records what was durable before
        // it.
        let confirmed =
            next_lsn.is_some() || frames.scan_ahead().any(|header| header.durable_lsn >= self.lsn);
        if confirmed {
            let (segment, offset) = (&segment.name, frames.offset);
            return Err(corrupt(&format!(
                "segment {segment} is damaged at offset {offset}, before confirmed writes"
            )));
        }
        let tail = TornTail {
            segment: segment.name.clone(),
            offset: frames.offset as u64,
            bytes: frames.bytes_left(),
            frames: frames.scan_ahead().count() as u64 + self.group_frames,
            lsn: self.lsn,
            durable_lsn: self.durable_lsn,
        };
        self.torn_tail = (tail.bytes > 0 || tail.frames > 0).then_some(tail);
        Ok(())
    }
}
