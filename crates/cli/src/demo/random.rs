//! A seeded random number generator.

/// `SplitMix64`: small, and good enough for generated data.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// A random index into a list of this length, which must not be zero.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).unwrap_or_default()
    }

    pub(super) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    /// True with a probability of `share` percent.
    pub(super) fn percent(&mut self, share: u64) -> bool {
        self.next() % 100 < share
    }

    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.index(last + 1);
            list.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_generates_the_same_numbers() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            let mut list = [1, 2, 3, 4, 5, 6, 7, 8];
            random.shuffle(&mut list);
            (random.between(10, 20), list)
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((10..=20).contains(&draw(7).0));
    }
}
