//! The newest segment, named outside of it: two places in the file `store`, written in turn, so that its loss is noticed.

use std::io;
use std::sync::Arc;

use crate::codec::{Reader, Writer};
use crate::disk::{Disk, DiskFile};
use crate::frame::StoreId;
use crate::identity;

/// Where the two places are: each in a sector of its own, so that one write never damages both.
const PLACES: [u64; 2] = [512, 1_024];
/// Bytes of the file `store`: whatever is written into it needs no room that the disk may not have.
pub(crate) const FILE_BYTES: usize = 1_536;
const CHECKED_BYTES: usize = 3 * 8;
const CHECKSUM_BYTES: usize = 16;

/// The newest segment that was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) generation: u64,
    /// The number in its file's name.
    pub(crate) number: u64,
    /// Which opening of the store began it.
    pub(crate) epoch: u64,
}

impl Newest {
    /// What the file `store` says; none if both places are blank or damaged.
    pub(crate) fn decode(file: &[u8], store: &StoreId) -> Option<Self> {
        let places = PLACES.map(|place| decode(file, place, store));
        places.into_iter().flatten().max_by_key(|newest| newest.generation)
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

fn decode(file: &[u8], place: u64, store: &StoreId) -> Option<Newest> {
    let bytes = file.get(usize::try_from(place).ok()?..)?.get(..CHECKED_BYTES + CHECKSUM_BYTES)?;
    let (checked, sum) = bytes.split_at(CHECKED_BYTES);
    if checksum(store, checked) != sum {
        return None;
    }
    let mut reader = Reader(checked);
    let mut word = || reader.u64().ok();
    Some(Newest { generation: word()?, number: word()?, epoch: word()? })
}

fn checksum(store: &StoreId, checked: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(store);
    let hash = blake3::keyed_hash(&key, checked);
    let mut short = [0; CHECKSUM_BYTES];
    short.copy_from_slice(&hash.as_bytes()[..CHECKSUM_BYTES]);
    short
}

/// The file `store`, open to be written.
pub(crate) struct Manifest {
    file: Arc<dyn DiskFile>,
    store: StoreId,
    /// Which of the two places is written next: not the one that tells the newest segment now.
    next: usize,
}

impl Manifest {
    pub(crate) fn open(disk: &dyn Disk, store: StoreId) -> io::Result<Self> {
        let file: Arc<dyn DiskFile> = disk.open(identity::NAME)?.into();
        let bytes = crate::segment::read_all(&*file)?;
        let generation = |place| decode(&bytes, place, &store).map_or(0, |newest| newest.generation);
        let next = usize::from(generation(PLACES[0]) > generation(PLACES[1]));
        Ok(Self { file, store, next })
    }

    /// Notes the newest segment, durably. Its header is durable already: a crash never leaves a name without a segment.
    pub(crate) fn note(&mut self, newest: Newest) -> io::Result<()> {
        self.file.write_at(PLACES[self.next], &newest.encode(&self.store))?;
        self.file.sync()?;
        self.next = 1 - self.next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE_BYTES, Newest, PLACES};

    #[test]
    fn the_newest_of_two_places_counts_and_any_flipped_bit_is_seen() {
        let (older, newer) =
            (Newest { generation: 7, number: 3, epoch: 2 }, Newest { generation: 9, number: 1, epoch: 4 });
        let mut file = vec![0; FILE_BYTES];
        assert_eq!(Newest::decode(&file, &[1; 16]), None);
        for (newest, place) in [(newer, PLACES[0]), (older, PLACES[1])] {
            let place = usize::try_from(place).unwrap();
            let bytes = newest.encode(&[1; 16]);
            file[place..place + bytes.len()].copy_from_slice(&bytes);
        }
        assert_eq!(Newest::decode(&file, &[1; 16]), Some(newer));
        assert_eq!(Newest::decode(&file, &[2; 16]), None, "another store's");
        let place = usize::try_from(PLACES[0]).unwrap() * 8;
        for bit in place..place + 40 * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Newest::decode(&flipped, &[1; 16]), Some(older), "bit {bit}");
        }
    }
}
