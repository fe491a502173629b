//! How far a lane may run ahead: the outstanding inherited deliveries, what was delivered past them, and how much may
//! still be delivered. Knows no database.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use uuid::Uuid;

use crate::hints::Lane;

/// Maximum number of recorded deliveries per lane, the newest ones: several times the limit past one delivery,
/// because processes do not inherit the same deliveries.
const DELIVERED_MAX: usize = 256;

/// A delivery that was outstanding when this process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) uid: Uuid,
    pub(crate) fence: i64,
    /// No extension moves its end past this time.
    pub(crate) extend_max: i64,
}

/// How often lanes are checked that no claim asks for.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of deliveries that are checked then, unless one lane has more.
const CHECKED_MAX: usize = 1_000;

/// Inherited deliveries that are still outstanding, by lane and number.
#[derive(Default)]
pub(crate) struct Inherited {
    lanes: BTreeMap<Lane, BTreeMap<i64, Outstanding>>,
    /// The last lane that was checked without a claim for it, and when.
    checked: Option<(Lane, Duration)>,
}

/// Messages of a lane that restarted processes delivered: the fence of each by its number. These processes share it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Delivered(BTreeMap<i64, i64>);

/// What all restarted processes delivered, by lane.
pub(crate) type Ahead = HashMap<Lane, Delivered>;

/// How much each lane may deliver, as parameters of `work_1`; `None` for lanes that are not limited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReorderLimits {
    /// Maximum number of messages.
    pub(crate) messages_max: Vec<Option<i64>>,
    /// Maximum message number.
    pub(crate) number_max: Vec<Option<i64>>,
    /// Messages below this number are unrestricted; above it, only those that were delivered before.
    pub(crate) unrestricted_below: Vec<Option<i64>>,
    /// The messages that were delivered before.
    pub(crate) redeliverable: Vec<i64>,
}

impl Inherited {
    pub(crate) fn add(&mut self, lane: Lane, number: i64, delivery: Outstanding) {
        self.lanes.entry(lane).or_default().insert(number, delivery);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The lanes that are limited, each once and in one order, and when the limit ends at the latest.
    pub(crate) fn limited_lanes(&self, lanes: &[Lane]) -> BTreeMap<Lane, i64> {
        let limited = lanes.iter().filter_map(|lane| Some((lane, self.lanes.get(lane)?)));
        let latest = |outstanding: &BTreeMap<i64, Outstanding>| {
            outstanding.values().map(|delivery| delivery.extend_max).max()
        };
        limited.filter_map(|(lane, outstanding)| Some((lane.clone(), latest(outstanding)?))).collect()
    }

    /// The next lanes to check although no claim asks for them: otherwise a lane that this process does not serve would
    /// be limited, and the mailbox claimed by one call at a time, for ever. None if it is not time yet.
    pub(crate) fn lanes_to_check(&mut self, now: Duration) -> Vec<Lane> {
        if self.checked.as_ref().is_some_and(|(_, at)| now.saturating_sub(*at) < CHECK_INTERVAL) {
            return Vec::new();
        }
        let after = self.checked.take().map_or(Bound::Unbounded, |(lane, _)| Bound::Excluded(lane));
        let mut deliveries = 0;
        let mut fits = |outstanding: &BTreeMap<i64, Outstanding>| {
            let is_first = deliveries == 0;
            deliveries += outstanding.len();
            is_first || deliveries <= CHECKED_MAX
        };
        let next =
            self.lanes.range((after, Bound::Unbounded)).take_while(|(_, outstanding)| fits(outstanding));
        let lanes: Vec<Lane> = next.map(|(lane, _)| lane.clone()).collect();
        // After the last lane, the first one follows, at the next time.
        self.checked = lanes.last().map(|lane| (lane.clone(), now));
        lanes
    }

    /// The deliveries of these lanes that are believed to be outstanding.
    pub(crate) fn outstanding(&self, lanes: &[Lane]) -> (Vec<Uuid>, Vec<i64>) {
        let outstanding = lanes.iter().filter_map(|lane| self.lanes.get(lane));
        outstanding
            .flat_map(|outstanding| outstanding.values().map(|delivery| (delivery.uid, delivery.fence)))
            .unzip()
    }

    /// Removes all other deliveries of these lanes: they are no longer outstanding.
    pub(crate) fn retain(&mut self, lanes: &[Lane], still: &BTreeSet<Uuid>) {
        for lane in lanes {
            if let Some(outstanding) = self.lanes.get_mut(lane) {
                outstanding.retain(|_, delivery| still.contains(&delivery.uid));
                if outstanding.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
    }

    /// Numbers that were delivered past a delivery while it was outstanding, and it still is.
    fn past(&self, lane: &Lane, delivered: &Delivered) -> BTreeSet<i64> {
        let Some(outstanding) = self.lanes.get(lane) else { return BTreeSet::new() };
        let is_past = |(number, fence): &(&i64, &i64)| {
            outstanding.range(..**number).any(|(_, delivery)| delivery.fence < **fence)
        };
        delivered.0.iter().filter(is_past).map(|(number, _)| *number).collect()
    }

    /// How much lanes may deliver now, at most `quota` each. Limited lanes whose earlier deliveries are not known
    /// deliver nothing.
    pub(crate) fn limits(&self, lanes: &[Lane], quota: i64, ahead: &Ahead) -> ReorderLimits {
        let mut limits = ReorderLimits::default();
        for lane in lanes {
            let oldest = self.lanes.get(lane).and_then(|outstanding| Some(*outstanding.first_key_value()?.0));
            let (messages_max, number_max, unrestricted_below) = match (oldest, ahead.get(lane)) {
                (None, _) => (None, None, None),
                (Some(_), None) => (Some(0), None, None),
                (Some(oldest), Some(delivered)) => {
                    let past = self.past(lane, delivered);
                    let left = MAILBOX_REORDER_MESSAGES_MAX.saturating_sub(past.len());
                    if left > 0 {
                        (Some(quota.min(i64::try_from(left).unwrap_or(i64::MAX))), None, None)
                    } else {
                        let top = past.last().copied().unwrap_or(oldest);
                        limits.redeliverable.extend(past);
                        (Some(quota), Some(top), Some(oldest))
                    }
                }
            };
            limits.messages_max.push(messages_max);
            limits.number_max.push(number_max);
            limits.unrestricted_below.push(unrestricted_below);
        }
        limits
    }

    /// Records a delivery, if its lane is limited. Returns how many messages were delivered past outstanding
    /// deliveries.
    pub(crate) fn record_delivery(&self, ahead: &mut Ahead, lane: &Lane, number: i64, fence: i64) -> usize {
        let Some(delivered) = ahead.get_mut(lane) else { return 0 };
        delivered.0.insert(number, fence);
        while delivered.0.len() > DELIVERED_MAX {
            let oldest = delivered.0.iter().min_by_key(|(_, fence)| **fence).map(|(number, _)| *number);
            oldest.and_then(|number| delivered.0.remove(&number));
        }
        self.past(lane, delivered).len()
    }
}

impl Delivered {
    /// From its stored form: numbers and their fences.
    pub(crate) fn new(numbers: Vec<i64>, fences: Vec<i64>) -> Self {
        Self(numbers.into_iter().zip(fences).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, i64)> {
        self.0.iter().map(|(number, fence)| (*number, *fence))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use oncebox_core::Topic;
    use uuid::Uuid;

    use super::{Ahead, DELIVERED_MAX, Delivered, Inherited, Lane, Outstanding};

    fn lane(name: &str) -> Lane {
        (Topic::new(name).unwrap(), 0)
    }

    fn uid(number: i64) -> Uuid {
        Uuid::from_u128(u128::try_from(number).unwrap())
    }

    /// Deliveries with these numbers are outstanding, with fences of the same values.
    fn with(numbers: &[i64]) -> Inherited {
        let mut inherited = Inherited::default();
        for number in numbers {
            inherited.add(
                lane("a"),
                *number,
                Outstanding { uid: uid(*number), fence: *number, extend_max: 1_000 + *number },
            );
        }
        inherited
    }

    fn nothing() -> Ahead {
        Ahead::from([(lane("a"), Delivered::default())])
    }

    /// Holds: MBX-G-9, RULE-11.
    #[test]
    fn a_lane_delivers_32_past_its_oldest_inherited_delivery_and_redelivers_those() {
        let (mut inherited, mut ahead) = (with(&[10, 12]), nothing());
        let both = [lane("a"), lane("b")];
        assert_eq!(inherited.limited_lanes(&both), [(lane("a"), 1_012)].into());
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!(limits.messages_max, [Some(20), None], "another lane is not limited");
        for number in 13..=44 {
            inherited.record_delivery(&mut ahead, &lane("a"), number, 100 + number);
        }
        assert_eq!(
            inherited.record_delivery(&mut ahead, &lane("a"), 20, 200),
            32,
            "each message counts once"
        );
        assert_eq!(
            inherited.record_delivery(&mut ahead, &lane("a"), 9, 201),
            32,
            "messages before it do not count"
        );
        assert_eq!(
            inherited.record_delivery(&mut ahead, &lane("b"), 9, 202),
            0,
            "nor do messages of lanes that are not limited"
        );
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!((limits.number_max[0], limits.unrestricted_below[0]), (Some(44), Some(10)));
        assert_eq!(limits.redeliverable, (13..=44).collect::<Vec<_>>());
        inherited.retain(&both, &BTreeSet::from([uid(12)]));
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!(limits.unrestricted_below[0], Some(12), "all of them are past the next one, too");
        inherited.retain(&both, &BTreeSet::new());
        assert_eq!(inherited.limits(&both, 20, &ahead).messages_max, [None, None]);
        assert!(inherited.is_empty());
    }

    /// A lane that no claim asks for is checked, too: a second later at the earliest, all lanes in turn, a bounded
    /// number of deliveries at a time.
    #[test]
    fn lanes_without_claims_are_checked_in_turn() {
        let mut inherited = Inherited::default();
        let outstanding = |number| Outstanding { uid: uid(number), fence: number, extend_max: 0 };
        for number in 0..1_500 {
            inherited.add(lane("large"), number, outstanding(number));
        }
        for name in ["a", "b", "z"] {
            inherited.add(lane(name), 1, outstanding(1));
        }
        let second = |number: u64| Duration::from_secs(60 + number);
        assert_eq!(inherited.lanes_to_check(second(0)), [lane("a"), lane("b")]);
        assert_eq!(inherited.lanes_to_check(second(0) + Duration::from_millis(999)), []);
        assert_eq!(inherited.lanes_to_check(second(1)), [lane("large")]);
        assert_eq!(inherited.lanes_to_check(second(2)), [lane("z")]);
        assert_eq!(inherited.lanes_to_check(second(3)), []);
        assert_eq!(inherited.lanes_to_check(second(4)), [lane("a"), lane("b")]);
    }

    #[test]
    fn a_lane_is_asked_for_what_it_may_still_deliver() {
        let (inherited, mut ahead) = (with(&[10]), nothing());
        for number in 11..=40 {
            inherited.record_delivery(&mut ahead, &lane("a"), number, 100 + number);
        }
        let limits = inherited.limits(&[lane("a")], 20, &ahead);
        assert_eq!((limits.messages_max[0], limits.number_max[0]), (Some(2), None));
        let limits = inherited.limits(&[lane("a")], 20, &Ahead::new());
        assert_eq!(limits.messages_max, [Some(0)], "what another process delivered is not known");
    }

    /// A message that was delivered before a delivery is not past it, whatever its number.
    #[test]
    fn earlier_deliveries_do_not_count() {
        let (inherited, mut ahead) = (with(&[10]), nothing());
        assert_eq!(inherited.record_delivery(&mut ahead, &lane("a"), 11, 9), 0);
        assert_eq!(inherited.record_delivery(&mut ahead, &lane("a"), 11, 12), 1, "now it is redelivered");
    }

    /// Holds: RULE-25.
    #[test]
    fn the_record_of_a_lane_is_bounded() {
        let (inherited, mut ahead) = (with(&[1]), nothing());
        for number in 2..i64::try_from(DELIVERED_MAX).unwrap() * 2 {
            inherited.record_delivery(&mut ahead, &lane("a"), number, number);
        }
        let recorded: Vec<_> = ahead[&lane("a")].iter().collect();
        assert_eq!((recorded.len(), recorded[DELIVERED_MAX - 1]), (DELIVERED_MAX, (511, 511)), "the newest");
        let (numbers, fences) = recorded.into_iter().unzip();
        assert_eq!(Delivered::new(numbers, fences), ahead[&lane("a")]);
    }
}
