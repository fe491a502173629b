//! The topics that workers of this process handle, so that maintenance can warn about the others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::Topic;

/// The number of workers for each topic; bounded by the number of handlers in the program.
#[derive(Clone, Default)]
pub(crate) struct HandledTopics(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    topics: BTreeMap<Topic, usize>,
    /// Workers that claim every topic.
    all: usize,
}

/// Counts the topics of a worker as handled until it is dropped.
pub(crate) struct TopicRegistration {
    handled: HandledTopics,
    topics: Vec<Topic>,
    all: bool,
}

impl HandledTopics {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts these topics, or every topic if `all` is set, until the registration is dropped.
    pub(crate) fn add(&self, topics: Vec<Topic>, all: bool) -> TopicRegistration {
        let mut counts = self.lock();
        counts.all += usize::from(all);
        for topic in &topics {
            *counts.topics.entry(topic.clone()).or_default() += 1;
        }
        drop(counts);
        TopicRegistration { handled: self.clone(), topics, all }
    }

    /// Whether a worker of this process handles the topic.
    pub(crate) fn contains(&self, topic: &Topic) -> bool {
        let counts = self.lock();
        counts.all > 0 || counts.topics.contains_key(topic)
    }
}

impl Drop for TopicRegistration {
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
