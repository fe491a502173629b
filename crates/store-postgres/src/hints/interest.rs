//! One interest: the lanes that claims of some topics take turns in, and when all lanes are scanned for others.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::{Cursor, Lane};

/// Lanes that one interest remembers, at most. The others are found again when the scan comes to them.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// Lanes that one scan reads, at most.
pub(crate) const SCAN_LANES: usize = 256;
/// So many claims are served between two scans, at most: what another process put into a lane waits no longer for its first turn.
const CLAIMS_PER_SCAN: u32 = 8;
/// So late is a scan at the latest, however few claims there are.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// A scan that takes longer, because the server has to pass by much that it may not remove yet, is made only once a second.
const QUICK_SCAN: Duration = Duration::from_millis(50);

/// What claims of the same topics know. Full, stale or empty it costs queries; the tables decide what there is.
#[derive(Default)]
pub(crate) struct Interest {
    /// Whose turn is next comes first.
    queue: VecDeque<Lane>,
    known: HashSet<Lane>,
    cursor: Cursor,
    /// There are more lanes than the queue takes: whoever had its turn leaves it, and the scan brings the next ones.
    overflowing: bool,
    claims: u32,
    scanned: Option<Scanned>,
    /// Whose turn is first after the first scan. An interest that is forgotten again and again must not always begin with the same lane.
    seed: usize,
}

/// The last scan.
#[derive(Clone, Copy)]
struct Scanned {
    at: Duration,
    took: Duration,
}

impl Interest {
    /// One that begins with any lane; each seed with another one.
    pub(crate) fn new(seed: usize) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Counts a claim, and tells whether lanes are scanned before it.
    pub(crate) fn scans_before_claim(&mut self, now: Duration) -> bool {
        self.claims += 1;
        if self.queue.is_empty() && !self.overflowing {
            // The claim searches all lanes in any case.
            return false;
        }
        let Some(last) = self.scanned else { return true };
        let is_late = now.saturating_sub(last.at) >= SCAN_EVERY;
        let is_due = self.claims > CLAIMS_PER_SCAN && last.took <= QUICK_SCAN;
        is_late || is_due || self.queue.is_empty()
    }

    /// Takes up what a scan found, which began at one moment and ended at another.
    pub(crate) fn scanned(&mut self, piece: &[Lane], began: Duration, ended: Duration) {
        let mut kept = 0;
        for lane in piece {
            if !self.offer(lane) {
                break;
            }
            kept += 1;
        }
        self.cursor.advance(piece, kept, SCAN_LANES);
        if kept == piece.len() && self.cursor.below().is_none() {
            self.overflowing = false;
        }
        if self.scanned.is_none() && !self.queue.is_empty() {
            self.queue.rotate_left(self.seed % self.queue.len());
        }
        self.claims = 0;
        self.scanned = Some(Scanned { at: ended, took: ended.saturating_sub(began) });
    }

    /// Notes that a lane may have something. Answers whether it is known now.
    pub(crate) fn offer(&mut self, lane: &Lane) -> bool {
        if self.known.contains(lane) {
            return true;
        }
        if self.queue.len() >= QUEUE_MAX {
            self.overflowing = true;
            return false;
        }
        self.known.insert(lane.clone());
        self.queue.push_back(lane.clone());
        true
    }

    /// The lanes whose turn it is, `max` at most and none of `except`. The first `turns` have had their turn then; where all lanes come at
    /// once, the first one has.
    pub(crate) fn take_turn(&mut self, max: usize, turns: usize, except: &HashSet<Lane>) -> Vec<Lane> {
        let lanes: Vec<Lane> =
            self.queue.iter().filter(|lane| !except.contains(*lane)).take(max).cloned().collect();
        let had = if turns >= self.queue.len() { 1 } else { turns };
        for lane in lanes.iter().take(had) {
            self.take_out(lane);
            if !self.overflowing {
                self.known.insert(lane.clone());
                self.queue.push_back(lane.clone());
            }
        }
        lanes
    }

    /// A lane has nothing for now.
    pub(crate) fn drained(&mut self, lane: &Lane) {
        self.take_out(lane);
    }

    fn take_out(&mut self, lane: &Lane) {
        if self.known.remove(lane)
            && let Some(place) = self.queue.iter().position(|queued| queued == lane)
        {
            self.queue.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::time::Duration;

    use oncebox_core::Topic;

    use super::{CLAIMS_PER_SCAN, Interest, Lane, QUEUE_MAX, QUICK_SCAN, SCAN_EVERY, SCAN_LANES};

    const NOW: Duration = Duration::from_secs(60);

    fn lane(number: usize) -> Lane {
        (Topic::new(format!("{number:05}")).unwrap(), 0)
    }

    fn names(lanes: &[Lane]) -> Vec<usize> {
        lanes.iter().map(|(topic, _)| topic.as_str().parse().unwrap()).collect()
    }

    fn with(count: usize) -> Interest {
        let mut interest = Interest::default();
        for number in 0..count {
            interest.offer(&lane(number));
        }
        interest
    }

    fn turn(interest: &mut Interest, max: usize, turns: usize) -> Vec<usize> {
        names(&interest.take_turn(max, turns, &HashSet::new()))
    }

    /// Holds: RULE-11.
    #[test]
    fn lanes_take_turns_and_each_comes_once() {
        let mut interest = with(3);
        interest.offer(&lane(1));
        assert_eq!(turn(&mut interest, 64, 10), [0, 1, 2]);
        assert_eq!(turn(&mut interest, 64, 10), [1, 2, 0], "another one is first");
        assert_eq!(turn(&mut interest, 4, 1), [2, 0, 1]);
        assert_eq!(turn(&mut interest, 4, 2), [0, 1, 2]);
        assert_eq!(turn(&mut interest, 4, 1), [2, 0, 1], "two had their turn");
        interest.drained(&lane(0));
        assert_eq!(turn(&mut interest, 4, 1), [1, 2]);
        assert_eq!(names(&interest.take_turn(4, 1, &HashSet::from([lane(2)]))), [1]);
    }

    #[test]
    fn lanes_are_scanned_after_some_claims_and_after_a_second_at_the_latest() {
        assert!(!Interest::default().scans_before_claim(NOW), "a claim that knows nothing searches");
        let mut interest = with(1);
        assert!(interest.scans_before_claim(NOW), "there may be others");
        interest.scanned(&[], NOW, NOW);
        for _ in 0..CLAIMS_PER_SCAN {
            assert!(!interest.scans_before_claim(NOW));
        }
        assert!(interest.scans_before_claim(NOW));
        interest.scanned(&[], NOW, NOW);
        assert!(interest.scans_before_claim(NOW + SCAN_EVERY));
        let slow = NOW + QUICK_SCAN * 2;
        interest.scanned(&[], NOW, slow);
        for _ in 0..100 {
            assert!(!interest.scans_before_claim(slow));
        }
        assert!(interest.scans_before_claim(slow + SCAN_EVERY), "however long it takes");
    }

    #[test]
    fn an_interest_that_was_forgotten_begins_with_another_lane() {
        let piece: Vec<Lane> = (0..3).map(lane).collect();
        let first = |seed| {
            let mut interest = Interest::new(seed);
            interest.scanned(&piece, NOW, NOW);
            turn(&mut interest, 1, 1)
        };
        assert_eq!([0, 1, 2, 3].map(first), [[0], [1], [2], [0]]);
    }

    /// More lanes than are remembered, all of them always ready: each gets its turn once in a round.
    /// Holds: RULE-11, RULE-25.
    #[test]
    fn more_lanes_than_are_remembered_get_their_turn() {
        let total = QUEUE_MAX * 3 + 77;
        let all: Vec<Lane> = (0..total).rev().map(lane).collect();
        let mut interest = Interest::default();
        let mut turns: BTreeMap<usize, u32> = BTreeMap::new();
        let mut now = NOW;
        for _ in 0..total * 2 / 5 {
            now += Duration::from_millis(1);
            if interest.len() == 0 {
                // A claim searches where nothing is known.
                interest.offer(&all[0]);
            }
            if interest.scans_before_claim(now) {
                let below = interest.cursor().below().cloned();
                let rest = all.iter().filter(|lane| below.as_ref().is_none_or(|below| *lane < below));
                let piece: Vec<_> = rest.take(SCAN_LANES).cloned().collect();
                interest.scanned(&piece, now, now);
            }
            for number in turn(&mut interest, 5, 5) {
                *turns.entry(number).or_default() += 1;
            }
            assert!(interest.len() <= QUEUE_MAX);
        }
        assert_eq!(turns.len(), total, "every lane had a turn");
        let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
        assert!(most - least <= 2, "between {least} and {most} turns");
    }
}
