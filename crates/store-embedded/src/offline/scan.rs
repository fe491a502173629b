//! Scans every segment file for its header and for all intact frames, at any offset.

use oncebox_core::{Error, ErrorKind};

use crate::disk::{Disk, read_all};
use crate::error::failed;
use crate::file_names::{STORE_FILE, segment_number};
use crate::format::unsupported;
use crate::frame::{self, ALIGNMENT, Header, StoreId};
use crate::identity;
use crate::manifest::NewestSegment;
use crate::segment::{DATA_OFFSET, SegmentHeader, other_version, read_header};

/// An intact frame and its location.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameLocation {
    pub(super) header: Header,
    /// The index of the file.
    pub(super) file: usize,
    pub(super) offset: usize,
    /// The size, header and padding included.
    pub(super) bytes: usize,
}

/// The header of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderState {
    Ours(SegmentHeader),
    /// The header of another store.
    Foreign,
    /// Blank or damaged.
    Missing,
}

impl HeaderState {
    /// The size of the file when its header was written; zero if unknown.
    pub(super) fn size(self) -> u64 {
        if let Self::Ours(header) = self { header.size } else { 0 }
    }
}

pub(super) struct SegmentFile {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) header: HeaderState,
    /// In order of LSN, all of one generation.
    pub(super) frames: Vec<FrameLocation>,
    /// From this offset on there are only zeros.
    pub(super) used: usize,
}

pub(super) struct Scan {
    pub(super) store: StoreId,
    /// Whether the file `store` is intact and contains this id.
    pub(super) identified: bool,
    /// The newest segment, as the file `store` names it.
    pub(super) newest: Option<NewestSegment>,
    pub(super) files: Vec<SegmentFile>,
    /// The next free file number.
    pub(super) name_next: u64,
}

impl Scan {
    pub(super) fn of(disk: &dyn Disk) -> Result<Self, Error> {
        let mut names = disk.names().map_err(|error| failed("listing the directory", error))?;
        names.sort();
        let recorded = identity::recorded(disk, &names)?;
        let has_store_file = identity::has_store_file(disk, &names)?;
        names.retain(|name| segment_number(name).is_some());
        if names.is_empty() && !has_store_file {
            return Err(Error::new(ErrorKind::Invalid, "there is no embedded store in this directory"));
        }
        let headers =
            names.iter().map(|name| read_segment_header(disk, name)).collect::<Result<Vec<_>, _>>()?;
        if recorded.is_none()
            && let Some(version) = other_version(disk, &names)?
        {
            return Err(unsupported(version));
        }
        let (store, identified) = identify(recorded, &headers, names.is_empty())?;
        let newest = if has_store_file { identity::newest(disk, &[STORE_FILE.to_owned()])? } else { None };
        // The file names a segment at the latest since the second one was started.
        let generations = headers.iter().flatten().map(|(_, header)| header.generation);
        let identified = identified && (newest.is_some() || generations.max().unwrap_or(0) <= 1);
        let mut files = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let header = match headers[index] {
                Some((id, header)) if id == store => HeaderState::Ours(header),
                Some(_) => HeaderState::Foreign,
                None => HeaderState::Missing,
            };
            let bytes = read(disk, name)?;
            let used = used(&bytes);
            let frames = SegmentBytes { bytes: &bytes, used, file: index }.frames(&store, header);
            files.push(SegmentFile { name: name.clone(), size: bytes.len() as u64, header, frames, used });
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

/// Reads the header of a segment of any store.
fn read_segment_header(disk: &dyn Disk, name: &str) -> Result<Option<(StoreId, SegmentHeader)>, Error> {
    Ok(SegmentHeader::decode(&read_header(disk, name)?))
}

/// The id of the store, and whether it comes from the file `store`. Otherwise it is the most frequent id in the segment
/// headers.
fn identify(
    recorded: Option<StoreId>,
    headers: &[Option<(StoreId, SegmentHeader)>],
    empty: bool,
) -> Result<(StoreId, bool), Error> {
    let ids = || headers.iter().flatten().map(|(id, _)| *id);
    if let Some(id) = recorded
        && (ids().next().is_none() || ids().any(|other| other == id))
    {
        return Ok((id, true));
    }
    // The id is durable before the first segment is created, so without segments no write was ever confirmed.
    if empty {
        return Ok((StoreId::default(), true));
    }
    let commonest = ids().max_by_key(|id| ids().filter(|other| other == id).count());
    let text = "the store's id is neither in the file `store` nor in any segment header, and without it no frame can be \
                read: restore both from a backup";
    commonest.map(|id| (id, false)).ok_or_else(|| Error::new(ErrorKind::Corrupt, text))
}

/// The offset after the last byte that is not zero.
fn used(bytes: &[u8]) -> usize {
    static ZEROS: [u8; 4_096] = [0; 4_096];
    let last = bytes.chunks(ZEROS.len()).rposition(|chunk| chunk != &ZEROS[..chunk.len()]);
    let end = bytes.len().min(last.map_or(0, |last| (last + 1) * ZEROS.len()));
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The bytes of a segment, to be scanned for frames.
struct SegmentBytes<'a> {
    bytes: &'a [u8],
    used: usize,
    file: usize,
}

impl SegmentBytes<'_> {
    /// All intact frames, also after damage. Their LSNs must increase, because a payload may look like a frame.
    fn frames(&self, store: &StoreId, header: HeaderState) -> Vec<FrameLocation> {
        let mut generation = match header {
            HeaderState::Ours(header) => Some(header.generation),
            HeaderState::Foreign | HeaderState::Missing => None,
        };
        let mut frames: Vec<FrameLocation> = Vec::new();
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
            frames.push(FrameLocation { header, file: self.file, offset, bytes });
            offset += bytes;
        }
        frames
    }
}
