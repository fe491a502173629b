//! The queue of lanes that claims of the same topics take turns in, and when all lanes are scanned for others.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::{Lane, ScanCursor};

/// Maximum number of lanes in a queue. The scan finds the others again.
pub(crate) const QUEUE_MAX: usize = 1_024;
/// Maximum number of lanes per scan.
pub(crate) const SCAN_LANES: usize = 256;
/// Maximum number of claims between two scans: a lane that another process filled waits no longer for its first turn.
const CLAIMS_PER_SCAN: u32 = 8;
/// Maximum time between two scans, however few claims there are.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// A scan that takes longer than this, because the server has to skip many row versions that it cannot remove yet,
/// runs only once a second.
const QUICK_SCAN: Duration = Duration::from_millis(50);

/// What claims of the same topics know. If it is full, stale or empty, it costs queries; the tables decide what is
/// there.
#[derive(Default)]
pub(crate) struct LaneQueue {
    /// The front is next.
    queue: VecDeque<Lane>,
    known: HashSet<Lane>,
    cursor: ScanCursor,
    /// There are more lanes than fit into the queue: a lane leaves the queue with its turn, and the scan adds the
    /// next ones.
    overflowing: bool,
    claims: u32,
    scanned: Option<Scanned>,
    /// Selects the first lane after the first scan. A queue that is evicted repeatedly must not always start with the
    /// same lane.
    seed: usize,
}

/// The last scan.
#[derive(Clone, Copy)]
struct Scanned {
    at: Duration,
    took: Duration,
}

impl LaneQueue {
    /// Creates a queue; each seed starts with a different lane.
    pub(crate) fn new(seed: usize) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn cursor(&self) -> &ScanCursor {
        &self.cursor
    }

    /// Counts a claim, and returns whether lanes must be scanned before it.
    pub(crate) fn is_scan_due(&mut self, now: Duration) -> bool {
        self.claims += 1;
        if self.queue.is_empty() && !self.overflowing {
            // The claim searches all lanes anyway.
            return false;
        }
        let Some(last) = self.scanned else { return true };
        let is_late = now.saturating_sub(last.at) >= SCAN_EVERY;
        let is_due = self.claims > CLAIMS_PER_SCAN && last.took <= QUICK_SCAN;
        is_late || is_due || self.queue.is_empty()
    }

    /// Adds the lanes that a scan found.
    pub(crate) fn scanned(&mut self, batch: &[Lane], started: Duration, ended: Duration) {
        let mut kept = 0;
        for lane in batch {
            if !self.offer(lane) {
                break;
            }
            kept += 1;
        }
        self.cursor.advance(batch, kept, SCAN_LANES);
        if kept == batch.len() && self.cursor.below().is_none() {
            self.overflowing = false;
        }
        if self.scanned.is_none() && !self.queue.is_empty() {
            self.queue.rotate_left(self.seed % self.queue.len());
        }
        self.claims = 0;
        self.scanned = Some(Scanned { at: ended, took: ended.saturating_sub(started) });
    }

    /// Adds a lane that may have messages. Returns whether the queue contains it now.
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

    /// The next lanes, at most `max` and none of `except`. The first `turns` of them have then had their turn; if
    /// that would be all lanes of the queue, only the first one has.
    pub(crate) fn next_lanes(&mut self, max: usize, turns: usize, except: &HashSet<Lane>) -> Vec<Lane> {
        let lanes: Vec<Lane> =
            self.queue.iter().filter(|lane| !except.contains(*lane)).take(max).cloned().collect();
        let rotated = if turns >= self.queue.len() { 1 } else { turns };
        for lane in lanes.iter().take(rotated) {
            self.remove(lane);
            if !self.overflowing {
                self.known.insert(lane.clone());
                self.queue.push_back(lane.clone());
            }
        }
        lanes
    }

    /// Removes a lane that has nothing for now.
    pub(crate) fn remove_drained(&mut self, lane: &Lane) {
        self.remove(lane);
    }

    fn remove(&mut self, lane: &Lane) {
        if self.known.remove(lane)
            && let Some(index) = self.queue.iter().position(|queued| queued == lane)
        {
            self.queue.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::time::Duration;

    use oncebox_core::Topic;

    use super::{CLAIMS_PER_SCAN, Lane, LaneQueue, QUEUE_MAX, QUICK_SCAN, SCAN_EVERY, SCAN_LANES};

    const NOW: Duration = Duration::from_secs(60);

    fn lane(number: usize) -> Lane {
        (Topic::new(format!("{number:05}")).unwrap(), 0)
    }

    fn names(lanes: &[Lane]) -> Vec<usize> {
        lanes.iter().map(|(topic, _)| topic.as_str().parse().unwrap()).collect()
    }

    fn with(count: usize) -> LaneQueue {
        let mut queue = LaneQueue::default();
        for number in 0..count {
            queue.offer(&lane(number));
        }
        queue
    }

    fn next(queue: &mut LaneQueue, max: usize, turns: usize) -> Vec<usize> {
        names(&queue.next_lanes(max, turns, &HashSet::new()))
    }

    /// Holds: RULE-11.
    #[test]
    fn lanes_take_turns_and_each_is_returned_once() {
        let mut queue = with(3);
        queue.offer(&lane(1));
        assert_eq!(next(&mut queue, 64, 10), [0, 1, 2]);
        assert_eq!(next(&mut queue, 64, 10), [1, 2, 0], "another lane is first");
        assert_eq!(next(&mut queue, 4, 1), [2, 0, 1]);
        assert_eq!(next(&mut queue, 4, 2), [0, 1, 2]);
        assert_eq!(next(&mut queue, 4, 1), [2, 0, 1], "two had their turn");
        queue.remove_drained(&lane(0));
        assert_eq!(next(&mut queue, 4, 1), [1, 2]);
        assert_eq!(names(&queue.next_lanes(4, 1, &HashSet::from([lane(2)]))), [1]);
    }

    #[test]
    fn lanes_are_scanned_after_eight_claims_or_a_second() {
        assert!(!LaneQueue::default().is_scan_due(NOW), "a claim without known lanes searches");
        let mut queue = with(1);
        assert!(queue.is_scan_due(NOW), "there may be other lanes");
        queue.scanned(&[], NOW, NOW);
        for _ in 0..CLAIMS_PER_SCAN {
            assert!(!queue.is_scan_due(NOW));
        }
        assert!(queue.is_scan_due(NOW));
        queue.scanned(&[], NOW, NOW);
        assert!(queue.is_scan_due(NOW + SCAN_EVERY));
        let slow = NOW + QUICK_SCAN * 2;
        queue.scanned(&[], NOW, slow);
        for _ in 0..100 {
            assert!(!queue.is_scan_due(slow));
        }
        assert!(queue.is_scan_due(slow + SCAN_EVERY), "however long a scan takes");
    }

    #[test]
    fn an_evicted_queue_starts_with_another_lane() {
        let batch: Vec<Lane> = (0..3).map(lane).collect();
        let first = |seed| {
            let mut queue = LaneQueue::new(seed);
            queue.scanned(&batch, NOW, NOW);
            next(&mut queue, 1, 1)
        };
        assert_eq!([0, 1, 2, 3].map(first), [[0], [1], [2], [0]]);
    }

    /// With more lanes than a queue holds, all of them always ready, each lane gets its turn once per round.
    /// Holds: RULE-11, RULE-25.
    #[test]
    fn more_lanes_than_a_queue_holds_get_their_turn() {
        let total = QUEUE_MAX * 3 + 77;
        let all: Vec<Lane> = (0..total).rev().map(lane).collect();
        let mut queue = LaneQueue::default();
        let mut turns: BTreeMap<usize, u32> = BTreeMap::new();
        let mut now = NOW;
        for _ in 0..total * 2 / 5 {
            now += Duration::from_millis(1);
            if queue.len() == 0 {
                // A claim searches if nothing is known.
                queue.offer(&all[0]);
            }
            if queue.is_scan_due(now) {
                let below = queue.cursor().below().cloned();
                let rest = all.iter().filter(|lane| below.as_ref().is_none_or(|below| *lane < below));
                let batch: Vec<_> = rest.take(SCAN_LANES).cloned().collect();
                queue.scanned(&batch, now, now);
            }
            for number in next(&mut queue, 5, 5) {
                *turns.entry(number).or_default() += 1;
            }
            assert!(queue.len() <= QUEUE_MAX);
        }
        assert_eq!(turns.len(), total, "every lane had a turn");
        let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
        assert!(most - least <= 2, "between {least} and {most} turns");
    }
}
