//! Segments: files of a fixed size that are written from front to back, and the header that describes their content.

use std::io;
use std::sync::Arc;

use oncebox_core::Error;

use crate::bases::Bases;
use crate::codec::{Reader, Writer};
use crate::disk::{Disk, DiskFile, read_all};
use crate::error::failed;
use crate::file_names::segment_number;
use crate::format::{self, MAGIC};
use crate::frame::{self, ALIGNMENT, Header, StoreId};

/// Offset of the first frame.
pub(crate) const DATA_OFFSET: u64 = 128;

const CHECKSUM_BYTES: usize = 16;

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentHeader {
    pub(crate) generation: u64,
    /// The LSN of its first frame.
    pub(crate) first_lsn: u64,
    /// The epoch (open of the store) that started it.
    pub(crate) epoch: u64,
    /// Size of the file in bytes: a shorter file has lost its end.
    pub(crate) size: u64,
    /// The generation of the previous segment; zero if this is the first.
    pub(crate) previous: u64,
    /// The number in the file name of the previous segment.
    pub(crate) previous_number: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut writer = Writer(MAGIC.to_vec());
        writer.0.extend_from_slice(store);
        let Self { generation, first_lsn, epoch, size, previous, previous_number } = *self;
        for word in [generation, first_lsn, epoch, size, previous, previous_number] {
            writer.u64(word);
        }
        let checksum = blake3::hash(&writer.0);
        writer.0.extend_from_slice(&checksum.as_bytes()[..CHECKSUM_BYTES]);
        writer.0
    }

    /// The header of a segment and the id of its store; none if the bytes are not a valid header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(StoreId, Self)> {
        let length = MAGIC.len() + size_of::<StoreId>() + 6 * 8;
        let (checked, checksum) = bytes.get(..length + CHECKSUM_BYTES)?.split_at(length);
        if blake3::hash(checked).as_bytes()[..CHECKSUM_BYTES] != *checksum {
            return None;
        }
        let (store, rest) = checked.strip_prefix(MAGIC)?.split_first_chunk()?;
        let mut reader = Reader(rest);
        let header = Self {
            generation: reader.u64().ok()?,
            first_lsn: reader.u64().ok()?,
            epoch: reader.u64().ok()?,
            size: reader.u64().ok()?,
            previous: reader.u64().ok()?,
            previous_number: reader.u64().ok()?,
        };
        Some((*store, header))
    }
}

/// Whether no segment is missing before one with this generation and first LSN, if the frames of the journal name
/// `oldest` as the oldest segment needed. If no frame names one (zero), no segment was ever dropped: a segment is dropped
/// only when a durable frame names a newer one.
pub(crate) fn is_first_needed(oldest: u64, generation: u64, first_lsn: u64) -> bool {
    if oldest > 0 { generation <= oldest } else { first_lsn == 1 }
}

/// A segment file for reuse. In `Journal::free` it is durable and filled with zeros, so that writing into it needs no
/// more disk space.
pub(crate) struct FreeSegment {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
}

/// A live segment: being written, or kept until it is reclaimed.
pub(crate) struct Segment {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) header: SegmentHeader,
    /// Offset of the next frame.
    pub(crate) end: u64,
    /// What is whole in the groups that start here; later entries build on it.
    pub(crate) bases: Bases,
}

impl Segment {
    /// The file for reuse: nothing in it is needed any more.
    pub(crate) fn into_free(self) -> FreeSegment {
        FreeSegment { name: self.name, file: self.file, size: self.header.size }
    }

    /// Generation and file number, as the header of the next segment refers to it.
    pub(crate) fn id(&self) -> (u64, u64) {
        (self.header.generation, segment_number(&self.name).unwrap_or_default())
    }

    pub(crate) fn space(&self) -> u64 {
        self.header.size.saturating_sub(self.end)
    }

    /// Reads the whole file.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&*self.file)
    }

    /// Overwrites everything after the last frame with zeros, durably.
    pub(crate) fn wipe_tail(&self) -> io::Result<()> {
        let bytes = self.read()?;
        let end = usize::try_from(self.end).unwrap_or(usize::MAX).min(bytes.len());
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used > end {
            self.file.write_at(self.end, &vec![0; used - end])?;
            self.file.sync()?;
        }
        Ok(())
    }

    /// Rewrites all frames that no frame of this segment declares durable, and syncs them.
    ///
    /// That they can be read does not prove that they are on disk: after a failed sync, the operating system may keep
    /// pages that it could not write as if they were clean, and a later sync does not write them again.
    pub(crate) fn rewrite_unsynced(&self, store: &StoreId) -> io::Result<()> {
        let bytes = self.read()?;
        let end = usize::try_from(self.end).unwrap_or(usize::MAX).min(bytes.len());
        let mut frames = Frames::new(&bytes[..end], store, self.header.generation);
        let (mut durable_lsn, mut places) = (0, Vec::new());
        let mut place = frames.offset;
        while let Some(Frame { header, .. }) = frames.next() {
            durable_lsn = durable_lsn.max(header.durable_lsn);
            places.push((header.lsn, place));
            place = frames.offset;
        }
        let unsynced = places.iter().find(|(lsn, _)| *lsn > durable_lsn).map_or(end, |(_, place)| *place);
        // Until a frame of this segment is durable, its header may not be durable either.
        let start = if durable_lsn < self.header.first_lsn { 0 } else { unsynced };
        self.file.write_at(start as u64, &bytes[start..end])?;
        self.file.sync()
    }
}

/// Reads the bytes of a segment's header; fewer if the file is shorter.
pub(crate) fn read_header(disk: &dyn Disk, name: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; usize::try_from(DATA_OFFSET).unwrap_or_default()];
    let read = disk.open(name).and_then(|file| file.read_at(0, &mut bytes));
    bytes.truncate(read.map_err(|error| failed("reading a segment", error))?);
    Ok(bytes)
}

/// Whether the header of a segment among these files is intact and of this version.
pub(crate) fn any_of_this_version(disk: &dyn Disk, names: &[String]) -> Result<bool, Error> {
    for name in names.iter().filter(|name| segment_number(name).is_some()) {
        if SegmentHeader::decode(&read_header(disk, name)?).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The format version of the segments among these files if another version of Oncebox wrote them; none if any is of
/// this version.
pub(crate) fn other_version(disk: &dyn Disk, names: &[String]) -> Result<Option<u8>, Error> {
    if any_of_this_version(disk, names)? {
        return Ok(None);
    }
    let is_intact = |bytes: &[u8]| SegmentHeader::decode(bytes).is_some();
    for name in names.iter().filter(|name| segment_number(name).is_some()) {
        let other = format::other_version(&read_header(disk, name)?, is_intact);
        if other.is_some() {
            return Ok(other);
        }
    }
    Ok(None)
}

/// Every undamaged frame, at any offset and of any generation.
pub(crate) fn scan_frames(bytes: &[u8], store: &StoreId) -> impl Iterator<Item = Header> {
    let places = (0..bytes.len()).step_by(ALIGNMENT);
    places.filter_map(|place| frame::read(&bytes[place..], store)).map(|(header, _)| header)
}

/// A frame in a segment's bytes.
pub(crate) struct Frame<'a> {
    pub(crate) header: Header,
    pub(crate) body: &'a [u8],
}

/// Iterates over the frames of one segment, up to the first that is missing or damaged.
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    store: &'a StoreId,
    generation: u64,
    pub(crate) offset: usize,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8], store: &'a StoreId, generation: u64) -> Self {
        Self { bytes, store, generation, offset: usize::try_from(DATA_OFFSET).unwrap_or_default() }
    }

    /// Every undamaged frame of this generation at or after the current offset: shows whether frames follow damage.
    pub(crate) fn scan_ahead(&self) -> impl Iterator<Item = Header> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        scan_frames(rest, self.store).filter(|header| header.generation == self.generation)
    }

    /// Bytes from the current offset to the last byte that is not zero.
    pub(crate) fn bytes_left(&self) -> u64 {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
    }

    fn at(&self, offset: usize) -> Option<Frame<'a>> {
        let (header, body) = frame::read(self.bytes.get(offset..)?, self.store)?;
        (header.generation == self.generation).then_some(Frame { header, body })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        let found = self.at(self.offset)?;
        self.offset += frame::framed(found.body.len());
        Some(found)
    }
}
