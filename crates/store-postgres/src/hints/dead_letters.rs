//! Where the retention of dead letters continues, and which topics have more dead letters than before.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of topics remembered because their number of dead letters grew. Topics beyond it are found by the
/// round through all topics.
const GROWN_MAX: usize = 4_096;

/// Where the next maintenance run of this process starts. A hint: starting at the first topic is correct, too.
#[derive(Default)]
pub(crate) struct DeadLetterTopics(Mutex<State>);

#[derive(Default)]
struct State {
    /// Where the round through all topics continues.
    next_topic: String,
    grown: BTreeSet<String>,
}

impl DeadLetterTopics {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the round continues.
    pub(crate) fn next_topic(&self) -> String {
        self.lock().next_topic.clone()
    }

    pub(crate) fn set_next_topic(&self, topic: String) {
        self.lock().next_topic = topic;
    }

    /// Records topics whose number of dead letters grew.
    pub(crate) fn mark_grown(&self, topics: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        for topic in topics {
            if state.grown.len() < GROWN_MAX {
                state.grown.insert(topic);
            }
        }
    }

    /// At most `limit` of the topics whose number of dead letters grew.
    pub(crate) fn grown(&self, limit: usize) -> Vec<String> {
        self.lock().grown.iter().take(limit).cloned().collect()
    }

    /// Removes topics that were checked. Returns whether others are left.
    pub(crate) fn mark_checked<'a>(&self, topics: impl IntoIterator<Item = &'a str>) -> bool {
        let mut state = self.lock();
        for topic in topics {
            state.grown.remove(topic);
        }
        !state.grown.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{DeadLetterTopics, GROWN_MAX};

    /// Holds: RULE-25.
    #[test]
    fn grown_topics_are_bounded() {
        let topics = DeadLetterTopics::default();
        topics.mark_grown((0..GROWN_MAX + 10).map(|number| format!("{number:05}")));
        assert_eq!(topics.grown(usize::MAX).len(), GROWN_MAX);
        assert_eq!(topics.grown(2), ["00000", "00001"]);
        assert!(topics.mark_checked(["00000", "unknown"]));
        assert_eq!(topics.grown(1), ["00001"]);
    }
}
