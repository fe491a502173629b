//! Where the retention of dead letters goes on, and which topics have more of them than before.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Topics that are remembered because they have more letters than before. What is beyond them is found by the round through all topics.
const GROWN_MAX: usize = 4_096;

/// What the next upkeep of this process begins with: a hint, the first topic is as good.
#[derive(Default)]
pub(crate) struct Letters(Mutex<Next>);

#[derive(Default)]
struct Next {
    /// The round through all topics goes on from here.
    from: String,
    grown: BTreeSet<String>,
}

impl Letters {
    fn lock(&self) -> MutexGuard<'_, Next> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the round goes on.
    pub(crate) fn from(&self) -> String {
        self.lock().from.clone()
    }

    pub(crate) fn go_on_from(&self, topic: String) {
        self.lock().from = topic;
    }

    /// Notes topics that have more letters than before.
    pub(crate) fn grew(&self, topics: impl IntoIterator<Item = String>) {
        let mut next = self.lock();
        for topic in topics {
            if next.grown.len() < GROWN_MAX {
                next.grown.insert(topic);
            }
        }
    }

    /// Some of the topics that have more letters than before, as many as this.
    pub(crate) fn grown(&self, most: usize) -> Vec<String> {
        self.lock().grown.iter().take(most).cloned().collect()
    }

    /// These topics were checked. Answers whether others are left.
    pub(crate) fn checked<'a>(&self, topics: impl IntoIterator<Item = &'a str>) -> bool {
        let mut next = self.lock();
        for topic in topics {
            next.grown.remove(topic);
        }
        !next.grown.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{GROWN_MAX, Letters};

    /// Holds: RULE-25.
    #[test]
    fn the_topics_that_grew_are_bounded() {
        let letters = Letters::default();
        letters.grew((0..GROWN_MAX + 10).map(|number| format!("{number:05}")));
        assert_eq!(letters.grown(usize::MAX).len(), GROWN_MAX);
        assert_eq!(letters.grown(2), ["00000", "00001"]);
        assert!(letters.checked(["00000", "unknown"]));
        assert_eq!(letters.grown(1), ["00001"]);
    }
}
