//! A sorted map for messages by number or by time. Insertions and removals are mostly in order, so entries are kept in
//! sorted runs: both ends are directly accessible, and everything between is found through a map of the runs. If the
//! ends were searched like the rest, a machine would run a fifth fewer lifecycles (`docs/reference/benchmarks.md`).

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, OccupiedEntry};

use super::arena::Slot;

const RUN_MAX: usize = 128;

type Run<K> = VecDeque<(K, Slot)>;

pub(super) struct Sorted<K> {
    /// Runs by a key that is not above any of their own entries and below all entries of the next run. No run is empty.
    runs: BTreeMap<K, Run<K>>,
    len: usize,
}

impl<K> Default for Sorted<K> {
    fn default() -> Self {
        Self { runs: BTreeMap::new(), len: 0 }
    }
}

impl<K: Copy + Ord> Sorted<K> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn first(&self) -> Option<(K, Slot)> {
        self.runs.first_key_value()?.1.front().copied()
    }

    pub(super) fn insert(&mut self, key: K, slot: Slot) {
        self.len += 1;
        if let Some(mut last) = self.runs.last_entry() {
            let run = last.get_mut();
            if run.len() < RUN_MAX && run.back().is_some_and(|(back, _)| *back < key) {
                run.push_back((key, slot));
                return;
            }
        }
        self.insert_within(key, slot);
    }

    fn insert_within(&mut self, key: K, slot: Slot) {
        let Some((_, run)) = self.runs.range_mut(..=key).next_back() else {
            let first = self.runs.first_entry().filter(|first| first.get().len() < RUN_MAX);
            let mut run = first.map_or_else(Run::new, OccupiedEntry::remove);
            run.push_front((key, slot));
            self.runs.insert(key, run);
            return;
        };
        if run.len() == RUN_MAX {
            let in_order = run.back().is_some_and(|(back, _)| *back < key);
            let rest = if in_order { Run::with_capacity(RUN_MAX) } else { run.split_off(RUN_MAX / 2) };
            let first = rest.front().map_or(key, |(first, _)| *first);
            self.runs.insert(first, rest);
            return self.insert_within(key, slot);
        }
        let at = run.partition_point(|(before, _)| *before < key);
        run.insert(at, (key, slot));
    }

    /// Removes a key, if present.
    pub(super) fn remove(&mut self, key: K) {
        if let Some(mut first) = self.runs.first_entry() {
            let run = first.get_mut();
            if run.front().is_some_and(|(front, _)| *front == key) {
                run.pop_front();
                self.len -= 1;
                if run.is_empty() {
                    first.remove();
                }
                return;
            }
        }
        self.remove_within(key);
    }

    fn remove_within(&mut self, key: K) {
        let Some((run_key, run)) = self.runs.range_mut(..=key).next_back() else { return };
        let Ok(at) = run.binary_search_by_key(&key, |(key, _)| *key) else { return };
        run.remove(at);
        self.len -= 1;
        if run.is_empty() {
            let run_key = *run_key;
            self.runs.remove(&run_key);
        }
    }
}

#[cfg(test)]
impl<K: Copy> Sorted<K> {
    pub(super) fn keys(&self) -> Vec<K> {
        self.runs.values().flatten().map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{any, prop, proptest};

    use super::{RUN_MAX, Sorted};
    use crate::machine::arena::Slot;

    proptest! {
        #[test]
        fn runs_behave_like_a_sorted_map(
            steps in prop::collection::vec((any::<bool>(), 0_u64..600), 1..2_000),
            appended in 0_u64..(3 * RUN_MAX as u64),
        ) {
            let (mut sorted, mut model) = (Sorted::default(), BTreeSet::new());
            for number in 200..200 + appended {
                sorted.insert(number, Slot::NONE);
                model.insert(number);
            }
            for (pop, number) in steps {
                let number = if pop { model.first().copied().unwrap_or(number) } else { number };
                if model.remove(&number) {
                    sorted.remove(number);
                } else {
                    sorted.insert(number, Slot::NONE);
                    model.insert(number);
                }
                assert_eq!(sorted.first().map(|(number, _)| number), model.first().copied());
                assert_eq!((sorted.len(), sorted.is_empty()), (model.len(), model.is_empty()));
            }
            assert_eq!(sorted.keys(), model.into_iter().collect::<Vec<_>>());
            assert!(sorted.runs.values().all(|run| !run.is_empty() && run.len() <= RUN_MAX));
        }
    }
}
