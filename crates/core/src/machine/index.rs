//! A hash index from something in a row to the row's slot. Holds eight bytes per row; what is hashed stays in the row.

use hashbrown::HashTable;

use super::arena::Slot;

const SHARDS: usize = 256;

struct Entry {
    hash: u32,
    slot: Slot,
}

/// 256 small tables instead of a large one: each grows on its own, so that growing never takes long.
pub(super) struct Index {
    shards: Vec<HashTable<Entry>>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

/// The shard of a hash, and the part of the hash that is kept.
#[expect(clippy::cast_possible_truncation, reason = "a hash is cut into parts")]
fn split(hash: u64) -> (usize, u32) {
    ((hash >> 56) as usize, hash as u32)
}

/// What a table is given: the kept part spread over all bits, so that growing needs no look at the rows.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Index {
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let (shard, hash) = split(hash);
        let found = self.shards[shard].find(spread(hash), |entry| entry.hash == hash && is_it(entry.slot));
        found.map(|entry| entry.slot)
    }

    pub(super) fn insert(&mut self, hash: u64, slot: Slot) {
        let (shard, hash) = split(hash);
        self.shards[shard].insert_unique(spread(hash), Entry { hash, slot }, |entry| spread(entry.hash));
    }

    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        let (shard, hash) = split(hash);
        let found = self.shards[shard].find_entry(spread(hash), |entry| entry.slot == slot);
        found.ok().expect("what is removed was inserted").remove();
    }
}
