//! Where a scan over lanes goes on.

use super::Lane;

/// A scan over lanes, piece by piece and downwards, the highest topic and shard first. When it has reached the end it begins again, so
/// every lane comes up once in each round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The next piece is below this lane; none: at the beginning.
    below: Option<Lane>,
}

impl Cursor {
    /// The lane that the next piece is below; none: at the beginning.
    pub(crate) fn below(&self) -> Option<&Lane> {
        self.below.as_ref()
    }

    /// A piece was read, which had room for `size` lanes. Goes on below the last one that was kept; a piece that was not full was the
    /// last one of its round, if all of it was kept.
    pub(crate) fn advance(&mut self, piece: &[Lane], kept: usize, size: usize) {
        let is_whole = kept >= piece.len();
        if is_whole && piece.len() < size {
            self.below = None;
        } else if let Some(last) = piece[..kept.min(piece.len())].last() {
            self.below = Some(last.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::Topic;

    use super::{Cursor, Lane};

    fn lanes(names: &[&str]) -> Vec<Lane> {
        names.iter().map(|name| (Topic::new(*name).unwrap(), 0)).collect()
    }

    #[test]
    fn a_scan_goes_on_below_the_last_lane_and_begins_again_at_the_end() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.below(), None);
        cursor.advance(&lanes(&["d", "c"]), 2, 2);
        assert_eq!(cursor.below(), lanes(&["c"]).first());
        cursor.advance(&lanes(&["b"]), 1, 2);
        assert_eq!(cursor.below(), None, "that was the last piece");
        cursor.advance(&lanes(&[]), 0, 2);
        assert_eq!(cursor.below(), None);
    }

    #[test]
    fn a_lane_that_was_not_kept_comes_up_again() {
        let mut cursor = Cursor::default();
        cursor.advance(&lanes(&["d", "c", "b"]), 1, 3);
        assert_eq!(cursor.below(), lanes(&["d"]).first());
        cursor.advance(&lanes(&["c", "b"]), 0, 3);
        assert_eq!(cursor.below(), lanes(&["d"]).first(), "nothing was kept");
        cursor.advance(&lanes(&["c", "b"]), 1, 3);
        assert_eq!(cursor.below(), lanes(&["c"]).first(), "the round has not ended");
    }

    /// Whatever the sizes, a round shows each lane once.
    #[test]
    fn a_round_shows_every_lane_once() {
        let all: Vec<Lane> = (0..23).rev().map(|shard| (Topic::new("t").unwrap(), shard)).collect();
        for (size, room) in [(1, 1), (5, 5), (5, 2), (23, 23), (40, 7), (40, 40)] {
            let (mut cursor, mut seen) = (Cursor::default(), Vec::new());
            loop {
                let rest = all.iter().filter(|lane| cursor.below().is_none_or(|below| *lane < below));
                let piece: Vec<_> = rest.take(size).cloned().collect();
                let kept = piece.len().min(room);
                seen.extend_from_slice(&piece[..kept]);
                cursor.advance(&piece, kept, size);
                if cursor.below().is_none() || seen.len() > all.len() {
                    break;
                }
                if seen.len() == all.len() {
                    break;
                }
            }
            assert_eq!(seen, all, "pieces of {size}, room for {room}");
        }
    }
}
