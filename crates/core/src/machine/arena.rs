//! Slots for rows. Grows in chunks, so that no growth ever moves the rows that are there.

use std::ops::{Index, IndexMut};

const CHUNK_ROWS: usize = 1 << 10;

/// The place of a row in an arena; reused once the row is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u32);

impl Slot {
    /// No row.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }

    fn place(self) -> (usize, usize) {
        let index = self.0 as usize;
        (index / CHUNK_ROWS, index % CHUNK_ROWS)
    }
}

pub(super) struct Arena<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<Slot>,
    rows: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), rows: 0 }
    }
}

impl<T> Arena<T> {
    pub(super) fn len(&self) -> u64 {
        self.rows as u64
    }

    pub(super) fn insert(&mut self, row: T) -> Slot {
        self.rows += 1;
        if let Some(slot) = self.free.pop() {
            let (chunk, index) = slot.place();
            self.chunks[chunk][index] = Some(row);
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ROWS) {
            self.chunks.push(Vec::with_capacity(CHUNK_ROWS));
        }
        let chunks = self.chunks.len();
        let last = self.chunks.last_mut().expect("a chunk with room was just ensured");
        last.push(Some(row));
        let index = (chunks - 1) * CHUNK_ROWS + last.len() - 1;
        let slot = Slot(u32::try_from(index).expect("an arena holds less than 2^32 rows"));
        assert!(slot != Slot::NONE, "an arena holds less than 2^32 - 1 rows");
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) -> T {
        let (chunk, index) = slot.place();
        let row = self.chunks[chunk][index].take().expect("a slot is removed once");
        self.rows -= 1;
        self.free.push(slot);
        row
    }

    /// All rows, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        let rows = self.chunks.iter().flatten();
        (0..).map(Slot).zip(rows).filter_map(|(slot, row)| Some((slot, row.as_ref()?)))
    }
}

impl<T> Index<Slot> for Arena<T> {
    type Output = T;

    fn index(&self, slot: Slot) -> &T {
        let (chunk, index) = slot.place();
        self.chunks[chunk][index].as_ref().expect("an index holds slots of rows that exist")
    }
}

impl<T> IndexMut<Slot> for Arena<T> {
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        let (chunk, index) = slot.place();
        self.chunks[chunk][index].as_mut().expect("an index holds slots of rows that exist")
    }
}
