//! Dead letters that need not be kept any longer, by topic: which one goes next, by age or by number, without looking at
//! topics that are within their retention.

use std::collections::{BTreeSet, HashMap};

use super::arena::Slot;
use super::lanes::Lanes;
use super::sorted::Sorted;
use crate::id::Number;
use crate::key::Namespace;
use crate::port::{DeadLetters, Retention};
use crate::time::Timestamp;

/// When a letter died, and its number.
type Age = (Timestamp, Number);

/// Topics with a retention of their own.
pub(super) type Own = HashMap<Slot, Retention>;

/// Those of the topics with a retention of their own that are here.
pub(super) fn own(lanes: &Lanes, retention: &DeadLetters) -> Own {
    let topics = retention.topics.iter();
    topics.filter_map(|(name, own)| Some((lanes.find_topic(Namespace::Mailbox, name)?, *own))).collect()
}

#[derive(Default)]
pub(super) struct Letters {
    /// By topic; `Slot::NONE` has those without content.
    topics: HashMap<Slot, Sorted<Age>>,
    /// Topics by their oldest letter, and by how many they have.
    oldest: BTreeSet<(Age, Slot)>,
    largest: BTreeSet<(usize, Slot)>,
}

impl Letters {
    pub(super) fn insert(&mut self, topic: Slot, age: Age, letter: Slot) {
        self.change(topic, |letters| letters.insert(age, letter));
    }

    pub(super) fn remove(&mut self, topic: Slot, age: Age) {
        self.change(topic, |letters| letters.remove(age));
    }

    fn change(&mut self, topic: Slot, change: impl FnOnce(&mut Sorted<Age>)) {
        let letters = self.topics.entry(topic).or_default();
        let before = (letters.first(), letters.len());
        change(letters);
        let after = (letters.first(), letters.len());
        if letters.is_empty() {
            self.topics.remove(&topic);
        }
        if let (Some((age, _)), count) = before {
            self.oldest.remove(&(age, topic));
            self.largest.remove(&(count, topic));
        }
        if let (Some((age, _)), count) = after {
            self.oldest.insert((age, topic));
            self.largest.insert((count, topic));
        }
    }

    /// The oldest letter of a topic, if the topic is over its retention.
    pub(super) fn over(&self, topic: Slot, retention: Retention, now: Timestamp) -> Option<Slot> {
        let letters = self.topics.get(&topic)?;
        let (_, letter) = letters.first()?;
        due(letters, retention, now).is_some_and(|due| due <= now).then_some(letter)
    }

    /// A topic without a retention of its own that is over the default.
    pub(super) fn next_over(&self, default: Retention, own: &Own, now: Timestamp) -> Option<Slot> {
        self.usual(own).find(|topic| self.over(*topic, default, now).is_some())
    }

    /// When a topic is over its retention next; `now` if one is.
    pub(super) fn next_due(&self, default: Retention, own: &Own, now: Timestamp) -> Option<Timestamp> {
        let own_ones = own.iter().map(|(topic, own)| (*topic, *own));
        let candidates = own_ones.chain(self.usual(own).map(|topic| (topic, default)));
        let letters = candidates.filter_map(|(topic, own)| Some((self.topics.get(&topic)?, own)));
        letters.filter_map(|(letters, retention)| due(letters, retention, now)).min()
    }

    /// Of the topics without a retention of their own, the one with the oldest letter and the one with the most: if these are
    /// within the default, all are.
    fn usual(&self, own: &Own) -> impl Iterator<Item = Slot> {
        let is_usual = |topic: &Slot| !own.contains_key(topic);
        let oldest = self.oldest.iter().map(|(_, topic)| *topic).find(is_usual);
        let largest = self.largest.iter().rev().map(|(_, topic)| *topic).find(is_usual);
        oldest.into_iter().chain(largest)
    }
}

/// When the oldest of these letters is over the retention; `now` if it is, because they are too many.
fn due(letters: &Sorted<Age>, retention: Retention, now: Timestamp) -> Option<Timestamp> {
    let ((died, _), _) = letters.first()?;
    let crowded = retention.messages_max.is_some_and(|max| letters.len() > max as usize);
    let by_age = retention.keep.map(|keep| died.after(keep));
    if crowded { Some(now) } else { by_age }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Letters, Own};
    use crate::id::Number;
    use crate::machine::arena::{Arena, Slot};
    use crate::port::Retention;
    use crate::time::Timestamp;

    fn retention(keep_ms: u64, messages_max: u32) -> Retention {
        Retention { keep: Some(Duration::from_millis(keep_ms)), messages_max: Some(messages_max) }
    }

    /// A topic that is kept for longer is the oldest and the largest, and hides no other that is over.
    #[test]
    fn a_topic_with_its_own_retention_hides_no_other() {
        let mut slots = Arena::default();
        let [long, usual, letter] = [0; 3].map(|row| slots.insert(row));
        let mut letters = Letters::default();
        for died in 0..10 {
            letters.insert(long, (Timestamp::from_millis(died), Number(died)), letter);
        }
        letters.insert(usual, (Timestamp::from_millis(50), Number(50)), letter);
        let own = Own::from([(long, retention(1_000, 100))]);
        let at = |millis| Timestamp::from_millis(millis);
        assert_eq!(letters.next_due(retention(100, 5), &own, at(149)), Some(at(150)));
        assert_eq!(letters.next_over(retention(100, 5), &own, at(149)), None);
        assert_eq!(letters.next_over(retention(100, 5), &own, at(150)), Some(usual));
        assert_eq!(letters.over(long, retention(1_000, 100), at(999)), None);
        assert_eq!(letters.over(long, retention(1_000, 100), at(1_000)), Some(letter));
        assert_eq!(letters.next_over(retention(100, 5), &Own::new(), at(20)), Some(long), "by number");
        letters.remove(usual, (at(50), Number(50)));
        assert_eq!(letters.over(usual, retention(0, 0), at(1_000)), None);
        assert_eq!(letters.topics.len(), 1, "a topic without letters takes no room");
        assert_eq!(letters.over(Slot::NONE, retention(0, 0), at(1_000)), None);
    }
}
