//! The topics that workers of this process handle, so that upkeep can tell which nobody does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::Topic;

/// How many workers handle each topic; bounded by the handlers in the program.
#[derive(Clone, Default)]
pub(crate) struct Handled(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    topics: BTreeMap<Topic, usize>,
    /// Workers that take every topic.
    all: usize,
}

/// Counts a worker's topics as handled until it is dropped.
pub(crate) struct Handling {
    handled: Handled,
    topics: Vec<Topic>,
    all: bool,
}

impl Handled {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Nothing here can panic halfway: what is found is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts these topics, or every topic.
    pub(crate) fn add(&self, topics: Vec<Topic>, all: bool) -> Handling {
        let mut counts = self.lock();
        counts.all += usize::from(all);
        for topic in &topics {
            *counts.topics.entry(topic.clone()).or_default() += 1;
        }
        drop(counts);
        Handling { handled: self.clone(), topics, all }
    }

    /// Whether a worker of this process handles the topic.
    pub(crate) fn contains(&self, topic: &Topic) -> bool {
        let counts = self.lock();
        counts.all > 0 || counts.topics.contains_key(topic)
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let mut counts = self.handled.lock();
        counts.all -= usize::from(self.all);
        for topic in &self.topics {
            if let Some(count) = counts.topics.get_mut(topic) {
                *count -= 1;
                if *count == 0 {
                    counts.topics.remove(topic);
                }
            }
        }
    }
}
