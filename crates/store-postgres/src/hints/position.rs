//! The number from which a lane is scanned.
//!
//! A leased message stays in its lane until it is acknowledged, and the server may have to keep old row versions even
//! longer. A scan from the beginning would skip all of them. So a scan starts where the last one ended, and regularly
//! further down, because messages that another process released, or committed late, are below.

use std::time::Duration;

/// A lane is scanned from its beginning at least this often, unless that takes long: full scans take at most a
/// twentieth of the time. A claim that gets too few messages finds the rest in any case.
const FULL_SCAN_EVERY: Duration = Duration::from_secs(1);
const FULL_SCAN_COST_FACTOR: u32 = 20;
/// Messages that other transactions had locked, or had not committed, while newer ones were claimed, are below the
/// high-water mark once they are free. So a lane is regularly scanned from where the high-water mark was this long
/// ago, or up to twice as long. Not every time, because each such scan skips all messages that are leased there.
const BACK_SCAN_EVERY: Duration = Duration::from_millis(20);

/// The scan position of a lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanPosition {
    /// Changes whenever new information invalidates the results of scans that are under way.
    generation: u64,
    /// The high-water mark: no message below it is known to be claimable.
    high_water: i64,
    /// The high-water marks at the last two back scans, the most recent first.
    previous: [i64; 2],
    /// When the next back scan is due.
    back_scan_at: Duration,
    /// When the next full scan is due.
    full_scan_at: Duration,
}

/// Where and when a scan started, and the high-water mark at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanStart {
    pub(crate) from: i64,
    pub(crate) generation: u64,
    high_water: i64,
    started: Duration,
}

/// The lowest and the highest number that a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberRange {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

impl NumberRange {
    /// Extends the range to this number.
    pub(crate) fn with(self, number: i64) -> Self {
        Self { lowest: self.lowest.min(number), highest: self.highest.max(number) }
    }
}

/// Where a scan starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanFrom {
    /// At the position where messages may be.
    Position,
    Beginning,
}

impl ScanPosition {
    /// A position that knows nothing: messages may be anywhere.
    pub(crate) fn unknown(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Where a scan starts now, on the monotonic clock.
    pub(crate) fn start(&self, from: ScanFrom, now: Duration) -> ScanStart {
        let Self { generation, high_water, previous: [_, earlier], back_scan_at, full_scan_at } = *self;
        let from = match () {
            () if from == ScanFrom::Beginning || full_scan_at <= now => 0,
            () if back_scan_at <= now => earlier,
            () => high_water,
        };
        ScanStart { from, generation, high_water, started: now }
    }

    /// Records the result of a scan that ends now. If the result invalidates concurrent scans, sets `next_generation`
    /// and returns true.
    pub(crate) fn record_scan(
        &mut self,
        start: ScanStart,
        found: NumberRange,
        now: Duration,
        next_generation: u64,
    ) -> bool {
        let next = found.highest.saturating_add(1);
        if start.from == 0 {
            let took = now.saturating_sub(start.started);
            self.full_scan_at = now.saturating_add((took * FULL_SCAN_COST_FACTOR).max(FULL_SCAN_EVERY));
        }
        // Only the first of several concurrent scans updates this.
        if self.back_scan_at <= start.started {
            self.previous = [start.high_water, self.previous[0]];
            self.back_scan_at = now.saturating_add(BACK_SCAN_EVERY);
        }
        if found.lowest < start.high_water {
            // There may be more messages there, which concurrent scans above do not know.
            (self.high_water, self.previous) = (next, self.previous.map(|before| before.min(next)));
            self.generation = next_generation;
            return true;
        }
        // A concurrent scan that started there too may have advanced further.
        self.high_water = self.high_water.max(next);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BACK_SCAN_EVERY, FULL_SCAN_EVERY, NumberRange, ScanFrom, ScanPosition};

    const NOW: Duration = Duration::from_secs(60);

    fn from(position: &ScanPosition, now: Duration) -> i64 {
        position.start(ScanFrom::Position, now).from
    }

    /// Records a scan that found these numbers immediately, from where it would start.
    fn scan(position: &mut ScanPosition, lowest: i64, highest: i64, now: Duration) {
        let start = position.start(ScanFrom::Position, now);
        position.record_scan(start, NumberRange { lowest, highest }, now, 0);
    }

    #[test]
    fn claimed_messages_are_not_scanned_again_immediately() {
        let mut position = ScanPosition::default();
        assert_eq!(from(&position, NOW), 0);
        scan(&mut position, 1, 10, NOW);
        assert_eq!(from(&position, NOW), 11);
        scan(&mut position, 11, 20, NOW);
        assert_eq!(from(&position, NOW), 21, "new messages are above");
    }

    #[test]
    fn full_scans_run_once_a_second_or_for_a_twentieth_of_the_time() {
        let mut position = ScanPosition::default();
        scan(&mut position, 100, 110, NOW);
        // Back scans start at the beginning, too, as long as the high-water mark was there recently.
        scan(&mut position, 111, 120, NOW + BACK_SCAN_EVERY);
        scan(&mut position, 121, 130, NOW + BACK_SCAN_EVERY * 2);
        let due = NOW + BACK_SCAN_EVERY * 2 + FULL_SCAN_EVERY;
        assert_eq!(from(&position, NOW + FULL_SCAN_EVERY), 111);
        let start = position.start(ScanFrom::Position, due);
        assert_eq!(start.from, 0);
        let ended = due + FULL_SCAN_EVERY;
        position.record_scan(start, NumberRange { lowest: 131, highest: 140 }, ended, 0);
        assert_ne!(from(&position, ended + FULL_SCAN_EVERY * 19), 0);
        assert_eq!(from(&position, ended + FULL_SCAN_EVERY * 20), 0);
    }

    #[test]
    fn recently_skipped_messages_are_below_the_high_water_mark() {
        let mut position = ScanPosition::default();
        scan(&mut position, 1, 10, NOW);
        scan(&mut position, 11, 1_000, NOW);
        assert_eq!(from(&position, NOW), 1_001);
        let later = NOW + BACK_SCAN_EVERY;
        assert_eq!(from(&position, later), 0, "the high-water mark was there long enough ago");
        scan(&mut position, 1_001, 1_010, later);
        assert_eq!(from(&position, later), 1_011, "the back scan found nothing");
        let later = later + BACK_SCAN_EVERY;
        assert_eq!(from(&position, later), 0, "the high-water mark has been higher only since then");
        let [one, two] = [0; 2].map(|_| position.start(ScanFrom::Position, later));
        position.record_scan(one, NumberRange { lowest: 1_011, highest: 5_000 }, later, 0);
        position.record_scan(two, NumberRange { lowest: 5_001, highest: 9_000 }, later, 0);
        let later = later + BACK_SCAN_EVERY;
        assert_eq!(from(&position, later), 1_001, "the high-water mark of two back scans ago");
        scan(&mut position, 1_500, 1_500, later);
        assert_eq!(from(&position, later), 1_501, "there may be more");
        assert_eq!(from(&position, later + BACK_SCAN_EVERY), 1_011, "others may still be late");
    }

    #[test]
    fn concurrent_scans_continue_after_the_one_that_advanced_further() {
        let mut position = ScanPosition::default();
        scan(&mut position, 1, 10, NOW);
        let [one, two] = [0; 2].map(|_| position.start(ScanFrom::Position, NOW));
        position.record_scan(two, NumberRange { lowest: 21, highest: 30 }, NOW, 0);
        position.record_scan(one, NumberRange { lowest: 11, highest: 20 }, NOW, 0);
        assert_eq!(from(&position, NOW), 31);
        let full = position.start(ScanFrom::Beginning, NOW);
        assert_eq!(full.from, 0);
        assert!(
            position.record_scan(full, NumberRange { lowest: 5, highest: 6 }, NOW, 7),
            "concurrent scans do not know"
        );
        assert_eq!((from(&position, NOW), position.generation()), (7, 7), "there may be more");
    }
}
