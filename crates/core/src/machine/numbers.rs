//! Messages by number, for listings. Numbers are assigned in sequence, so they are stored in small dense pages.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::arena::Slot;
use crate::id::Number;
use crate::port::{Cursor, Direction};

const PAGE_NUMBERS: usize = 64;

struct Page {
    used: u32,
    slots: [Slot; PAGE_NUMBERS],
}

#[derive(Default)]
pub(super) struct Numbers(BTreeMap<u64, Box<Page>>);

/// The page of a number, and its index there.
#[expect(clippy::cast_possible_truncation, reason = "the index is below the size of a page")]
fn locate(number: Number) -> (u64, usize) {
    let size = PAGE_NUMBERS as u64;
    (number.0 / size, (number.0 % size) as usize)
}

/// The entries of a page, oldest first.
fn contents(page: u64, row: &Page) -> impl DoubleEndedIterator<Item = (Number, Slot)> {
    let first = page * PAGE_NUMBERS as u64;
    let slots = row.slots.iter().enumerate().filter(|(_, slot)| **slot != Slot::NONE);
    slots.map(move |(index, slot)| (Number(first + index as u64), *slot))
}

impl Numbers {
    pub(super) fn insert(&mut self, number: Number, slot: Slot) {
        let (page, index) = locate(number);
        let empty = || Box::new(Page { used: 0, slots: [Slot::NONE; PAGE_NUMBERS] });
        let page = self.0.entry(page).or_insert_with(empty);
        page.used += 1;
        page.slots[index] = slot;
    }

    pub(super) fn get(&self, number: Number) -> Option<Slot> {
        let (page, index) = locate(number);
        self.0.get(&page)?.slots[index].some()
    }

    pub(super) fn remove(&mut self, number: Number) {
        let (key, index) = locate(number);
        let page = self.0.get_mut(&key).expect("a removed number was inserted before");
        page.used -= 1;
        page.slots[index] = Slot::NONE;
        if page.used == 0 {
            self.0.remove(&key);
        }
    }

    /// All numbers after the cursor, in the given direction, with their messages.
    pub(super) fn after(
        &self,
        cursor: Option<Cursor>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (Number, Slot)> + '_> {
        let page = cursor.map_or(Unbounded, |Cursor(number)| Included(locate(number).0));
        match direction {
            Direction::OldestFirst => {
                let all = self.0.range((page, Unbounded)).flat_map(|(page, row)| contents(*page, row));
                Box::new(all.filter(move |(number, _)| cursor.is_none_or(|Cursor(last)| *number > last)))
            }
            Direction::NewestFirst => {
                let pages = self.0.range((Unbounded, page)).rev();
                let all = pages.flat_map(|(page, row)| contents(*page, row).rev());
                Box::new(all.filter(move |(number, _)| cursor.is_none_or(|Cursor(last)| *number < last)))
            }
        }
    }
}

/// The entries of a map by number after the cursor, in the given direction.
pub(super) fn entries_after(
    map: &BTreeMap<Number, Slot>,
    cursor: Option<Cursor>,
    direction: Direction,
) -> Box<dyn Iterator<Item = (Number, Slot)> + '_> {
    let after = cursor.map_or(Unbounded, |Cursor(number)| Excluded(number));
    let owned = |(number, slot): (&Number, &Slot)| (*number, *slot);
    match direction {
        Direction::OldestFirst => Box::new(map.range((after, Unbounded)).map(owned)),
        Direction::NewestFirst => Box::new(map.range((Unbounded, after)).rev().map(owned)),
    }
}
