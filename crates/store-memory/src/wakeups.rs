//! Wakes those who wait for work: each listener has its own bell rope, rung when its topics become claimable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use oncebox_core::{Interest, Namespace, Topic, Wakeups};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Bell {
    listeners: Mutex<Vec<Weak<Listener>>>,
    closed: Arc<AtomicBool>,
}

struct Listener {
    interest: Interest,
    notify: Notify,
    closed: Arc<AtomicBool>,
}

impl Bell {
    pub(crate) fn listen(&self, interest: Interest) -> Box<dyn Wakeups> {
        let listener =
            Arc::new(Listener { interest, notify: Notify::new(), closed: Arc::clone(&self.closed) });
        let mut listeners = self.lock();
        // Those who stopped listening are swept out here, so the list is no longer than there are listeners.
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        Box::new(Rope(listener))
    }

    pub(crate) fn ring(&self, namespace: Namespace, topic: &Topic) {
        self.each(|listener| {
            let Interest { namespace: wanted, topics } = &listener.interest;
            if *wanted == namespace && topics.contains(topic) {
                listener.notify.notify_one();
            }
        });
    }

    /// Wakes everybody, now and from now on, so that they find the store closed.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.each(|listener| listener.notify.notify_one());
    }

    fn each(&self, tell: impl Fn(&Listener)) {
        self.lock().iter().filter_map(Weak::upgrade).for_each(|listener| tell(&listener));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Listener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Rope(Arc<Listener>);

#[async_trait]
impl Wakeups for Rope {
    async fn wait(&mut self) {
        // Whoever looks before the flag is set finds the bell rung after it.
        if !self.0.closed.load(Ordering::SeqCst) {
            self.0.notify.notified().await;
        }
    }
}
