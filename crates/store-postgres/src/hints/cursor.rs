//! The position of a scan over lanes.

use super::Lane;

/// A scan over lanes in batches, in descending order of topic and shard. It wraps around at the end, so every lane is
/// scanned once per round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScanCursor {
    /// The next batch is below this lane; `None`: at the beginning.
    below: Option<Lane>,
}

impl ScanCursor {
    /// The lane below which the next batch starts; `None`: at the beginning.
    pub(crate) fn below(&self) -> Option<&Lane> {
        self.below.as_ref()
    }

    /// Advances after a batch of at most `size` lanes, of which the first `kept` were kept. Continues below the last
    /// lane that was kept; a batch that was not full and was kept completely ends the round.
    pub(crate) fn advance(&mut self, batch: &[Lane], kept: usize, size: usize) {
        let is_whole = kept >= batch.len();
        if is_whole && batch.len() < size {
            self.below = None;
        } else if let Some(last) = batch[..kept.min(batch.len())].last() {
            self.below = Some(last.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::Topic;

    use super::{Lane, ScanCursor};

    fn lanes(names: &[&str]) -> Vec<Lane> {
        names.iter().map(|name| (Topic::new(*name).unwrap(), 0)).collect()
    }

    #[test]
    fn a_scan_continues_below_the_last_lane_and_wraps_around() {
        let mut cursor = ScanCursor::default();
        assert_eq!(cursor.below(), None);
        cursor.advance(&lanes(&["d", "c"]), 2, 2);
        assert_eq!(cursor.below(), lanes(&["c"]).first());
        cursor.advance(&lanes(&["b"]), 1, 2);
        assert_eq!(cursor.below(), None, "that was the last batch");
        cursor.advance(&lanes(&[]), 0, 2);
        assert_eq!(cursor.below(), None);
    }

    #[test]
    fn a_lane_that_was_not_kept_is_scanned_again() {
        let mut cursor = ScanCursor::default();
        cursor.advance(&lanes(&["d", "c", "b"]), 1, 3);
        assert_eq!(cursor.below(), lanes(&["d"]).first());
        cursor.advance(&lanes(&["c", "b"]), 0, 3);
        assert_eq!(cursor.below(), lanes(&["d"]).first(), "nothing was kept");
        cursor.advance(&lanes(&["c", "b"]), 1, 3);
        assert_eq!(cursor.below(), lanes(&["c"]).first(), "the round has not ended");
    }

    /// A round returns each lane once, whatever the batch sizes.
    #[test]
    fn a_round_returns_every_lane_once() {
        let all: Vec<Lane> = (0..23).rev().map(|shard| (Topic::new("t").unwrap(), shard)).collect();
        for (size, kept_max) in [(1, 1), (5, 5), (5, 2), (23, 23), (40, 7), (40, 40)] {
            let (mut cursor, mut seen) = (ScanCursor::default(), Vec::new());
            loop {
                let rest = all.iter().filter(|lane| cursor.below().is_none_or(|below| *lane < below));
                let batch: Vec<_> = rest.take(size).cloned().collect();
                let kept = batch.len().min(kept_max);
                seen.extend_from_slice(&batch[..kept]);
                cursor.advance(&batch, kept, size);
                if cursor.below().is_none() || seen.len() > all.len() {
                    break;
                }
                if seen.len() == all.len() {
                    break;
                }
            }
            assert_eq!(seen, all, "batches of {size}, {kept_max} kept");
        }
    }
}
