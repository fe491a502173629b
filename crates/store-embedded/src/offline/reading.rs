//! Which frames make up the journal, as recovery sees it, and what is missing from it. Goes on where recovery gives up.

use oncebox_core::Error;

use super::finding::{Damage, Finding};
use super::survey::{Head, SegmentFile, Spot, Survey, read};
use crate::codec::Damaged;
use crate::disk::Disk;
use crate::frame::HEADER_BYTES;
use crate::manifest::Newest;
use crate::recovery::Cut;
use crate::segment::{DATA_OFFSET, SegmentHeader, is_first_needed, segment_name};

/// Frames that should be there and are not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// None if nobody can tell.
    pub(super) first_lsn: Option<u64>,
    /// None if nobody can tell: everything behind the first one.
    pub(super) last_lsn: Option<u64>,
    /// What lies in their place.
    pub(super) bytes: u64,
}

/// A segment that owns a part of the journal.
#[derive(Debug, Clone, Copy)]
struct Owner {
    file: usize,
    generation: u64,
    first_lsn: u64,
    /// The generation of the segment before it and the number of its file, if the header tells.
    previous: Option<(u64, u64)>,
}

pub(super) struct Reading {
    pub(super) survey: Survey,
    /// The frames that count, in order of LSN.
    pub(super) frames: Vec<Spot>,
    pub(super) gaps: Vec<Gap>,
    pub(super) damage: Damage,
    /// Where the next opening will cut the journal.
    pub(super) torn: Option<Cut>,
    /// The files that the journal needs.
    pub(super) live: Vec<usize>,
    /// The generation that it begins with; zero if nothing tells.
    pub(super) oldest: u64,
}

impl Reading {
    pub(super) fn of(disk: &dyn Disk) -> Result<Self, Error> {
        let survey = Survey::of(disk)?;
        let mut reading = Self {
            survey,
            frames: Vec::new(),
            gaps: Vec::new(),
            damage: Damage::default(),
            torn: None,
            live: Vec::new(),
            oldest: 0,
        };
        if !reading.survey.identified {
            reading.damage.add(Finding::Identity);
        }
        for file in reading.survey.files.iter().filter(|file| file.head == Head::OfAnotherStore) {
            reading.damage.add(Finding::Foreign { file: file.name.clone() });
        }
        reading.order();
        Ok(reading)
    }

    fn order(&mut self) {
        let mut owners = self.owners();
        let oldest = self.oldest_needed(&owners);
        self.oldest = oldest;
        owners.retain(|owner| owner.generation >= oldest);
        let is_first = |first: &&Owner| is_first_needed(oldest, first.generation, first.first_lsn);
        if let Some(first) = owners.first().filter(|first| !is_first(first)) {
            let before = first.previous.map_or(first.generation - 1, |(generation, _)| generation);
            let generation = if oldest > 0 { oldest } else { before };
            let previous = first.previous.filter(|(previous, _)| *previous == generation);
            let file = previous.map(|(_, number)| segment_name(number));
            self.damage.add(Finding::Missing { generation, file });
            self.gaps.push(Gap { first_lsn: None, last_lsn: Some(first.first_lsn - 1), bytes: 0 });
        }
        for (index, owner) in owners.iter().enumerate() {
            let file = &self.survey.files[owner.file];
            if file.head == Head::Missing {
                let (file, generation) = (file.name.clone(), owner.generation);
                self.damage.add(Finding::Header { file, generation });
            }
            let bytes = file.head.size().saturating_sub(file.size);
            if bytes > 0 {
                self.damage.add(Finding::Short { file: file.name.clone(), bytes });
                let last_lsn = file.frames.last().map_or(owner.first_lsn, |spot| spot.header.lsn);
                self.gaps.push(Gap { first_lsn: None, last_lsn: Some(last_lsn), bytes });
            }
            let share = share(file, owner, owners.get(index + 1));
            for hole in &share.holes {
                self.note(owner, hole, owners.get(index + 1));
            }
            self.frames.extend(share.frames);
            self.torn = share.cut.or(self.torn.take());
        }
        self.live = owners.iter().map(|owner| owner.file).collect();
        self.check_newest();
    }

    /// The file `store` names the newest segment: nothing else would tell that it is gone.
    fn check_newest(&mut self) {
        let known =
            self.survey.files.iter().enumerate().filter_map(owner).map(|owner| owner.generation).max();
        let newest = self.survey.newest.filter(|newest| newest.generation > known.unwrap_or(0));
        let Some(Newest { generation, number, .. }) = newest else { return };
        self.damage.add(Finding::Missing { generation, file: Some(segment_name(number)) });
        let last = self.frames.last().map_or(0, |spot| spot.header.lsn);
        self.gaps.push(Gap { first_lsn: Some(last + 1), last_lsn: None, bytes: 0 });
    }

    /// The segments that own a part of the journal, oldest first: see recovery. A segment whose header is damaged is taken
    /// for what its frames say, unless it is the newest and nothing in it was answered.
    fn owners(&mut self) -> Vec<Owner> {
        let mut all: Vec<_> = self.survey.files.iter().enumerate().filter_map(owner).collect();
        all.sort_by_key(|owner| std::cmp::Reverse(owner.generation));
        let mut owners: Vec<Owner> = Vec::new();
        for (index, owner) in all.into_iter().enumerate() {
            let file = &self.survey.files[owner.file];
            let named = self.survey.newest.is_some_and(|newest| newest.generation >= owner.generation);
            let answered = named || file.frames.iter().any(|spot| spot.header.durable_lsn >= owner.first_lsn);
            // Any later segment, whatever became of it, was begun when this one was durable.
            if file.head == Head::Missing && index == 0 && !answered {
                let (segment, lsn) = (file.name.clone(), owner.first_lsn);
                let (bytes, frames) = (file.used as u64, file.frames.len() as u64);
                self.torn =
                    Some(Cut { segment, offset: 0, bytes, frames, lsn, durable_lsn: lsn.saturating_sub(1) });
            } else if owners.last().is_none_or(|newer| owner.first_lsn < newer.first_lsn) {
                owners.push(owner);
            }
        }
        owners.reverse();
        owners
    }

    /// The generation that recovery has to begin with: what the last frame that ended a group says.
    fn oldest_needed(&self, owners: &[Owner]) -> u64 {
        let says = |index: usize| {
            let owner = &owners[index];
            let share = share(&self.survey.files[owner.file], owner, owners.get(index + 1));
            share.frames.iter().rev().find(|spot| spot.header.last).map(|spot| spot.header.oldest)
        };
        (0..owners.len()).rev().find_map(says).unwrap_or(0)
    }

    fn note(&mut self, owner: &Owner, hole: &Hole, next: Option<&Owner>) {
        let file = &self.survey.files[owner.file];
        let bytes = hole.end.unwrap_or(file.used).saturating_sub(hole.offset) as u64;
        let frames = hole.next_lsn - hole.first_lsn;
        if frames > 0 {
            let (first_lsn, last_lsn) = (Some(hole.first_lsn), Some(hole.next_lsn - 1));
            self.gaps.push(Gap { first_lsn, last_lsn, bytes });
        }
        let known = |generation: u64| {
            let mut owners = self.survey.files.iter().enumerate().filter_map(self::owner);
            owners.any(|owner| owner.generation == generation)
        };
        let gone = next.and_then(|next| next.previous).filter(|(generation, _)| !known(*generation));
        self.damage.add(if let (None, 0, Some((generation, number))) = (hole.end, bytes, gone) {
            Finding::Missing { generation, file: Some(segment_name(number)) }
        } else {
            let (file, offset) = (file.name.clone(), hole.offset as u64);
            Finding::Frames { file, offset, first_lsn: hole.first_lsn, frames }
        });
    }

    /// Hands every whole group to `visit` in order, with its frames; what `visit` cannot understand is a finding, and
    /// answered as its frames. Answers also how many groups are there in part.
    pub(super) fn groups(&mut self, disk: &dyn Disk, visit: &mut Visit<'_>) -> Result<Groups, Error> {
        let mut groups = Groups::default();
        let (mut open, mut body, mut cached) = (Vec::<Spot>::new(), Vec::new(), (usize::MAX, Vec::new()));
        let (mut expected, mut behind_gap) = (None, false);
        for spot in &self.frames {
            if expected.is_some_and(|expected| expected != spot.header.lsn) {
                groups.broken += u64::from(!open.is_empty());
                groups.frames_unused += open.len() as u64;
                open.clear();
                behind_gap = true;
            }
            expected = Some(spot.header.lsn + 1);
            if spot.header.first {
                open.clear();
                body.clear();
            } else if open.is_empty() {
                // Before a gap this is a group whose beginning was reclaimed.
                groups.broken += u64::from(behind_gap && spot.header.last);
                groups.frames_unused += u64::from(behind_gap);
                continue;
            }
            if cached.0 != spot.file {
                cached = (spot.file, read(disk, &self.survey.files[spot.file].name)?);
            }
            let frame =
                cached.1.get(spot.offset..).and_then(|bytes| crate::frame::read(bytes, &self.survey.store));
            body.extend_from_slice(frame.map_or(&[], |(_, body)| body));
            open.push(*spot);
            if !spot.header.last {
                continue;
            }
            groups.whole += 1;
            if let Err(Damaged(why)) = visit(&body, &open) {
                let Spot { header, file, offset, .. } = open[0];
                let file = self.survey.files[file].name.clone();
                self.damage.add(Finding::Undecodable { file, offset: offset as u64, lsn: header.lsn, why });
                groups.undecodable.push(Gap {
                    first_lsn: Some(header.lsn),
                    last_lsn: Some(spot.header.lsn),
                    bytes: (body.len() + open.len() * HEADER_BYTES) as u64,
                });
            }
            open.clear();
        }
        Ok(groups)
    }
}

/// Takes one whole group, and its frames.
pub(super) type Visit<'a> = dyn FnMut(&[u8], &[Spot]) -> Result<(), Damaged> + 'a;

/// How the frames went together.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) whole: u64,
    /// Groups of which only some frames can be read.
    pub(super) broken: u64,
    /// Their frames.
    pub(super) frames_unused: u64,
    pub(super) undecodable: Vec<Gap>,
}

/// A place where frames are missing within one segment's share.
struct Hole {
    offset: usize,
    /// Where the next whole frame begins; none if there is no more in this segment.
    end: Option<usize>,
    first_lsn: u64,
    next_lsn: u64,
}

/// What a segment has of its part of the journal.
struct Share {
    frames: Vec<Spot>,
    holes: Vec<Hole>,
    cut: Option<Cut>,
}

/// What a segment is by its header or, if that is damaged, by its frames.
fn owner((index, file): (usize, &SegmentFile)) -> Option<Owner> {
    match file.head {
        Head::Ours(SegmentHeader { generation, first_lsn, previous, previous_number, .. }) => {
            let previous = (previous > 0).then_some((previous, previous_number));
            Some(Owner { file: index, generation, first_lsn, previous })
        }
        Head::OfAnotherStore => None,
        Head::Missing => {
            let first = file.frames.first()?;
            // If it is not at the beginning, at least one frame is missing before it.
            let missing = u64::from(first.offset as u64 > DATA_OFFSET);
            let first_lsn = first.header.lsn.saturating_sub(missing).max(1);
            Some(Owner { file: index, generation: first.header.generation, first_lsn, previous: None })
        }
    }
}

fn share(file: &SegmentFile, owner: &Owner, next: Option<&Owner>) -> Share {
    let mut share = Share { frames: Vec::new(), holes: Vec::new(), cut: None };
    let mut lsn = owner.first_lsn;
    let mut offset = usize::try_from(DATA_OFFSET).unwrap_or_default();
    let vouched = file.frames.iter().map(|spot| spot.header.durable_lsn).max().unwrap_or(0);
    let durable_lsn = vouched.max(owner.first_lsn.saturating_sub(1));
    let place = |offset: usize, lsn: u64, whole: &[Spot]| {
        // A group that has begun and does not end goes with what is cut.
        let open = whole.iter().rev().take_while(|spot| !spot.header.last).count();
        let behind = file.frames.iter().filter(|spot| spot.offset >= offset).count();
        let bytes = file.used.saturating_sub(offset) as u64;
        let frames = (open + behind) as u64;
        Some(Cut { segment: file.name.clone(), offset: offset as u64, bytes, frames, lsn, durable_lsn })
    };
    for (index, spot) in file.frames.iter().enumerate() {
        if next.is_some_and(|next| spot.header.lsn >= next.first_lsn) {
            break;
        }
        if spot.header.lsn < lsn {
            continue;
        }
        if spot.header.lsn > lsn || spot.offset != offset {
            // In the newest segment only a frame that says so shows that what is missing was answered.
            let answered = file.frames[index..].iter().any(|spot| spot.header.durable_lsn >= lsn);
            if next.is_none() && !answered {
                share.cut = place(offset, lsn, &share.frames);
                return share;
            }
            let end = Some(spot.offset);
            share.holes.push(Hole { offset, end, first_lsn: lsn, next_lsn: spot.header.lsn });
        }
        share.frames.push(*spot);
        lsn = spot.header.lsn + 1;
        offset = spot.offset + spot.bytes;
    }
    match next {
        Some(next) if lsn < next.first_lsn => {
            share.holes.push(Hole { offset, end: None, first_lsn: lsn, next_lsn: next.first_lsn });
        }
        None if file.used > offset => share.cut = place(offset, lsn, &share.frames),
        _ => {}
    }
    share
}
