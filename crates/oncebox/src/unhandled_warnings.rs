//! The topics without a handler that this process has warned about.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::Topic;
use tokio::time::Instant;

/// How often the process checks for topics without a handler and warns about them.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long after maintenance has started the first check follows.
const FIRST_CHECK_DELAY: Duration = Duration::from_secs(1);

/// The topics that this process has warned about, each kept for a minute. There are at most as many as one call to
/// `ready_topics` returns.
#[derive(Default)]
pub(crate) struct UnhandledWarnings(Mutex<WarnedTopics>);

#[derive(Default)]
struct WarnedTopics {
    topics: HashMap<Topic, Instant>,
    next: Option<Instant>,
}

impl UnhandledWarnings {
    fn lock(&self) -> MutexGuard<'_, WarnedTopics> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next check is due. Only one caller gets `true` for each check. The first check is delayed, so that
    /// workers that start together have registered their topics by then.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut warned = self.lock();
        let due = warned.next.is_some_and(|next| next <= now);
        if due || warned.next.is_none() {
            warned.next = Some(now + if due { CHECK_INTERVAL } else { FIRST_CHECK_DELAY });
        }
        due
    }

    /// The topics that this process has not warned about within the last minute.
    pub(crate) fn new_among(&self, topics: impl Iterator<Item = Topic>, now: Instant) -> Vec<Topic> {
        let mut warned = self.lock();
        warned.topics.retain(|_, at| now.duration_since(*at) < CHECK_INTERVAL);
        let new: Vec<_> = topics.filter(|topic| !warned.topics.contains_key(topic)).collect();
        warned.topics.extend(new.iter().map(|topic| (topic.clone(), now)));
        new
    }
}
