//! Every segment's file with its header and every whole frame in it, wherever that lies.

use oncebox_core::{Error, Kind};

use crate::disk::Disk;
use crate::format::unsupported;
use crate::frame::{self, ALIGNMENT, Header, StoreId};
use crate::identity;
use crate::manifest::Newest;
use crate::recovery::failed;
use crate::segment::{DATA_OFFSET, SegmentHeader, other_version, read_all, read_header, segment_number};

/// A whole frame, and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) header: Header,
    /// Which of the files.
    pub(super) file: usize,
    pub(super) offset: usize,
    /// With its header and what fills it up.
    pub(super) bytes: usize,
}

/// What stands at the beginning of a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Ours(SegmentHeader),
    OfAnotherStore,
    /// Nothing, or damage.
    Missing,
}

impl Head {
    /// The bytes that the file had when its header was written; zero if nothing tells.
    pub(super) fn size(self) -> u64 {
        if let Self::Ours(header) = self { header.size } else { 0 }
    }
}

pub(super) struct SegmentFile {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) head: Head,
    /// In order of LSN, all of one generation.
    pub(super) frames: Vec<Spot>,
    /// Behind this offset there are only zeros.
    pub(super) used: usize,
}

pub(super) struct Survey {
    pub(super) store: StoreId,
    /// Whether the file `store` says so, and is whole.
    pub(super) identified: bool,
    /// The newest segment that was begun, as far as the file `store` tells.
    pub(super) newest: Option<Newest>,
    pub(super) files: Vec<SegmentFile>,
    /// A number that no file's name has.
    pub(super) name_next: u64,
}

impl Survey {
    pub(super) fn of(disk: &dyn Disk) -> Result<Self, Error> {
        let mut names = disk.names().map_err(|error| failed("listing the directory", error))?;
        names.sort();
        let recorded = identity::recorded(disk, &names)?;
        let there = identity::is_there(disk, &names)?;
        names.retain(|name| segment_number(name).is_some());
        if names.is_empty() && !there {
            return Err(Error::new(Kind::Invalid, "there is no embedded store in this directory"));
        }
        let heads = names.iter().map(|name| head(disk, name)).collect::<Result<Vec<_>, _>>()?;
        if recorded.is_none()
            && let Some(version) = other_version(disk, &names)?
        {
            return Err(unsupported(version));
        }
        let (store, identified) = identify(recorded, &heads, names.is_empty())?;
        let newest = if there { identity::newest(disk, &[identity::NAME.to_owned()])? } else { None };
        // It names a segment since the second one was begun, at the latest.
        let generations = heads.iter().flatten().map(|(_, header)| header.generation);
        let identified = identified && (newest.is_some() || generations.max().unwrap_or(0) <= 1);
        let mut files = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let head = match heads[index] {
                Some((id, header)) if id == store => Head::Ours(header),
                Some(_) => Head::OfAnotherStore,
                None => Head::Missing,
            };
            let bytes = read(disk, name)?;
            let used = used(&bytes);
            let frames = Search { bytes: &bytes, used, file: index }.frames(&store, head);
            files.push(SegmentFile { name: name.clone(), size: bytes.len() as u64, head, frames, used });
        }
        let name_next = names.iter().filter_map(|name| segment_number(name)).max().unwrap_or(0) + 1;
        let name_next = name_next.max(newest.map_or(0, |newest| newest.number.saturating_add(1)));
        Ok(Self { store, identified, newest, files, name_next })
    }
}

pub(super) fn read(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, Error> {
    let read = disk.open(name).and_then(|file| read_all(&*file));
    read.map_err(|error| failed("reading a segment", error))
}

/// The header of a segment, whichever store it belongs to.
fn head(disk: &dyn Disk, name: &str) -> Result<Option<(StoreId, SegmentHeader)>, Error> {
    Ok(SegmentHeader::decode(&read_header(disk, name)?))
}

/// Who the store is, and whether its file `store` says so. If that does not, the segments' headers do.
fn identify(
    recorded: Option<StoreId>,
    heads: &[Option<(StoreId, SegmentHeader)>],
    empty: bool,
) -> Result<(StoreId, bool), Error> {
    let ids = || heads.iter().flatten().map(|(id, _)| *id);
    if let Some(id) = recorded
        && (ids().next().is_none() || ids().any(|other| other == id))
    {
        return Ok((id, true));
    }
    // The id is durable before the first segment is made, so without segments nothing was ever answered.
    if empty {
        return Ok((StoreId::default(), true));
    }
    let commonest = ids().max_by_key(|id| ids().filter(|other| other == id).count());
    let text = "neither the file `store` nor any segment's header tells the store's id: \
                without it no frame can be read, bring both back from a backup";
    commonest.map(|id| (id, false)).ok_or_else(|| Error::new(Kind::Corrupt, text))
}

/// Behind this offset there are only zeros.
fn used(bytes: &[u8]) -> usize {
    static ZEROS: [u8; 4_096] = [0; 4_096];
    let last = bytes.chunks(ZEROS.len()).rposition(|chunk| chunk != &ZEROS[..chunk.len()]);
    let end = bytes.len().min(last.map_or(0, |last| (last + 1) * ZEROS.len()));
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// A segment's bytes, to be searched.
struct Search<'a> {
    bytes: &'a [u8],
    used: usize,
    file: usize,
}

impl Search<'_> {
    /// All whole frames, also behind damage. Each must follow on the one before: a payload may look like a frame.
    fn frames(&self, store: &StoreId, head: Head) -> Vec<Spot> {
        let mut generation = match head {
            Head::Ours(header) => Some(header.generation),
            Head::OfAnotherStore | Head::Missing => None,
        };
        let mut frames: Vec<Spot> = Vec::new();
        let mut offset = usize::try_from(DATA_OFFSET).unwrap_or_default();
        while offset < self.used {
            let found = frame::read(&self.bytes[offset..], store).filter(|(header, _)| {
                generation.is_none_or(|generation| header.generation == generation)
                    && frames.last().is_none_or(|last| header.lsn > last.header.lsn)
            });
            let Some((header, body)) = found else {
                offset += ALIGNMENT;
                continue;
            };
            generation = Some(header.generation);
            let bytes = frame::framed(body.len());
            frames.push(Spot { header, file: self.file, offset, bytes });
            offset += bytes;
        }
        frames
    }
}
