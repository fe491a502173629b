//! Which lanes may have something, and from which number on: what this process has seen, so that a claim need not search.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Namespace, Topic, Topics};

/// A slice of a topic, served in order.
pub(crate) type Lane = (Topic, i32);

/// Lanes that one statement looks into, at most.
pub(crate) const LANES_MAX: usize = 64;
/// Lanes that are remembered, at most; the others are found again when it is their turn.
const KNOWN_MAX: usize = 4_096;
/// So often a lane is looked at from its beginning: so late this process notices what others put back there, at the latest. More
/// rarely if such a look takes long, because vacuum may not remove what lies there: no more than a twentieth of the time is spent.
const FROM_BEGINNING_EVERY: Duration = Duration::from_secs(1);
const SHARE_OF_TIME: u32 = 20;
/// What others had locked, or had not committed, while newer ones were claimed, is below the tip when it is free. So every so often a look
/// begins where the tip was so long ago, or up to twice as long. Not always, for whatever is leased there would be passed by every time.
const BELOW_EVERY: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<Namespace, Known>>);

#[derive(Default)]
struct Known {
    lanes: BTreeMap<Lane, Look>,
    /// The lane that was served last.
    served: Option<Lane>,
    /// How often something was learned that makes void what looks under way will tell.
    turns: u64,
}

impl Known {
    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    fn lower(&mut self, which: impl Fn(&Lane) -> bool) {
        let turn = self.next_turn();
        for (_, look) in self.lanes.iter_mut().filter(|(lane, _)| which(lane)) {
            *look = Look::anew(turn);
        }
    }
}

/// From where a lane is looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    turn: u64,
    /// Nothing is known to be below it.
    tip: i64,
    /// Where the tip was when there was last a look below it, and when there was one before that.
    tips_before: [i64; 2],
    /// When there is a look below the tip again.
    below_at: Duration,
    /// When it is looked at from its beginning again.
    again_at: Duration,
}

impl Look {
    /// Something may be anywhere.
    fn anew(turn: u64) -> Self {
        Self { turn, ..Self::default() }
    }
}

/// Where and when a look into a lane begins, and where the tip was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) from: i64,
    tip: i64,
    turn: u64,
    began: Duration,
}

/// What a look into a lane brought: the lowest and the highest number.
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

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, Known>> {
        // A map of hints is whole whatever happened while it was locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that lanes may have something.
    pub(crate) fn add(&self, namespace: Namespace, lanes: impl IntoIterator<Item = Lane>) {
        let mut all = self.lock();
        let known = all.entry(namespace).or_default();
        for lane in lanes {
            if known.lanes.len() < KNOWN_MAX && !known.lanes.contains_key(&lane) {
                let turn = known.next_turn();
                known.lanes.insert(lane, Look::anew(turn));
            }
        }
    }

    /// Notes that lanes have nothing.
    pub(crate) fn remove(&self, namespace: Namespace, lanes: &[Lane]) {
        if let Some(known) = self.lock().get_mut(&namespace) {
            for lane in lanes {
                known.lanes.remove(lane);
            }
        }
    }

    /// The lanes whose turn it is, beginning after the one that was served last.
    pub(crate) fn in_turn(&self, namespace: Namespace, topics: &Topics) -> Vec<Lane> {
        let mut all = self.lock();
        let Some(known) = all.get_mut(&namespace) else { return Vec::new() };
        let after = known.served.as_ref().map_or(Unbounded, Excluded);
        let rest = known.lanes.range::<Lane, _>((after, Unbounded));
        let wanted = |lane: &&Lane| topics.contains(&lane.0);
        let in_turn = rest.chain(&known.lanes).map(|(lane, _)| lane).filter(wanted);
        let mut seen = BTreeSet::new();
        let lanes: Vec<_> = in_turn
            .take(LANES_MAX.min(known.lanes.len()))
            .filter(|lane| seen.insert(*lane))
            .cloned()
            .collect();
        if let Some(first) = lanes.first() {
            known.served = Some(first.clone());
        }
        lanes
    }

    /// Where looks into lanes begin now, on the monotonic clock: where something may be, or at the beginning if they are full ones.
    pub(crate) fn starts(
        &self,
        namespace: Namespace,
        lanes: &[Lane],
        fully: bool,
        now: Duration,
    ) -> Vec<Start> {
        let all = self.lock();
        let known = all.get(&namespace);
        let look = |lane| known.and_then(|known| known.lanes.get(lane)).copied().unwrap_or_default();
        let start = |Look { turn, tip, tips_before: [_, earlier], below_at, again_at }| {
            let from = match () {
                () if fully || again_at <= now => 0,
                () if below_at <= now => earlier,
                () => tip,
            };
            Start { from, tip, turn, began: now }
        };
        lanes.iter().map(look).map(start).collect()
    }

    /// Notes what a look into a lane brought that ends now.
    pub(crate) fn looked(&self, namespace: Namespace, lane: &Lane, start: Start, found: Span, now: Duration) {
        let mut all = self.lock();
        let Some(known) = all.get_mut(&namespace) else { return };
        let next_turn = known.turns + 1;
        // If something came back meanwhile, it may have been overlooked.
        let look = known.lanes.get_mut(lane).filter(|look| look.turn == start.turn);
        let Some(look) = look else { return };
        let next = found.highest.saturating_add(1);
        if start.from == 0 {
            let took = now.saturating_sub(start.began);
            look.again_at = now.saturating_add((took * SHARE_OF_TIME).max(FROM_BEGINNING_EVERY));
        }
        // Of looks side by side, one.
        if look.below_at <= start.began {
            look.tips_before = [start.tip, look.tips_before[0]];
            look.below_at = now.saturating_add(BELOW_EVERY);
        }
        if found.lowest < start.tip {
            // It may not be alone there. Those who look above it do not know.
            (look.tip, look.tips_before) = (next, look.tips_before.map(|before| before.min(next)));
            (look.turn, known.turns) = (next_turn, next_turn);
        } else {
            // Others who began there too may have come further.
            look.tip = look.tip.max(next);
        }
    }

    /// Notes that something may have come back to its place in the lanes of a topic.
    pub(crate) fn lower(&self, namespace: Namespace, topic: &Topic) {
        if let Some(known) = self.lock().get_mut(&namespace) {
            known.lower(|(name, _)| name == topic);
        }
    }

    /// Notes that something may have come back to its place in any lane.
    pub(crate) fn lower_all(&self) {
        for known in self.lock().values_mut() {
            known.lower(|_| true);
        }
    }
}

/// Lanes as they are bound to a statement: their topics, and their shards.
pub(crate) fn columns(lanes: &[Lane]) -> (Vec<&str>, Vec<i32>) {
    lanes.iter().map(|(topic, shard)| (topic.as_str(), *shard)).unzip()
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Namespace, Topic, Topics};

    use std::time::Duration;

    use super::{BELOW_EVERY, FROM_BEGINNING_EVERY, LANES_MAX, Lane, Lanes, Span};

    fn lane(name: &str) -> Lane {
        (Topic::new(name).unwrap(), 0)
    }

    #[test]
    fn lanes_take_turns_and_each_comes_once() {
        let lanes = Lanes::default();
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), []);
        lanes.add(Namespace::Inbox, ["a", "b", "c"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["a", "b", "c"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["b", "c", "a"].map(lane));
        let only = Topics::only([Topic::new("a").unwrap()]).unwrap();
        assert_eq!(lanes.in_turn(Namespace::Inbox, &only), [lane("a")]);
        lanes.remove(Namespace::Inbox, &[lane("b")]);
        assert_eq!(lanes.in_turn(Namespace::Inbox, &Topics::ALL), ["c", "a"].map(lane));
        assert_eq!(lanes.in_turn(Namespace::Ledger, &Topics::ALL), []);
    }

    const NOW: Duration = Duration::from_secs(60);

    fn froms(lanes: &Lanes, names: &[Lane], now: Duration) -> Vec<i64> {
        lanes.starts(Namespace::Inbox, names, false, now).into_iter().map(|start| start.from).collect()
    }

    /// A look that brought these at once, from where it would begin.
    fn looked(lanes: &Lanes, name: &str, lowest: i64, highest: i64, now: Duration) {
        let start = lanes.starts(Namespace::Inbox, &[lane(name)], false, now)[0];
        lanes.looked(Namespace::Inbox, &lane(name), start, Span { lowest, highest }, now);
    }

    #[test]
    fn what_has_been_claimed_is_not_looked_at_again_for_a_while() {
        let (lanes, space) = (Lanes::default(), Namespace::Inbox);
        let both = ["a", "b"].map(lane);
        lanes.add(space, both.clone());
        assert_eq!(froms(&lanes, &both, NOW), [0, 0]);
        looked(&lanes, "a", 1, 10, NOW);
        assert_eq!(froms(&lanes, &both, NOW), [11, 0]);
        lanes.add(space, [lane("a")]);
        looked(&lanes, "a", 11, 20, NOW);
        assert_eq!(froms(&lanes, &both, NOW), [21, 0], "what comes in is above");
        lanes.lower(space, &Topic::new("b").unwrap());
        assert_eq!(froms(&lanes, &both, NOW), [21, 0]);
        lanes.lower(space, &Topic::new("a").unwrap());
        assert_eq!(froms(&lanes, &both, NOW), [0, 0], "something came back");
        looked(&lanes, "b", 1, 3, NOW);
        lanes.lower_all();
        assert_eq!(froms(&lanes, &both, NOW), [0, 0]);
    }

    #[test]
    fn a_lane_is_looked_at_from_its_beginning_once_a_second_or_for_a_twentieth_of_the_time() {
        let (lanes, space, only) = (Lanes::default(), Namespace::Inbox, [lane("a")]);
        lanes.add(space, only.clone());
        looked(&lanes, "a", 100, 110, NOW);
        // The looks below it begin at the beginning, too, as long as the tip was there a moment ago.
        looked(&lanes, "a", 111, 120, NOW + BELOW_EVERY);
        looked(&lanes, "a", 121, 130, NOW + BELOW_EVERY * 2);
        let due = NOW + BELOW_EVERY * 2 + FROM_BEGINNING_EVERY;
        assert_eq!(froms(&lanes, &only, NOW + FROM_BEGINNING_EVERY), [111]);
        let start = lanes.starts(space, &only, false, due)[0];
        assert_eq!(start.from, 0);
        let ended = due + FROM_BEGINNING_EVERY;
        lanes.looked(space, &only[0], start, Span { lowest: 131, highest: 140 }, ended);
        assert_ne!(froms(&lanes, &only, ended + FROM_BEGINNING_EVERY * 19), [0]);
        assert_eq!(froms(&lanes, &only, ended + FROM_BEGINNING_EVERY * 20), [0]);
    }

    #[test]
    fn what_was_passed_by_a_moment_ago_is_below_the_tip() {
        let (lanes, space, only) = (Lanes::default(), Namespace::Inbox, [lane("a")]);
        lanes.add(space, only.clone());
        looked(&lanes, "a", 1, 10, NOW);
        looked(&lanes, "a", 11, 1_000, NOW);
        assert_eq!(froms(&lanes, &only, NOW), [1_001]);
        let later = NOW + BELOW_EVERY;
        assert_eq!(froms(&lanes, &only, later), [0], "the tip was there long enough ago");
        looked(&lanes, "a", 1_001, 1_010, later);
        assert_eq!(froms(&lanes, &only, later), [1_011], "there was nothing");
        let later = later + BELOW_EVERY;
        assert_eq!(froms(&lanes, &only, later), [0], "the tip has been higher only since then");
        let [one, two] = [0; 2].map(|_| lanes.starts(space, &only, false, later)[0]);
        lanes.looked(space, &only[0], one, Span { lowest: 1_011, highest: 5_000 }, later);
        lanes.looked(space, &only[0], two, Span { lowest: 5_001, highest: 9_000 }, later);
        let later = later + BELOW_EVERY;
        assert_eq!(froms(&lanes, &only, later), [1_001], "where the tip was two looks ago");
        looked(&lanes, "a", 1_500, 1_500, later);
        assert_eq!(froms(&lanes, &only, later), [1_501], "it may not be alone");
        assert_eq!(froms(&lanes, &only, later + BELOW_EVERY), [1_011], "others may be late still");
    }

    #[test]
    fn looks_side_by_side_go_on_after_the_one_that_came_further() {
        let (lanes, space, name) = (Lanes::default(), Namespace::Inbox, lane("a"));
        lanes.add(space, [name.clone()]);
        looked(&lanes, "a", 1, 10, NOW);
        let start = |fully| lanes.starts(space, std::slice::from_ref(&name), fully, NOW)[0];
        let from = || start(false).from;
        let told = |start, lowest, highest| {
            lanes.looked(space, &name, start, Span { lowest, highest }, NOW);
        };
        let [one, two, slow] = [0; 3].map(|_| start(false));
        told(two, 21, 30);
        told(one, 11, 20);
        assert_eq!(from(), 31);
        let full = start(true);
        assert_eq!(full.from, 0);
        told(full, 5, 6);
        assert_eq!(from(), 7, "there may be more where nothing was expected");
        told(slow, 31, 40);
        assert_eq!(from(), 7, "it does not know that");
        let slow = start(true);
        lanes.lower_all();
        told(slow, 7, 8);
        assert_eq!(from(), 0, "nor what came back meanwhile");
        let slow = start(false);
        lanes.remove(space, std::slice::from_ref(&name));
        lanes.add(space, [name.clone()]);
        told(slow, 9, 10);
        assert_eq!(from(), 0, "nor why the lane was found anew");
    }

    #[test]
    fn one_statement_looks_into_a_bounded_number_of_lanes_and_all_get_their_turn() {
        let lanes = Lanes::default();
        lanes.add(Namespace::Inbox, (0..200).map(|number| lane(&format!("{number:03}"))));
        let mut served = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let turn = lanes.in_turn(Namespace::Inbox, &Topics::ALL);
            assert_eq!(turn.len(), LANES_MAX);
            served.extend(turn.into_iter().take(1));
        }
        assert_eq!(served.len(), 200);
    }
}
