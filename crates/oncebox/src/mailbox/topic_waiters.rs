//! Waiting receivers, by topic. Only one receiver of a topic listens for wake-ups; the others queue for its lock, in
//! order. Otherwise each message would wake all receivers, and all but one in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use oncebox_core::Topic;

/// Held by the receiver that listens.
pub(super) type ListenerLock = Arc<tokio::sync::Mutex<()>>;

/// The listener locks of topics that receivers wait for.
#[derive(Default)]
pub(super) struct TopicWaiters(Mutex<HashMap<Topic, Weak<tokio::sync::Mutex<()>>>>);

impl TopicWaiters {
    pub(super) fn of(&self, topic: &Topic) -> ListenerLock {
        // No code here panics while it holds the lock, so the map is consistent even if the lock is poisoned.
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(topic).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = ListenerLock::default();
        locks.insert(topic.clone(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncebox_core::Topic;

    use super::TopicWaiters;

    #[test]
    fn waiters_of_a_topic_share_a_lock_and_unused_locks_are_removed() {
        let locks = TopicWaiters::default();
        let topic = |name: &str| Topic::new(name).unwrap();
        let (one, same, other) = (locks.of(&topic("a")), locks.of(&topic("a")), locks.of(&topic("b")));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other));
        drop((one, same, other));
        for number in 0..100 {
            drop(locks.of(&topic(&number.to_string())));
        }
        assert_eq!(locks.0.lock().unwrap().len(), 1);
    }
}
