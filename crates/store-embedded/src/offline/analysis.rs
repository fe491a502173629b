//! Finds the frames that make up the journal, by the rules of recovery, and the frames that are missing. Unlike
//! recovery, it continues after damage.

use oncebox_core::Error;

use super::finding::{Damage, VerifyFinding};
use super::scan::{FrameLocation, HeaderState, Scan, SegmentFile, read};
use crate::codec::Damaged;
use crate::disk::Disk;
use crate::file_names::segment_name;
use crate::frame::HEADER_BYTES;
use crate::manifest::NewestSegment;
use crate::recovery::TornTail;
use crate::segment::{DATA_OFFSET, SegmentHeader, is_first_needed};

/// A range of missing frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// None if unknown.
    pub(super) first_lsn: Option<u64>,
    /// None if unknown: everything after the first one.
    pub(super) last_lsn: Option<u64>,
    /// The number of bytes in their place.
    pub(super) bytes: u64,
}

/// A segment that owns a range of LSNs.
#[derive(Debug, Clone, Copy)]
struct LiveSegment {
    file: usize,
    generation: u64,
    first_lsn: u64,
    /// The generation and file number of the previous segment, if the header is intact.
    previous: Option<(u64, u64)>,
}

pub(super) struct Analysis {
    pub(super) scan: Scan,
    /// The frames of the journal, in order of LSN.
    pub(super) frames: Vec<FrameLocation>,
    pub(super) gaps: Vec<Gap>,
    pub(super) damage: Damage,
    /// The tail that the next open truncates.
    pub(super) torn_tail: Option<TornTail>,
    /// The indices of the live files.
    pub(super) live: Vec<usize>,
    /// The generation that recovery starts with; zero if unknown.
    pub(super) oldest: u64,
}

impl Analysis {
    pub(super) fn of(disk: &dyn Disk) -> Result<Self, Error> {
        let scan = Scan::of(disk)?;
        let mut analysis = Self {
            scan,
            frames: Vec::new(),
            gaps: Vec::new(),
            damage: Damage::default(),
            torn_tail: None,
            live: Vec::new(),
            oldest: 0,
        };
        if !analysis.scan.identified {
            analysis.damage.add(VerifyFinding::Identity);
        }
        for file in analysis.scan.files.iter().filter(|file| file.header == HeaderState::Foreign) {
            analysis.damage.add(VerifyFinding::Foreign { file: file.name.clone() });
        }
        analysis.analyze();
        Ok(analysis)
    }

    fn analyze(&mut self) {
        let mut segments = self.live_segments();
        let oldest = self.oldest_needed(&segments);
        self.oldest = oldest;
        segments.retain(|segment| segment.generation >= oldest);
        let is_first = |first: &&LiveSegment| is_first_needed(oldest, first.generation, first.first_lsn);
        if let Some(first) = segments.first().filter(|first| !is_first(first)) {
            let before = first.previous.map_or(first.generation - 1, |(generation, _)| generation);
            let generation = if oldest > 0 { oldest } else { before };
            let previous = first.previous.filter(|(previous, _)| *previous == generation);
            let file = previous.map(|(_, number)| segment_name(number));
            self.damage.add(VerifyFinding::Missing { generation, file });
            self.gaps.push(Gap { first_lsn: None, last_lsn: Some(first.first_lsn - 1), bytes: 0 });
        }
        for (index, segment) in segments.iter().enumerate() {
            let file = &self.scan.files[segment.file];
            if file.header == HeaderState::Missing {
                let (file, generation) = (file.name.clone(), segment.generation);
                self.damage.add(VerifyFinding::Header { file, generation });
            }
            let bytes = file.header.size().saturating_sub(file.size);
            if bytes > 0 {
                self.damage.add(VerifyFinding::Short { file: file.name.clone(), bytes });
                let last_lsn = file.frames.last().map_or(segment.first_lsn, |frame| frame.header.lsn);
                self.gaps.push(Gap { first_lsn: None, last_lsn: Some(last_lsn), bytes });
            }
            let owned = owned_frames(file, segment, segments.get(index + 1));
            for hole in &owned.holes {
                self.add_hole(segment, hole, segments.get(index + 1));
            }
            self.frames.extend(owned.frames);
            self.torn_tail = owned.torn_tail.or(self.torn_tail.take());
        }
        self.live = segments.iter().map(|segment| segment.file).collect();
        self.check_newest();
    }

    /// Checks that the newest segment exists. Only the file `store` shows that it is missing.
    fn check_newest(&mut self) {
        let known = self
            .scan
            .files
            .iter()
            .enumerate()
            .filter_map(live_segment)
            .map(|segment| segment.generation)
            .max();
        let newest = self.scan.newest.filter(|newest| newest.generation > known.unwrap_or(0));
        let Some(NewestSegment { generation, number, .. }) = newest else { return };
        self.damage.add(VerifyFinding::Missing { generation, file: Some(segment_name(number)) });
        let last = self.frames.last().map_or(0, |frame| frame.header.lsn);
        self.gaps.push(Gap { first_lsn: Some(last + 1), last_lsn: None, bytes: 0 });
    }

    /// The segments that own a range of LSNs, oldest first: see recovery. A segment with a damaged header is identified
    /// by its frames, unless it is the newest and contains no confirmed writes.
    fn live_segments(&mut self) -> Vec<LiveSegment> {
        let mut all: Vec<_> = self.scan.files.iter().enumerate().filter_map(live_segment).collect();
        all.sort_by_key(|segment| std::cmp::Reverse(segment.generation));
        let mut segments: Vec<LiveSegment> = Vec::new();
        for (index, segment) in all.into_iter().enumerate() {
            let file = &self.scan.files[segment.file];
            let named = self.scan.newest.is_some_and(|newest| newest.generation >= segment.generation);
            let confirmed =
                named || file.frames.iter().any(|frame| frame.header.durable_lsn >= segment.first_lsn);
            // Any later segment, even a damaged one, was started when this one was durable.
            if file.header == HeaderState::Missing && index == 0 && !confirmed {
                let (segment, lsn) = (file.name.clone(), segment.first_lsn);
                let (bytes, frames) = (file.used as u64, file.frames.len() as u64);
                self.torn_tail = Some(TornTail {
                    segment,
                    offset: 0,
                    bytes,
                    frames,
                    lsn,
                    durable_lsn: lsn.saturating_sub(1),
                });
            } else if segments.last().is_none_or(|newer| segment.first_lsn < newer.first_lsn) {
                segments.push(segment);
            }
        }
        segments.reverse();
        segments
    }

    /// The generation that recovery starts with, as recorded in the last frame that ended a group.
    fn oldest_needed(&self, segments: &[LiveSegment]) -> u64 {
        let recorded = |index: usize| {
            let segment = &segments[index];
            let owned = owned_frames(&self.scan.files[segment.file], segment, segments.get(index + 1));
            owned.frames.iter().rev().find(|frame| frame.header.last).map(|frame| frame.header.oldest)
        };
        (0..segments.len()).rev().find_map(recorded).unwrap_or(0)
    }

    fn add_hole(&mut self, segment: &LiveSegment, hole: &Hole, next: Option<&LiveSegment>) {
        let file = &self.scan.files[segment.file];
        let bytes = hole.end.unwrap_or(file.used).saturating_sub(hole.offset) as u64;
        let frames = hole.next_lsn - hole.first_lsn;
        if frames > 0 {
            let (first_lsn, last_lsn) = (Some(hole.first_lsn), Some(hole.next_lsn - 1));
            self.gaps.push(Gap { first_lsn, last_lsn, bytes });
        }
        let known = |generation: u64| {
            let mut segments = self.scan.files.iter().enumerate().filter_map(self::live_segment);
            segments.any(|segment| segment.generation == generation)
        };
        let missing = next.and_then(|next| next.previous).filter(|(generation, _)| !known(*generation));
        self.damage.add(if let (None, 0, Some((generation, number))) = (hole.end, bytes, missing) {
            VerifyFinding::Missing { generation, file: Some(segment_name(number)) }
        } else {
            let (file, offset) = (file.name.clone(), hole.offset as u64);
            VerifyFinding::Frames { file, offset, first_lsn: hole.first_lsn, frames }
        });
    }

    /// Passes every complete group with its frames to `visit`, in order. A group that `visit` cannot decode becomes a
    /// finding. Returns the numbers of complete and incomplete groups, and the ranges that could not be decoded.
    pub(super) fn groups(&mut self, disk: &dyn Disk, visit: &mut Visit<'_>) -> Result<Groups, Error> {
        let mut groups = Groups::default();
        let (mut open, mut body, mut cached) =
            (Vec::<FrameLocation>::new(), Vec::new(), (usize::MAX, Vec::new()));
        let (mut expected, mut behind_gap) = (None, false);
        for frame in &self.frames {
            if expected.is_some_and(|expected| expected != frame.header.lsn) {
                groups.broken += u64::from(!open.is_empty());
                groups.frames_unused += open.len() as u64;
                open.clear();
                behind_gap = true;
            }
            expected = Some(frame.header.lsn + 1);
            if frame.header.first {
                open.clear();
                body.clear();
            } else if open.is_empty() {
                // Before the first gap this is a group whose start was reclaimed.
                groups.broken += u64::from(behind_gap && frame.header.last);
                groups.frames_unused += u64::from(behind_gap);
                continue;
            }
            if cached.0 != frame.file {
                cached = (frame.file, read(disk, &self.scan.files[frame.file].name)?);
            }
            let content =
                cached.1.get(frame.offset..).and_then(|bytes| crate::frame::read(bytes, &self.scan.store));
            body.extend_from_slice(content.map_or(&[], |(_, body)| body));
            open.push(*frame);
            if !frame.header.last {
                continue;
            }
            groups.complete += 1;
            if let Err(Damaged(why)) = visit(&body, &open) {
                let FrameLocation { header, file, offset, .. } = open[0];
                let file = self.scan.files[file].name.clone();
                self.damage.add(VerifyFinding::Undecodable {
                    file,
                    offset: offset as u64,
                    lsn: header.lsn,
                    why,
                });
                groups.undecodable.push(Gap {
                    first_lsn: Some(header.lsn),
                    last_lsn: Some(frame.header.lsn),
                    bytes: (body.len() + open.len() * HEADER_BYTES) as u64,
                });
            }
            open.clear();
        }
        Ok(groups)
    }
}

/// Visits one complete group and its frames.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[FrameLocation]) -> Result<(), Damaged> + 'a;

/// The groups that the frames form.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) complete: u64,
    /// Groups with unreadable frames.
    pub(super) broken: u64,
    /// The readable frames of broken groups.
    pub(super) frames_unused: u64,
    pub(super) undecodable: Vec<Gap>,
}

/// A range of missing frames within one segment.
struct Hole {
    offset: usize,
    /// The offset of the next intact frame; none if there are no more in this segment.
    end: Option<usize>,
    first_lsn: u64,
    next_lsn: u64,
}

/// The frames that a segment has of the LSNs that it owns.
struct OwnedFrames {
    frames: Vec<FrameLocation>,
    holes: Vec<Hole>,
    torn_tail: Option<TornTail>,
}

/// Identifies a segment by its header or, if that is damaged, by its frames.
fn live_segment((index, file): (usize, &SegmentFile)) -> Option<LiveSegment> {
    match file.header {
        HeaderState::Ours(SegmentHeader { generation, first_lsn, previous, previous_number, .. }) => {
            let previous = (previous > 0).then_some((previous, previous_number));
            Some(LiveSegment { file: index, generation, first_lsn, previous })
        }
        HeaderState::Foreign => None,
        HeaderState::Missing => {
            let first = file.frames.first()?;
            // If it is not at the start of the segment, at least one frame is missing before it.
            let missing = u64::from(first.offset as u64 > DATA_OFFSET);
            let first_lsn = first.header.lsn.saturating_sub(missing).max(1);
            Some(LiveSegment { file: index, generation: first.header.generation, first_lsn, previous: None })
        }
    }
}

fn owned_frames(file: &SegmentFile, segment: &LiveSegment, next: Option<&LiveSegment>) -> OwnedFrames {
    let mut owned = OwnedFrames { frames: Vec::new(), holes: Vec::new(), torn_tail: None };
    let mut lsn = segment.first_lsn;
    let mut offset = usize::try_from(DATA_OFFSET).unwrap_or_default();
    let durable_seen = file.frames.iter().map(|frame| frame.header.durable_lsn).max().unwrap_or(0);
    let durable_lsn = durable_seen.max(segment.first_lsn.saturating_sub(1));
    let torn_tail = |offset: usize, lsn: u64, intact: &[FrameLocation]| {
        // An incomplete group is truncated too.
        let open = intact.iter().rev().take_while(|frame| !frame.header.last).count();
        let behind = file.frames.iter().filter(|frame| frame.offset >= offset).count();
        let bytes = file.used.saturating_sub(offset) as u64;
        let frames = (open + behind) as u64;
        Some(TornTail { segment: file.name.clone(), offset: offset as u64, bytes, frames, lsn, durable_lsn })
    };
    for (index, frame) in file.frames.iter().enumerate() {
        if next.is_some_and(|next| frame.header.lsn >= next.first_lsn) {
            break;
        }
        if frame.header.lsn < lsn {
            continue;
        }
        if frame.header.lsn > lsn || frame.offset != offset {
            // In the newest segment, only a later frame's durable LSN shows that the missing writes were confirmed.
            let confirmed = file.frames[index..].iter().any(|frame| frame.header.durable_lsn >= lsn);
            if next.is_none() && !confirmed {
                owned.torn_tail = torn_tail(offset, lsn, &owned.frames);
                return owned;
            }
            let end = Some(frame.offset);
            owned.holes.push(Hole { offset, end, first_lsn: lsn, next_lsn: frame.header.lsn });
        }
        owned.frames.push(*frame);
        lsn = frame.header.lsn + 1;
        offset = frame.offset + frame.bytes;
    }
    match next {
        Some(next) if lsn < next.first_lsn => {
            owned.holes.push(Hole { offset, end: None, first_lsn: lsn, next_lsn: next.first_lsn });
        }
        None if file.used > offset => owned.torn_tail = torn_tail(offset, lsn, &owned.frames),
        _ => {}
    }
    owned
}
