//! The manifest in the file `store`: names the newest segment, so that its loss is noticed. Two slots are written in
//! turn.

use std::io;
use std::sync::Arc;

use crate::codec::{Reader, Writer};
use crate::disk::{Disk, DiskFile, read_all};
use crate::file_names::STORE_FILE;
use crate::frame::StoreId;

/// Offsets of the two slots: each in its own sector, so that one write never damages both.
const SLOTS: [u64; 2] = [512, 1_024];
/// Size of the file `store`, fully allocated when it is created, so that later writes need no more disk space.
pub(crate) const FILE_BYTES: usize = 1_536;
const CHECKED_BYTES: usize = 3 * 8;
const CHECKSUM_BYTES: usize = 16;

/// The newest segment that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewestSegment {
    pub(crate) generation: u64,
    /// The number in its file name.
    pub(crate) number: u64,
    /// The epoch (open of the store) that started it.
    pub(crate) epoch: u64,
}

impl NewestSegment {
    /// Reads the newest valid slot; none if both slots are blank or damaged.
    pub(crate) fn decode(file: &[u8], store: &StoreId) -> Option<Self> {
        let slots = SLOTS.map(|slot| decode(file, slot, store));
        slots.into_iter().flatten().max_by_key(|newest| newest.generation)
    }

    fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut writer = Writer::default();
        for word in [self.generation, self.number, self.epoch] {
            writer.u64(word);
        }
        let checksum = checksum(store, &writer.0);
        writer.0.extend_from_slice(&checksum);
        writer.0
    }
}

fn decode(file: &[u8], slot: u64, store: &StoreId) -> Option<NewestSegment> {
    let bytes = file.get(usize::try_from(slot).ok()?..)?.get(..CHECKED_BYTES + CHECKSUM_BYTES)?;
    let (checked, sum) = bytes.split_at(CHECKED_BYTES);
    if checksum(store, checked) != sum {
        return None;
    }
    let mut reader = Reader(checked);
    let mut word = || reader.u64().ok();
    Some(NewestSegment { generation: word()?, number: word()?, epoch: word()? })
}

fn checksum(store: &StoreId, checked: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(store);
    let hash = blake3::keyed_hash(&key, checked);
    let mut short = [0; CHECKSUM_BYTES];
    short.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
    short
}

/// The file `store`, open for writing.
pub(crate) struct Manifest {
    file: Arc<dyn DiskFile>,
    store: StoreId,
    /// The slot that is written next: not the one that names the newest segment now.
    next: usize,
}

impl Manifest {
    pub(crate) fn open(disk: &dyn Disk, store: StoreId) -> io::Result<Self> {
        let file: Arc<dyn DiskFile> = disk.open(STORE_FILE)?.into();
        let bytes = read_all(&*file)?;
        let generation = |slot| decode(&bytes, slot, &store).map_or(0, |newest| newest.generation);
        let next = usize::from(generation(SLOTS[0]) > generation(SLOTS[1]));
        Ok(Self { file, store, next })
    }

    /// Records the newest segment, durably. Its header must be durable already, so that a crash never leaves a name
    /// without a segment.
    pub(crate) fn note(&mut self, newest: NewestSegment) -> io::Result<()> {
        self.file.write_at(SLOTS[self.next], &newest.encode(&self.store))?;
        self.file.sync()?;
        self.next = 1 - self.next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES, NewestSegment, SLOTS};

    #[test]
    fn the_newer_slot_wins_and_any_flipped_bit_is_detected() {
        let (older, newer) = (
            NewestSegment { generation: 7, number: 3, epoch: 2 },
            NewestSegment { generation: 9, number: 1, epoch: 4 },
        );
        let mut file = vec![0; FILE_BYTES];
        assert_eq!(NewestSegment::decode(&file, &[1; 16]), None);
        for (newest, slot) in [(newer, SLOTS[0]), (older, SLOTS[1])] {
            let slot = usize::try_from(slot).unwrap();
            let bytes = newest.encode(&[1; 16]);
            file[slot..slot + bytes.len()].copy_from_slice(&bytes);
        }
        assert_eq!(NewestSegment::decode(&file, &[1; 16]), Some(newer));
        assert_eq!(NewestSegment::decode(&file, &[2; 16]), None, "another store's");
        let slot = usize::try_from(SLOTS[0]).unwrap() * 8;
        for bit in slot..slot + 40 * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(NewestSegment::decode(&flipped, &[1; 16]), Some(older), "bit {bit}");
        }
    }
}
