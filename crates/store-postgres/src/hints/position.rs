//! From which number on a lane is read.
//!
//! A leased message stays in its lane until it is acknowledged, and the server may have to keep what was acknowledged for a while. So a
//! claim that began at the beginning would pass by everything that is under way. It begins where the last one ended; and often enough
//! lower, because what another process gave back, or committed late, is below.

use std::time::Duration;

/// A lane is read from its beginning after this long, at the latest, unless that takes long: no more than a twentieth of the time is
/// spent on it. A claim that comes short finds what is there in any case.
const FROM_BEGINNING_EVERY: Duration = Duration::from_secs(1);
const SHARE_OF_TIME: u32 = 20;
/// What others had locked, or had not committed, while newer ones were claimed, is below the tip when it is free. So every so often a lane is
/// read from where the tip was so long ago, or up to twice as long. Not always, for whatever is leased there would be passed by every time.
const BELOW_EVERY: Duration = Duration::from_millis(20);

/// From where a lane is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Changes whenever something was learned that makes void what reads under way will tell.
    turn: u64,
    /// Nothing is known to be below it.
    tip: i64,
    /// Where the tip was when the lane was last read from below it, and when it was before that.
    tips_before: [i64; 2],
    /// When it is read from below the tip again.
    below_at: Duration,
    /// When it is read from its beginning again.
    again_at: Duration,
}

/// Where and when a read of a lane began, and where the tip was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) from: i64,
    pub(crate) turn: u64,
    tip: i64,
    began: Duration,
}

/// What a read of a lane found: the lowest and the highest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

impl Span {
    /// With this number too.
    pub(crate) fn with(self, number: i64) -> Self {
        Self { lowest: self.lowest.min(number), highest: self.highest.max(number) }
    }
}

/// From where lanes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Where something may be.
    Position,
    Beginning,
}

impl Position {
    /// Something may be anywhere.
    pub(crate) fn anew(turn: u64) -> Self {
        Self { turn, ..Self::default() }
    }

    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Where a read begins now, on the monotonic clock.
    pub(crate) fn start(&self, from: From, now: Duration) -> Start {
        let Self { turn, tip, tips_before: [_, earlier], below_at, again_at } = *self;
        let from = match () {
            () if from == From::Beginning || again_at <= now => 0,
            () if below_at <= now => earlier,
            () => tip,
        };
        Start { from, turn, tip, began: now }
    }

    /// Notes what a read found that ends now; `next_turn` if what others will tell is void then. Answers whether it is.
    pub(crate) fn read(&mut self, start: Start, found: Span, now: Duration, next_turn: u64) -> bool {
        let next = found.highest.saturating_add(1);
        if start.from == 0 {
            let took = now.saturating_sub(start.began);
            self.again_at = now.saturating_add((took * SHARE_OF_TIME).max(FROM_BEGINNING_EVERY));
        }
        // Of reads side by side, one.
        if self.below_at <= start.began {
            self.tips_before = [start.tip, self.tips_before[0]];
            self.below_at = now.saturating_add(BELOW_EVERY);
        }
        if found.lowest < start.tip {
            // It may not be alone there. Those who read above it do not know.
            (self.tip, self.tips_before) = (next, self.tips_before.map(|before| before.min(next)));
            self.turn = next_turn;
            return true;
        }
        // Others who began there too may have come further.
        self.tip = self.tip.max(next);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BELOW_EVERY, FROM_BEGINNING_EVERY, From, Position, Span};

    const NOW: Duration = Duration::from_secs(60);

    fn from(position: &Position, now: Duration) -> i64 {
        position.start(From::Position, now).from
    }

    /// A read that found these at once, from where it would begin.
    fn read(position: &mut Position, lowest: i64, highest: i64, now: Duration) {
        let start = position.start(From::Position, now);
        position.read(start, Span { lowest, highest }, now, 0);
    }

    #[test]
    fn what_has_been_claimed_is_not_read_again_for_a_while() {
        let mut position = Position::default();
        assert_eq!(from(&position, NOW), 0);
        read(&mut position, 1, 10, NOW);
        assert_eq!(from(&position, NOW), 11);
        read(&mut position, 11, 20, NOW);
        assert_eq!(from(&position, NOW), 21, "what comes in is above");
    }

    #[test]
    fn a_lane_is_read_from_its_beginning_once_a_second_or_for_a_twentieth_of_the_time() {
        let mut position = Position::default();
        read(&mut position, 100, 110, NOW);
        // Reads below it begin at the beginning, too, as long as the tip was there a moment ago.
        read(&mut position, 111, 120, NOW + BELOW_EVERY);
        read(&mut position, 121, 130, NOW + BELOW_EVERY * 2);
        let due = NOW + BELOW_EVERY * 2 + FROM_BEGINNING_EVERY;
        assert_eq!(from(&position, NOW + FROM_BEGINNING_EVERY), 111);
        let start = position.start(From::Position, due);
        assert_eq!(start.from, 0);
        let ended = due + FROM_BEGINNING_EVERY;
        position.read(start, Span { lowest: 131, highest: 140 }, ended, 0);
        assert_ne!(from(&position, ended + FROM_BEGINNING_EVERY * 19), 0);
        assert_eq!(from(&position, ended + FROM_BEGINNING_EVERY * 20), 0);
    }

    #[test]
    fn what_was_passed_by_a_moment_ago_is_below_the_tip() {
        let mut position = Position::default();
        read(&mut position, 1, 10, NOW);
        read(&mut position, 11, 1_000, NOW);
        assert_eq!(from(&position, NOW), 1_001);
        let later = NOW + BELOW_EVERY;
        assert_eq!(from(&position, later), 0, "the tip was there long enough ago");
        read(&mut position, 1_001, 1_010, later);
        assert_eq!(from(&position, later), 1_011, "there was nothing");
        let later = later + BELOW_EVERY;
        assert_eq!(from(&position, later), 0, "the tip has been higher only since then");
        let [one, two] = [0; 2].map(|_| position.start(From::Position, later));
        position.read(one, Span { lowest: 1_011, highest: 5_000 }, later, 0);
        position.read(two, Span { lowest: 5_001, highest: 9_000 }, later, 0);
        let later = later + BELOW_EVERY;
        assert_eq!(from(&position, later), 1_001, "where the tip was two reads ago");
        read(&mut position, 1_500, 1_500, later);
        assert_eq!(from(&position, later), 1_501, "it may not be alone");
        assert_eq!(from(&position, later + BELOW_EVERY), 1_011, "others may be late still");
    }

    #[test]
    fn reads_side_by_side_go_on_after_the_one_that_came_further() {
        let mut position = Position::default();
        read(&mut position, 1, 10, NOW);
        let [one, two] = [0; 2].map(|_| position.start(From::Position, NOW));
        position.read(two, Span { lowest: 21, highest: 30 }, NOW, 0);
        position.read(one, Span { lowest: 11, highest: 20 }, NOW, 0);
        assert_eq!(from(&position, NOW), 31);
        let full = position.start(From::Beginning, NOW);
        assert_eq!(full.from, 0);
        assert!(position.read(full, Span { lowest: 5, highest: 6 }, NOW, 7), "others do not know");
        assert_eq!((from(&position, NOW), position.turn()), (7, 7), "there may be more");
    }
}
