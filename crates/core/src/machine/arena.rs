//! An arena of rows addressed by slots. It grows in chunks, so that growth never moves existing rows.

use std::ops::{Index, IndexMut};

const CHUNK_ROWS: usize = 1 << 10;

/// The position of a row in an arena; reused once the row is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(u32);

impl Slot {
    /// No row.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }

    fn location(self) -> (usize, usize) {
        let index = self.0 as usize;
        (index / CHUNK_ROWS, index % CHUNK_ROWS)
    }
}

pub(super) struct Arena<T> {
    /// Chunks of fixed size, so that the index within a chunk needs no bounds check.
    chunks: Vec<Box<[Option<T>; CHUNK_ROWS]>>,
    free: Vec<Slot>,
    /// Slots that were ever used; those from here on are new.
    used: usize,
    rows: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), used: 0, rows: 0 }
    }
}

impl<T> Arena<T> {
    pub(super) fn len(&self) -> u64 {
        self.rows as u64
    }

    pub(super) fn insert(&mut self, row: T) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        let (chunk, index) = slot.location();
        self.chunks[chunk][index] = Some(row);
        self.rows += 1;
        slot
    }

    /// A slot that was never used.
    fn grow(&mut self) -> Slot {
        if self.used == self.chunks.len() * CHUNK_ROWS {
            let empty: Vec<Option<T>> = (0..CHUNK_ROWS).map(|_| None).collect();
            let Ok(chunk) = empty.try_into() else { unreachable!("a chunk has a fixed size") };
            self.chunks.push(chunk);
        }
        let slot = Slot(u32::try_from(self.used).expect("an arena holds less than 2^32 rows"));
        assert!(slot != Slot::NONE, "an arena holds less than 2^32 - 1 rows");
        self.used += 1;
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let (chunk, index) = slot.location();
        let row = &mut self.chunks[chunk][index];
        assert!(row.is_some(), "a slot is removed once");
        *row = None;
        self.rows -= 1;
        self.free.push(slot);
    }

    /// All rows, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        let rows = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).map(Slot).zip(rows).filter_map(|(slot, row)| Some((slot, row.as_ref()?)))
    }
}

impl<T> Index<Slot> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: Slot) -> &T {
        let (chunk, index) = slot.location();
        self.chunks[chunk][index].as_ref().expect("an index holds slots of rows that exist")
    }
}

impl<T> IndexMut<Slot> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        let (chunk, index) = slot.location();
        self.chunks[chunk][index].as_mut().expect("an index holds slots of rows that exist")
    }
}
