//! How often something happened in the last minute.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that are counted together.
const PIECE_SECONDS: u64 = 10;
/// Pieces that are remembered: a minute, of which the last piece has only begun.
const PIECES: u32 = 6;

/// Counts what happened in the last minute, a sixth of which may be missing. Never waits for anything.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Each piece with the number of its time in the upper half, and its count in the lower.
    pieces: [AtomicU64; PIECES as usize],
}

impl Recent {
    pub(super) fn add(&self, events: u64) {
        self.add_at(now(), events);
    }

    pub(super) fn count(&self) -> u64 {
        self.count_at(now())
    }

    fn add_at(&self, piece: u32, events: u64) {
        let place = &self.pieces[(piece % PIECES) as usize];
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let added = |word: u64| {
            let (of, count) = halves(word);
            let count = if of == piece { count } else { 0 };
            Some((u64::from(piece) << 32) | u64::from(count.saturating_add(events)))
        };
        // It is only counted: nothing else is read by what is found here.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    fn count_at(&self, piece: u32) -> u64 {
        let words = self.pieces.iter().map(|place| halves(place.load(Ordering::Relaxed)));
        let recent = words.filter(|(of, _)| piece.wrapping_sub(*of) < PIECES);
        recent.map(|(_, count)| u64::from(count)).sum()
    }
}

fn halves(word: u64) -> (u32, u32) {
    let upper = u32::try_from(word >> 32).unwrap_or_default();
    (upper, u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default())
}

/// The number of the present piece; the first is not 0, which is what an empty place says.
fn now() -> u32 {
    let pieces = oncebox_system::uptime().as_secs() / PIECE_SECONDS + u64::from(PIECES);
    u32::try_from(pieces).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn a_minute_is_remembered_and_no_more() {
        let recent = Recent::default();
        recent.add_at(10, 1);
        recent.add_at(10, 2);
        recent.add_at(12, 4);
        assert_eq!([9, 10, 12, 15, 16, 17, 18].map(|piece| recent.count_at(piece)), [0, 3, 7, 7, 4, 4, 0]);
        recent.add_at(16, 8);
        assert_eq!(recent.count_at(16), 12, "what it takes the place of is forgotten");
    }

    #[test]
    fn too_much_is_counted_as_much() {
        let recent = Recent::default();
        recent.add_at(7, u64::MAX);
        recent.add_at(7, 1);
        assert_eq!(recent.count_at(7), u64::from(u32::MAX));
    }
}
