//! A hash index from a value in a row to the row's slot. Takes eight bytes per row; the hashed value stays in the row.

use super::arena::Slot;

/// Many small tables instead of a large one: each grows on its own, so that no single growth takes long.
const SHARDS: usize = 256;

/// The bits of a hash that select the position within a shard; the bits above select the shard.
const POSITION_BITS: u32 = 24;

#[derive(Clone, Copy)]
struct Cell {
    hash: u32,
    slot: Slot,
}

const EMPTY: Cell = Cell { hash: 0, slot: Slot::NONE };

/// A table with linear probing: a lookup mostly touches a single cache line. At least one cell is empty.
#[derive(Clone, Default)]
struct Shard {
    cells: Vec<Cell>,
    used: usize,
}

pub(super) struct Index {
    shards: Vec<Shard>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: vec![Shard::default(); SHARDS] }
    }
}

fn shard_of(hash: u32) -> usize {
    (hash >> POSITION_BITS) as usize
}

impl Shard {
    /// The cell at which probing for a hash starts. Positions follow the order of the hashes, so any number of cells
    /// works.
    fn probe_start(&self, hash: u32) -> usize {
        let position = u64::from(hash & ((1 << POSITION_BITS) - 1));
        ((position * self.cells.len() as u64) >> POSITION_BITS) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// The distance from one cell to another, going forward with wrap-around.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.cells.len() - from }
    }

    fn find(&self, hash: u32, is_match: impl Fn(Slot) -> bool) -> Option<usize> {
        if self.cells.is_empty() {
            return None;
        }
        let mut at = self.probe_start(hash);
        loop {
            let cell = self.cells[at];
            if cell.slot == Slot::NONE {
                return None;
            }
            if cell.hash == hash && is_match(cell.slot) {
                return Some(at);
            }
            at = self.next(at);
        }
    }

    fn insert(&mut self, new: Cell) {
        if (self.used + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        let mut at = self.probe_start(new.hash);
        while self.cells[at].slot != Slot::NONE {
            at = self.next(at);
        }
        self.cells[at] = new;
        self.used += 1;
    }

    fn grow(&mut self) {
        let cells = (self.cells.len() + self.cells.len() / 2).max(8);
        let before = std::mem::replace(self, Self { cells: vec![EMPTY; cells], used: 0 });
        for cell in before.cells.into_iter().filter(|cell| cell.slot != Slot::NONE) {
            self.insert(cell);
        }
    }

    /// Empties a cell, and moves back the cells after it that probing would no longer reach.
    fn remove(&mut self, at: usize) {
        let (mut hole, mut next) = (at, self.next(at));
        while self.cells[next].slot != Slot::NONE {
            let start = self.probe_start(self.cells[next].hash);
            if self.distance(start, next) >= self.distance(hole, next) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = self.next(next);
        }
        self.cells[hole] = EMPTY;
        self.used -= 1;
    }
}

impl Index {
    pub(super) fn find(&self, hash: u32, is_match: impl Fn(Slot) -> bool) -> Option<Slot> {
        let shard = &self.shards[shard_of(hash)];
        shard.find(hash, is_match).map(|at| shard.cells[at].slot)
    }

    pub(super) fn insert(&mut self, hash: u32, slot: Slot) {
        self.shards[shard_of(hash)].insert(Cell { hash, slot });
    }

    pub(super) fn remove(&mut self, hash: u32, slot: Slot) {
        let shard = &mut self.shards[shard_of(hash)];
        let at = shard.find(hash, |found| found == slot).expect("a removed slot was inserted before");
        shard.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, proptest};

    use super::Index;
    use crate::machine::arena::Arena;

    proptest! {
        /// Few hashes and positions, so that most collide and wrap around.
        #[test]
        fn an_index_finds_what_was_inserted_and_not_removed(
            steps in prop::collection::vec((any::<bool>(), 0_u32..3, 0_u32..4, 0_usize..64), 1..400),
        ) {
            let mut arena = Arena::default();
            let slots: Vec<_> = (0..64).map(|row| arena.insert(row)).collect();
            let (mut index, mut model) = (Index::default(), BTreeSet::new());
            for (insert, position, low, slot) in steps {
                let (hash, slot) = (position.wrapping_mul(0x007F_FFFE) | low, slots[slot]);
                match (insert, model.contains(&(hash, slot))) {
                    (true, false) => {
                        index.insert(hash, slot);
                        model.insert((hash, slot));
                    }
                    (false, true) => {
                        index.remove(hash, slot);
                        model.remove(&(hash, slot));
                    }
                    _ => {}
                }
                let found = index.find(hash, |found| found == slot);
                assert_eq!(found.is_some(), model.contains(&(hash, slot)));
            }
            for (hash, slot) in model {
                assert_eq!(index.find(hash, |found| found == slot), Some(slot));
            }
        }
    }
}
