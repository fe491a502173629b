//! Recovery: which segments make up the journal, where it ends, and whether anything is missing from it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use oncebox_core::{Error, Kind, Timestamp, Uid};

use crate::disk::Disk;
use crate::frame::{Header, StoreId};
use crate::identity;
use crate::journal::Blank;
use crate::manifest::Newest;
use crate::segment::{
    DATA_OFFSET, Frames, Segment, SegmentHeader, every_frame, is_first_needed, read_all, segment_name,
    segment_number,
};

/// What was found.
pub(crate) struct Recovered {
    /// The segments that are needed, oldest first.
    pub(crate) live: VecDeque<Segment>,
    /// Files that nobody needs: older segments, and what a crash left behind.
    pub(crate) unneeded: Vec<Blank>,
    /// The newest segment if nothing is in it.
    pub(crate) empty_newest: Option<Segment>,
    pub(crate) lsn_next: u64,
    pub(crate) generation_next: u64,
    pub(crate) epoch: u64,
    pub(crate) name_next: u64,
    /// The highest moment that was recorded.
    pub(crate) time: Timestamp,
    /// Where the journal was cut, if its last frames were not whole.
    pub(crate) cut: Option<Cut>,
}

/// The end of a journal whose last frames are not whole. Frames up to `durable_lsn` were on disk for certain and are there. Whether what
/// is cut had been answered is not known: a write that a crash interrupted and damage to the last one that was answered
/// look the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// The segment's file.
    pub segment: String,
    /// The offset there.
    pub offset: u64,
    /// From there to the last byte that is not zero.
    pub bytes: u64,
    /// Frames that are cut although they are whole: their group is not, or one before them is missing.
    pub frames: u64,
    /// The number of the first frame that cannot be read.
    pub lsn: u64,
    /// Every frame up to this one was on disk for certain.
    pub durable_lsn: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, offset, bytes, frames, lsn, durable_lsn } = self;
        write!(
            f,
            "{segment} cannot be read from offset {offset}, frame {lsn}, on: {bytes} bytes with {frames} whole frames are cut \
             off; frames up to {durable_lsn} were on disk for certain and are there, whether what is cut was answered is not \
             known"
        )
    }
}

pub(crate) fn failed(what: &str, error: io::Error) -> Error {
    let text = format!("{what} failed ({error}): see to the disk, then open the store again");
    Error::new(Kind::Unavailable, text).with_source(error)
}

fn corrupt(text: &str) -> Error {
    let advice = "look for it in a copy, or run `oncebox store verify` and `oncebox store repair --copy-to`";
    Error::new(Kind::Corrupt, format!("{text}: {advice}"))
}

/// A segment that is needed is not there: its file's number and its generation, as far as something tells them.
pub(crate) fn missing(number: Option<u64>, generation: Option<u64>) -> Error {
    let file = number.map_or("a segment".to_owned(), |number| format!("segment {}", segment_name(number)));
    let generation = generation.map_or(String::new(), |generation| format!(" of generation {generation}"));
    corrupt(&format!("{file}{generation} is missing from the journal"))
}

/// Replays one whole group; answers with the messages that it brought in.
pub(crate) type Replay<'a> = dyn FnMut(&[u8]) -> Result<Vec<Uid>, Error> + 'a;

/// Reads the journal and hands each whole group to `replay`, which answers with the messages that it brought in.
pub(crate) fn recover(disk: &dyn Disk, store: &StoreId, replay: &mut Replay<'_>) -> Result<Recovered, Error> {
    let (segments, blanks, name_next) = list(disk, store)?;
    let epoch = segments.iter().map(|segment| segment.header.epoch).max().unwrap_or(0);
    let generation_next = segments.iter().map(|segment| segment.header.generation).max().unwrap_or(0) + 1;
    let newest = newest_of(disk)?;
    if let Some(Newest { number, generation, .. }) =
        newest.filter(|newest| newest.generation >= generation_next)
    {
        // Only its header may be gone: then the file is there, and its frames tell.
        return Err(lost_newest(&blanks, store, number, generation)?);
    }
    let epoch = epoch.max(newest.map_or(0, |newest| newest.epoch));
    let (mut live, mut unneeded) = chain(segments);
    unneeded.extend(blanks);
    let oldest = oldest_needed(&live, store)?;
    while live.front().is_some_and(|segment| segment.header.generation < oldest) {
        unneeded.extend(live.pop_front().map(Segment::into_blank));
    }
    check_chain(&live, oldest)?;
    let mut walk = Walk {
        store,
        group: Vec::new(),
        group_frames: 0,
        group_home: 0,
        lsn: 1,
        durable_lsn: 0,
        time: 0,
        cut: None,
    };
    if let Some(first) = live.front() {
        walk.lsn = first.header.first_lsn;
    }
    for index in 0..live.len() {
        walk.segment(&mut live, index, replay)?;
    }
    // A segment is named there before its first frame is written: crashes before that leave segments, and no frame.
    if newest.is_none() && walk.lsn > 1 {
        return Err(corrupt("the file `store` does not tell the newest segment any more"));
    }
    // The next segment begins where this one does, so this one owns nothing: no frame may name it as the oldest.
    let empty_newest = live.pop_back_if(|segment| segment.header.first_lsn == walk.lsn);
    let time = Timestamp::from_millis(walk.time);
    Ok(Recovered {
        live,
        unneeded,
        empty_newest,
        lsn_next: walk.lsn,
        generation_next,
        epoch,
        name_next,
        time,
        cut: walk.cut,
    })
}

/// What the file `store` says about the newest segment.
fn newest_of(disk: &dyn Disk) -> Result<Option<Newest>, Error> {
    let names = disk.names().map_err(|error| failed("listing the directory", error))?;
    identity::newest(disk, &names)
}

/// The newest segment is not there, or has lost its header.
fn lost_newest(blanks: &[Blank], store: &StoreId, number: u64, generation: u64) -> Result<Error, Error> {
    let name = segment_name(number);
    if let Some(blank) = blanks.iter().find(|blank| blank.name == name) {
        let bytes = read_all(&*blank.file).map_err(|error| failed("reading a segment", error))?;
        if every_frame(&bytes, store).any(|header| header.generation == generation) {
            return Ok(corrupt(&format!("segment {name} has lost its header")));
        }
    }
    Ok(missing(Some(number), Some(generation)))
}

/// Every segment that is needed is there, from the oldest on: each names the one before it.
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

/// All segment files: those with a header, those without, and the next free name.
fn list(disk: &dyn Disk, store: &StoreId) -> Result<(Vec<Segment>, Vec<Blank>, u64), Error> {
    let (mut segments, mut blanks, mut name_next) = (Vec::new(), Vec::new(), 1);
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
        let file: Arc<dyn crate::disk::DiskFile> = file;
        let size = file.size().map_err(|error| failed("reading a segment", error))?;
        match header {
            Some((id, _)) if id != *store => {
                return Err(corrupt(&format!("segment {name} belongs to another store")));
            }
            Some((_, header)) => {
                segments.push(Segment { name, file, header, end: DATA_OFFSET, homes: Vec::new() });
            }
            None => blanks.push(Blank { name, file, size }),
        }
    }
    Ok((segments, blanks, name_next))
}

/// The segments that own a stretch of the journal, oldest first, and the others.
///
/// A segment owns what begins with its first frame, up to where a later one begins. One that begins where a later one has
/// begun already owns nothing: it lay behind a place at which the journal was cut.
fn chain(mut segments: Vec<Segment>) -> (VecDeque<Segment>, Vec<Blank>) {
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.header.generation));
    let (mut live, mut unneeded, mut limit) = (VecDeque::new(), Vec::new(), u64::MAX);
    for segment in segments {
        if segment.header.first_lsn < limit {
            limit = segment.header.first_lsn;
            live.push_front(segment);
        } else {
            unneeded.push(segment.into_blank());
        }
    }
    (live, unneeded)
}

/// The generation that recovery has to begin with: what the last frame that ended a group says.
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

/// The journal being read from front to back.
struct Walk<'a> {
    store: &'a StoreId,
    /// What has been read of a group that is not complete.
    group: Vec<u8>,
    /// Its frames; zero outside of a group.
    group_frames: u64,
    /// The segment in which that group began.
    group_home: usize,
    /// The next frame's.
    lsn: u64,
    /// Every frame up to this one was on disk for certain.
    durable_lsn: u64,
    time: u64,
    cut: Option<Cut>,
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
        // A segment is begun only when everything before it is durable.
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
                self.group_home = index;
            } else if self.group_frames == 0 {
                // A group whose beginning lies before the oldest segment was written again, as far as it is needed.
                continue;
            }
            self.group_frames += 1;
            self.group.extend_from_slice(found.body);
            if found.header.last {
                self.group_frames = 0;
                let homes = replay(&self.group)?;
                live[self.group_home].homes.extend(homes);
            }
        }
        live[index].end = size.min(frames.offset as u64);
        Ok(())
    }

    /// There is no whole frame where the next should be: the end of the journal, or damage.
    fn end(&mut self, segment: &Segment, next_lsn: Option<u64>, frames: &Frames<'_>) -> Result<(), Error> {
        // A segment is begun only when everything before it is durable, and a frame says what was durable before it.
        let answered = next_lsn.is_some() || frames.search().any(|header| header.durable_lsn >= self.lsn);
        if answered {
            let (segment, offset) = (&segment.name, frames.offset);
            return Err(corrupt(&format!(
                "segment {segment} is damaged at offset {offset}, before what was answered"
            )));
        }
        let cut = Cut {
            segment: segment.name.clone(),
            offset: frames.offset as u64,
            bytes: frames.bytes_left(),
            frames: frames.search().count() as u64 + self.group_frames,
            lsn: self.lsn,
            durable_lsn: self.durable_lsn,
        };
        self.cut = (cut.bytes > 0 || cut.frames > 0).then_some(cut);
        Ok(())
    }
}
