//! Dead letters that are no longer required to be kept, by topic. Finds the next one to forget, by age or by count,
//! without scanning topics that are within their retention.

use std::collections::{BTreeSet, HashMap};

use super::arena::Slot;
use super::lanes::Lanes;
use super::sorted::Sorted;
use crate::id::Number;
use crate::key::Namespace;
use crate::port::{DeadLetters, Retention};
use crate::time::Timestamp;

/// When a dead letter died, and its number.
type Age = (Timestamp, Number);

/// The topics that have a retention of their own.
pub(super) type TopicRetentions = HashMap<Slot, Retention>;

/// The retentions of the topics that are in memory.
pub(super) fn topic_retentions(lanes: &Lanes, retention: &DeadLetters) -> TopicRetentions {
    let topics = retention.topics.iter();
    topics.filter_map(|(name, own)| Some((lanes.find_topic(Namespace::Mailbox, name)?, *own))).collect()
}

#[derive(Default)]
pub(super) struct DeadLetterIndex {
    /// By topic; `Slot::NONE` holds those without content.
    topics: HashMap<Slot, Sorted<Age>>,
    /// Topics by their oldest dead letter, and by the number of dead letters.
    oldest: BTreeSet<(Age, Slot)>,
    largest: BTreeSet<(usize, Slot)>,
}

impl DeadLetterIndex {
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

    /// The oldest dead letter of a topic, if the topic exceeds its retention.
    pub(super) fn over(&self, topic: Slot, retention: Retention, now: Timestamp) -> Option<Slot> {
        let letters = self.topics.get(&topic)?;
        let (_, letter) = letters.first()?;
        due(letters, retention, now).is_some_and(|due| due <= now).then_some(letter)
    }

    /// A topic without a retention of its own that exceeds the default.
    pub(super) fn next_topic_over(
        &self,
        default: Retention,
        own: &TopicRetentions,
        now: Timestamp,
    ) -> Option<Slot> {
        self.topics_with_default(own).find(|topic| self.over(*topic, default, now).is_some())
    }

    /// When a topic will next exceed its retention; `now` if one does already.
    pub(super) fn next_due(
        &self,
        default: Retention,
        own: &TopicRetentions,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let own_retentions = own.iter().map(|(topic, own)| (*topic, *own));
        let candidates = own_retentions.chain(self.topics_with_default(own).map(|topic| (topic, default)));
        let letters = candidates.filter_map(|(topic, own)| Some((self.topics.get(&topic)?, own)));
        letters.filter_map(|(letters, retention)| due(letters, retention, now)).min()
    }

    /// Among the topics without a retention of their own, the one with the oldest dead letter and the one with the
    /// most: if these are within the default, all are.
    fn topics_with_default(&self, own: &TopicRetentions) -> impl Iterator<Item = Slot> {
        let has_default = |topic: &Slot| !own.contains_key(topic);
        let oldest = self.oldest.iter().map(|(_, topic)| *topic).find(has_default);
        let largest = self.largest.iter().rev().map(|(_, topic)| *topic).find(has_default);
        oldest.into_iter().chain(largest)
    }
}

/// When the oldest of these dead letters exceeds the retention; `now` if there are too many of them.
fn due(letters: &Sorted<Age>, retention: Retention, now: Timestamp) -> Option<Timestamp> {
    let ((died, _), _) = letters.first()?;
    let too_many = retention.messages_max.is_some_and(|max| letters.len() > max as usize);
    let by_age = retention.keep.map(|keep| died.after(keep));
    if too_many { Some(now) } else { by_age }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DeadLetterIndex, TopicRetentions};
    use crate::id::Number;
    use crate::machine::arena::{Arena, Slot};
    use crate::port::Retention;
    use crate::time::Timestamp;

    fn retention(keep_ms: u64, messages_max: u32) -> Retention {
        Retention { keep: Some(Duration::from_millis(keep_ms)), messages_max: Some(messages_max) }
    }

    /// A topic with a longer retention has the oldest and the most dead letters, and hides no other topic that is over.
    #[test]
    fn a_topic_with_its_own_retention_hides_no_other() {
        let mut slots = Arena::default();
        let [long, other, letter] = [0; 3].map(|row| slots.insert(row));
        let mut letters = DeadLetterIndex::default();
        for died in 0..10 {
            letters.insert(long, (Timestamp::from_millis(died), Number(died)), letter);
        }
        letters.insert(other, (Timestamp::from_millis(50), Number(50)), letter);
        let own = TopicRetentions::from([(long, retention(1_000, 100))]);
        let at = |millis| Timestamp::from_millis(millis);
        assert_eq!(letters.next_due(retention(100, 5), &own, at(149)), Some(at(150)));
        assert_eq!(letters.next_topic_over(retention(100, 5), &own, at(149)), None);
        assert_eq!(letters.next_topic_over(retention(100, 5), &own, at(150)), Some(other));
        assert_eq!(letters.over(long, retention(1_000, 100), at(999)), None);
        assert_eq!(letters.over(long, retention(1_000, 100), at(1_000)), Some(letter));
        assert_eq!(
            letters.next_topic_over(retention(100, 5), &TopicRetentions::new(), at(20)),
            Some(long),
            "by count"
        );
        letters.remove(other, (at(50), Number(50)));
        assert_eq!(letters.over(other, retention(0, 0), at(1_000)), None);
        assert_eq!(letters.topics.len(), 1, "a topic without dead letters has no entry");
        assert_eq!(letters.over(Slot::NONE, retention(0, 0), at(1_000)), None);
    }
}
