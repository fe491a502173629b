//! Frames: the units of writing and checksumming. A group of effects is one frame or, if it is large, several.

use crate::codec::{Reader, Writer};

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 72;
/// Maximum size of a frame's body.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Frames start at multiples of this, so that a scan after damage has few offsets to try.
pub(crate) const ALIGNMENT: usize = 8;

const MAGIC: u32 = 0x3146_424F;
const CHECKED_BYTES: usize = HEADER_BYTES - CHECKSUM_BYTES;
const CHECKSUM_BYTES: usize = 16;

/// The key of a store's checksums: a frame of another store does not pass them.
pub(crate) type StoreId = [u8; 16];

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The frame's log sequence number: its position in the journal, counted from one without gaps.
    pub(crate) lsn: u64,
    /// Every frame up to this one was durable when this one was written.
    pub(crate) durable_lsn: u64,
    /// The generation of the segment.
    pub(crate) generation: u64,
    /// The generation of the segment that recovery starts with; valid only in a frame that ends a group.
    pub(crate) oldest: u64,
    /// Store time when the frame was written.
    pub(crate) time_ms: u64,
    /// The frame starts a group.
    pub(crate) first: bool,
    /// The frame ends a group.
    pub(crate) last: bool,
}

/// Size of a frame with a body of this length.
pub(crate) fn framed(body: usize) -> usize {
    (HEADER_BYTES + body).next_multiple_of(ALIGNMENT)
}

/// Appends a frame to `out`.
pub(crate) fn write(out: &mut Vec<u8>, store: &StoreId, header: &Header, body: &[u8]) {
    let start = out.len();
    let mut writer = Writer(std::mem::take(out));
    writer.u32(MAGIC);
    writer.u32(u32::try_from(body.len()).expect("a body is at most a mebibyte"));
    writer.u32(u32::from(header.first) | (u32::from(header.last) << 1));
    writer.u32(0);
    for word in [header.lsn, header.durable_lsn, header.generation, header.oldest, header.time_ms] {
        writer.u64(word);
    }
    *out = writer.0;
    let checksum = checksum(store, &out[start..], body);
    out.extend_from_slice(&checksum);
    out.extend_from_slice(body);
    out.resize(start + framed(body.len()), 0);
}

/// The frame at the start of `bytes`, if it is complete and undamaged.
pub(crate) fn read<'a>(bytes: &'a [u8], store: &StoreId) -> Option<(Header, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let mut reader = Reader(head);
    if reader.u32().ok()? != MAGIC {
        return None;
    }
    let length = reader.u32().ok()? as usize;
    let flags = reader.u32().ok()?;
    let reserved = reader.u32().ok()?;
    if length > BODY_BYTES_MAX || flags > 3 || reserved != 0 {
        return None;
    }
    let body = rest.get(..length)?;
    if checksum(store, &head[..CHECKED_BYTES], body) != head[CHECKED_BYTES..] {
        return None;
    }
    let mut word = || reader.u64().ok();
    let header = Header {
        lsn: word()?,
        durable_lsn: word()?,
        generation: word()?,
        oldest: word()?,
        time_ms: word()?,
        first: flags & 1 != 0,
        last: flags & 2 != 0,
    };
    Some((header, body))
}

fn checksum(store: &StoreId, head: &[u8], body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(store);
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(head);
    hasher.update(body);
    let mut short = [0; CHECKSUM_BYTES];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM_BYTES]);
    short
}

#[cfg(test)]
mod tests {
    use super::{Header, framed, read, write};

    const HEADER: Header =
        Header { lsn: 7, durable_lsn: 6, generation: 3, oldest: 2, time_ms: 99, first: true, last: false };

    #[test]
    fn a_frame_survives_a_round_trip_and_any_flipped_bit_is_detected() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[1; 16], &HEADER, b"body of a frame");
        assert_eq!(bytes.len(), framed(15));
        assert_eq!(read(&bytes, &[1; 16]), Some((HEADER, &b"body of a frame"[..])));
        assert_eq!(read(&bytes, &[2; 16]), None, "another store's");
        for bit in 0..(super::HEADER_BYTES + 15) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped, &[1; 16]), None, "bit {bit}");
        }
        for length in 0..super::HEADER_BYTES + 15 {
            assert_eq!(read(&bytes[..length], &[1; 16]), None, "cut to {length}");
        }
    }
}
