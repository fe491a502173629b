//! How far a lane may run ahead: what is out from before, what was given out past it, and how much may still be. Knows no database.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use uuid::Uuid;

use crate::hints::Lane;

/// Messages given out that are kept of a lane, the newest: several times as many as may be given out past one delivery, for processes do not
/// inherit the same deliveries.
const KEPT_MAX: usize = 256;

/// A delivery that was out when this process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) uid: Uuid,
    pub(crate) fence: i64,
    /// No extension moves its end past this.
    pub(crate) extend_max: i64,
}

/// Inherited deliveries that are still out, by lane and number.
#[derive(Default)]
pub(crate) struct Inherited(HashMap<Lane, BTreeMap<i64, Out>>);

/// Messages of a lane that processes which began gave out: the fence of each by its number. They share this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Given(BTreeMap<i64, i64>);

/// What all processes that began gave out of lanes.
pub(crate) type Ahead = HashMap<Lane, Given>;

/// How much a lane may give: per lane as `work_1` takes it, null where nothing holds it back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// So many messages.
    pub(crate) messages: Vec<Option<i64>>,
    /// Up to this number.
    pub(crate) tops: Vec<Option<i64>>,
    /// Below this number any, above it only those that were given out before.
    pub(crate) free_below: Vec<Option<i64>>,
    /// What was given out before.
    pub(crate) again: Vec<i64>,
}

impl Inherited {
    pub(crate) fn add(&mut self, lane: Lane, number: i64, out: Out) {
        self.0.entry(lane).or_default().insert(number, out);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of the lanes that are held back, each once and in one order, and when that is over at the latest.
    pub(crate) fn held(&self, lanes: &[Lane]) -> BTreeMap<Lane, i64> {
        let held = lanes.iter().filter_map(|lane| Some((lane, self.0.get(lane)?)));
        let latest = |outs: &BTreeMap<i64, Out>| outs.values().map(|out| out.extend_max).max();
        held.filter_map(|(lane, outs)| Some((lane.clone(), latest(outs)?))).collect()
    }

    /// Which deliveries of these lanes are believed to be out.
    pub(crate) fn out(&self, lanes: &[Lane]) -> (Vec<Uuid>, Vec<i64>) {
        let outs = lanes.iter().filter_map(|lane| self.0.get(lane));
        outs.flat_map(|outs| outs.values().map(|out| (out.uid, out.fence))).unzip()
    }

    /// Only these deliveries of the lanes are still out.
    pub(crate) fn retain(&mut self, lanes: &[Lane], still: &BTreeSet<Uuid>) {
        for lane in lanes {
            if let Some(outs) = self.0.get_mut(lane) {
                outs.retain(|_, out| still.contains(&out.uid));
                if outs.is_empty() {
                    self.0.remove(lane);
                }
            }
        }
    }

    /// Numbers that were given out past a delivery that is still out, while it was.
    fn past(&self, lane: &Lane, given: &Given) -> BTreeSet<i64> {
        let Some(outs) = self.0.get(lane) else { return BTreeSet::new() };
        let is_past =
            |(number, fence): &(&i64, &i64)| outs.range(..**number).any(|(_, out)| out.fence < **fence);
        given.0.iter().filter(is_past).map(|(number, _)| *number).collect()
    }

    /// How much lanes may give now, at most `quota` each. Lanes that are held back and whose past is not known give nothing.
    pub(crate) fn limits(&self, lanes: &[Lane], quota: i64, ahead: &Ahead) -> Limits {
        let mut limits = Limits::default();
        for lane in lanes {
            let oldest = self.0.get(lane).and_then(|outs| Some(*outs.first_key_value()?.0));
            let (messages, top, free_below) = match (oldest, ahead.get(lane)) {
                (None, _) => (None, None, None),
                (Some(_), None) => (Some(0), None, None),
                (Some(oldest), Some(given)) => {
                    let past = self.past(lane, given);
                    let left = MAILBOX_REORDER_MESSAGES_MAX.saturating_sub(past.len());
                    if left > 0 {
                        (Some(quota.min(i64::try_from(left).unwrap_or(i64::MAX))), None, None)
                    } else {
                        let top = past.last().copied().unwrap_or(oldest);
                        limits.again.extend(past);
                        (Some(quota), Some(top), Some(oldest))
                    }
                }
            };
            limits.messages.push(messages);
            limits.tops.push(top);
            limits.free_below.push(free_below);
        }
        limits
    }

    /// Notes that a message was given out, if its lane is held back. Answers how many were, past what is out.
    pub(crate) fn give(&self, ahead: &mut Ahead, lane: &Lane, number: i64, fence: i64) -> usize {
        let Some(given) = ahead.get_mut(lane) else { return 0 };
        given.0.insert(number, fence);
        while given.0.len() > KEPT_MAX {
            let oldest = given.0.iter().min_by_key(|(_, fence)| **fence).map(|(number, _)| *number);
            oldest.and_then(|number| given.0.remove(&number));
        }
        self.past(lane, given).len()
    }
}

impl Given {
    /// As it is stored: numbers, and their fences.
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

    use oncebox_core::Topic;
    use uuid::Uuid;

    use super::{Ahead, Given, Inherited, KEPT_MAX, Lane, Out};

    fn lane(name: &str) -> Lane {
        (Topic::new(name).unwrap(), 0)
    }

    fn uid(number: i64) -> Uuid {
        Uuid::from_u128(u128::try_from(number).unwrap())
    }

    /// Deliveries with these numbers are out, under fences that are as high.
    fn with(numbers: &[i64]) -> Inherited {
        let mut inherited = Inherited::default();
        for number in numbers {
            inherited.add(
                lane("a"),
                *number,
                Out { uid: uid(*number), fence: *number, extend_max: 1_000 + *number },
            );
        }
        inherited
    }

    fn nothing() -> Ahead {
        Ahead::from([(lane("a"), Given::default())])
    }

    /// Holds: MBX-G-9, RULE-11.
    #[test]
    fn a_lane_gives_32_past_its_oldest_inherited_delivery_and_those_again() {
        let (mut inherited, mut ahead) = (with(&[10, 12]), nothing());
        let both = [lane("a"), lane("b")];
        assert_eq!(inherited.held(&both), [(lane("a"), 1_012)].into());
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!(limits.messages, [Some(20), None], "another lane is not held back");
        for number in 13..=44 {
            inherited.give(&mut ahead, &lane("a"), number, 100 + number);
        }
        assert_eq!(inherited.give(&mut ahead, &lane("a"), 20, 200), 32, "each counts once");
        assert_eq!(inherited.give(&mut ahead, &lane("a"), 9, 201), 32, "what is before it does not count");
        assert_eq!(inherited.give(&mut ahead, &lane("b"), 9, 202), 0, "nor does what is not held back");
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!((limits.tops[0], limits.free_below[0]), (Some(44), Some(10)));
        assert_eq!(limits.again, (13..=44).collect::<Vec<_>>());
        inherited.retain(&both, &BTreeSet::from([uid(12)]));
        let limits = inherited.limits(&both, 20, &ahead);
        assert_eq!(limits.free_below[0], Some(12), "all of it is past the next one too");
        inherited.retain(&both, &BTreeSet::new());
        assert_eq!(inherited.limits(&both, 20, &ahead).messages, [None, None]);
        assert!(inherited.is_empty());
    }

    #[test]
    fn what_a_lane_may_still_give_is_asked_for() {
        let (inherited, mut ahead) = (with(&[10]), nothing());
        for number in 11..=40 {
            inherited.give(&mut ahead, &lane("a"), number, 100 + number);
        }
        let limits = inherited.limits(&[lane("a")], 20, &ahead);
        assert_eq!((limits.messages[0], limits.tops[0]), (Some(2), None));
        let limits = inherited.limits(&[lane("a")], 20, &Ahead::new());
        assert_eq!(limits.messages, [Some(0)], "another process has not said what it gave out");
    }

    /// What was given out before a delivery was is not past it, whatever its number.
    #[test]
    fn what_was_given_out_earlier_does_not_count() {
        let (inherited, mut ahead) = (with(&[10]), nothing());
        assert_eq!(inherited.give(&mut ahead, &lane("a"), 11, 9), 0);
        assert_eq!(inherited.give(&mut ahead, &lane("a"), 11, 12), 1, "now it is given out again");
    }

    /// Holds: RULE-25.
    #[test]
    fn what_is_kept_of_a_lane_is_bounded() {
        let (inherited, mut ahead) = (with(&[1]), nothing());
        for number in 2..i64::try_from(KEPT_MAX).unwrap() * 2 {
            inherited.give(&mut ahead, &lane("a"), number, number);
        }
        let kept: Vec<_> = ahead[&lane("a")].iter().collect();
        assert_eq!((kept.len(), kept[KEPT_MAX - 1]), (KEPT_MAX, (511, 511)), "the newest");
        let (numbers, fences) = kept.into_iter().unzip();
        assert_eq!(Given::new(numbers, fences), ahead[&lane("a")]);
    }
}
